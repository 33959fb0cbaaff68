//! One program of the cluster, its log in a file.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::ClusterError;

/// Lines of a log shown when a program ended by itself.
const LINES_SHOWN: usize = 20;

/// A running program, killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program. What it writes goes to `FOLDER/NAME.log`.
    pub fn start(name: &'static str, command: &mut Command, folder: &Path) -> Result<Self, ClusterError> {
        let log = folder.join(format!("{name}.log"));
        let output = File::create(&log).map_err(ClusterError::io("write", &log))?;
        let errors = output.try_clone().map_err(ClusterError::io("write", &log))?;
        let program = PathBuf::from(command.get_program());
        let child = command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(ClusterError::io("start", &program))?;
        Ok(Self { name, child, log })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it has written.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Makes sure that it still runs.
    ///
    /// # Errors
    /// It ended; the end of its log is in the error.
    pub fn check(&mut self) -> Result<(), ClusterError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => {
                let log = self.log();
                let lines: Vec<&str> = log.lines().collect();
                let end = lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n");
                Err(ClusterError::Ended { program: self.name, status: status.to_string(), log: end })
            }
            Err(source) => Err(ClusterError::Io { action: "watch", path: self.name.into(), source }),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
