use std::io;
use std::path::{Path, PathBuf};

/// Why the cluster does not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A program was never built.
    #[error("{0} is not there; build it with `make cluster`")]
    NotBuilt(PathBuf),
    /// A file or process of the cluster cannot be used.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file or program.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A certificate cannot be made.
    #[error("cannot make the certificate of {subject}: {source}")]
    Certificate {
        /// Whose.
        subject: String,
        /// Why not.
        source: rcgen::Error,
    },
    /// A program ended by itself.
    #[error("{program} ended ({status}); the end of its log:\n{log}")]
    Ended {
        /// Its name.
        program: &'static str,
        /// Its exit status.
        status: String,
        /// The last lines it wrote.
        log: String,
    },
    /// A condition was not met in time.
    #[error("waited {seconds} s in vain until {what}; last seen: {seen}")]
    TimedOut {
        /// The condition.
        what: String,
        /// How long it was waited for.
        seconds: u64,
        /// What there was in its place.
        seen: String,
    },
    /// kubectl failed.
    #[error("kubectl {arguments} failed: {message}")]
    Kubectl {
        /// What it was asked.
        arguments: String,
        /// What it said.
        message: String,
    },
    /// A cluster runs already, or none does.
    #[error("{0}")]
    State(String),
}

impl ClusterError {
    /// For `map_err` on what is done with a path.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
