//! What is scraped and how.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Uri};

/// The identity of a target: that of its pod and port, never an address that another pod can get.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(Arc<str>);

impl TargetId {
    /// An identity, e.g. `uid/port` or an endpoint's URL.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The identity as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One model server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its identity.
    pub id: TargetId,
    /// Where its page is.
    pub url: Uri,
}

/// How the targets of a fleet are scraped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrapeSettings {
    /// From one scrape of a target to the next.
    pub interval: Duration,
    /// For a whole scrape, from connecting to the last byte.
    pub timeout: Duration,
    /// Until when a sample is fresh; a slow target is never read less often than that allows.
    pub max_age: Duration,
    /// Some target speaks TLS.
    pub tls: bool,
    /// What proves who we are and who they are.
    pub credentials: Credentials,
}

impl Default for ScrapeSettings {
    /// Every 5 s, within 1 s, fresh for 15 s, with no credentials.
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(5),
            timeout: Duration::from_secs(1),
            max_age: Duration::from_secs(15),
            tls: false,
            credentials: Credentials::default(),
        }
    }
}

/// Secrets for scraping. Never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// The value of the Authorization header.
    pub authorization: Option<HeaderValue>,
    /// PEM certificates of authorities to trust in place of the system's.
    pub authorities: Option<Arc<[u8]>>,
    /// PEM certificate chain and key to show.
    pub client: Option<ClientIdentity>,
}

/// A certificate chain with its key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientIdentity {
    /// The chain.
    pub certificate: Arc<[u8]>,
    /// The key.
    pub key: Arc<[u8]>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("authorization", &self.authorization.is_some())
            .field("authorities", &self.authorities.is_some())
            .field("client", &self.client.is_some())
            .finish()
    }
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientIdentity")
    }
}

impl Credentials {
    /// A bearer token; surrounding white space is removed, as files end with a line feed.
    ///
    /// # Errors
    /// The token has characters that no header can carry.
    pub fn bearer(token: &str) -> Result<HeaderValue, http::header::InvalidHeaderValue> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}
