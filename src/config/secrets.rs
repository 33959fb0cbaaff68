//! Scrape credentials from a folder laid out as Secrets are: `NAMESPACE/NAME/KEY`.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use headroom_adapter::scrape::{ClientIdentity, Credentials};

use crate::api::{AutoscalerSpec, SecretRef};

/// Why a Secret cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// No folder was named.
    #[error("{field} of {object} names a Secret; say where Secrets are with --secrets-dir")]
    NoFolder {
        /// The field.
        field: &'static str,
        /// The autoscaler.
        object: String,
    },
    /// It cannot be read.
    #[error("{field} of {object}: cannot read {path}: {source}")]
    Read {
        /// The field.
        field: &'static str,
        /// The autoscaler.
        object: String,
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The token has characters that no header can carry.
    #[error("{field} of {object}: the token has characters that no header can carry")]
    Token {
        /// The field.
        field: &'static str,
        /// The autoscaler.
        object: String,
    },
}

/// A folder of Secrets.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    folder: Option<PathBuf>,
}

impl Secrets {
    /// Secrets in a folder, or none.
    pub fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    /// What an autoscaler needs to scrape.
    ///
    /// # Errors
    /// A Secret that it names cannot be used.
    pub fn credentials(&self, spec: &AutoscalerSpec) -> Result<Credentials, SecretError> {
        let secrets = &spec.secrets;
        let authorization = match &secrets.bearer_token {
            None => None,
            Some(reference) => {
                let token = String::from_utf8(self.read(spec, reference)?).ok();
                let header = token.and_then(|token| Credentials::bearer(&token).ok());
                let object = spec.key.to_string();
                Some(header.ok_or(SecretError::Token { field: reference.field, object })?)
            }
        };
        let authorities = match &secrets.authorities {
            None => None,
            Some(reference) => Some(Arc::from(self.read(spec, reference)?)),
        };
        let client = match &secrets.client {
            None => None,
            Some((certificate, key)) => Some(ClientIdentity {
                certificate: Arc::from(self.read(spec, certificate)?),
                key: Arc::from(self.read(spec, key)?),
            }),
        };
        Ok(Credentials { authorization, authorities, client })
    }

    /// Names and keys were validated: neither can lead out of the folder.
    fn read(&self, spec: &AutoscalerSpec, reference: &SecretRef) -> Result<Vec<u8>, SecretError> {
        let object = spec.key.to_string();
        let Some(folder) = &self.folder else {
            return Err(SecretError::NoFolder { field: reference.field, object });
        };
        let path = folder.join(&*spec.key.namespace).join(&reference.name).join(&reference.key);
        std::fs::read(&path).map_err(|source| SecretError::Read {
            field: reference.field,
            object,
            path: path.display().to_string(),
            source,
        })
    }
}
