//! What must survive a restart, in a folder: one file an autoscaler, replaced whole.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use headroom_policies::Persisted;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::override_by_hand::OverrideByHand;
use crate::api::Key;

/// Why state cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The folder cannot be used.
    #[error("cannot use the state folder {path}: {source}")]
    Folder {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write the state of {object} to {path}: {source}")]
    Write {
        /// The autoscaler.
        object: String,
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A file cannot be read, or not understood.
    #[error("cannot read the state of {object} from {path}: {message}")]
    Read {
        /// The autoscaler.
        object: String,
        /// The file.
        path: String,
        /// Why.
        message: String,
    },
}

/// The state of one autoscaler.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Stored {
    /// Scale events, last size, last decision.
    pub history: Persisted,
    /// What was set by hand.
    pub by_hand: OverrideByHand,
}

/// A folder of states, or none.
#[derive(Debug, Clone, Default)]
pub struct StateDir {
    folder: Option<PathBuf>,
}

impl StateDir {
    /// Keeps nothing.
    pub fn none() -> Self {
        Self::default()
    }

    /// Keeps state in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn open(folder: &Path) -> Result<Self, StateError> {
        let failed = |source| StateError::Folder { path: folder.display().to_string(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        // A folder that cannot be written is better known at once.
        tempfile::tempfile_in(folder).map_err(failed)?;
        Ok(Self { folder: Some(folder.to_owned()) })
    }

    fn file(&self, key: &Key) -> Option<PathBuf> {
        // Neither part can hold an underscore, so two autoscalers never share a file.
        self.folder.as_ref().map(|folder| folder.join(format!("{}_{}.json", key.namespace, key.name)))
    }

    /// The state of an autoscaler; the default where none was kept.
    ///
    /// # Errors
    /// There is one and it cannot be read.
    pub fn read(&self, key: &Key) -> Result<Stored, StateError> {
        let Some(path) = self.file(key) else { return Ok(Stored::default()) };
        let failed =
            |message: String| StateError::Read { object: key.to_string(), path: path.display().to_string(), message };
        match std::fs::read(&path) {
            Ok(json) => match serde_json::from_slice(&json) {
                Ok(stored @ Value::Object(_)) => {
                    serde_json::from_value(stored).map_err(|error| failed(error.to_string()))
                }
                Ok(_) => Err(failed("it is no JSON object".to_owned())),
                Err(error) => Err(failed(error.to_string())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Stored::default()),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Keeps the state of an autoscaler: after a crash there is the old file or the new one, whole.
    ///
    /// # Errors
    /// It was not written.
    pub fn write(&self, key: &Key, stored: &Stored) -> Result<(), StateError> {
        let (Some(folder), Some(path)) = (&self.folder, self.file(key)) else { return Ok(()) };
        let write = || {
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(&serde_json::to_vec(stored)?)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            File::open(folder)?.sync_all()
        };
        write().map_err(|source| StateError::Write {
            object: key.to_string(),
            path: path.display().to_string(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use headroom_policies::Replicas;

    use super::*;

    #[test]
    fn state_reads_back_and_a_broken_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(&folder.path().join("state")).unwrap();
        let key = Key { namespace: "chat".into(), name: "chat-70b".into() };
        assert_eq!(state.read(&key).unwrap(), Stored::default());
        let mut stored = Stored::default();
        stored.history.last_desired = Some(Replicas::new(7));
        state.write(&key, &stored).unwrap();
        assert_eq!(state.read(&key).unwrap(), stored);
        std::fs::write(folder.path().join("state/chat_chat-70b.json"), "{").unwrap();
        let error = state.read(&key).unwrap_err().to_string();
        assert!(error.contains("chat/chat-70b"), "{error}");
    }
}
