//! An autoscaler with nothing left open.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use headroom_adapter::engines::EngineSettings;
use headroom_policies::observation::Hold;
use headroom_policies::policy::Policy;
use http::Uri;

use super::FieldError;

/// The identity of an autoscaler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One replica given by its URLs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// As written.
    pub name: Arc<str>,
    /// Where each of its model servers shows its metrics.
    pub urls: Vec<Uri>,
}

/// A key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretRef {
    /// The field that names it.
    pub field: &'static str,
    /// The Secret.
    pub name: String,
    /// The key.
    pub key: String,
}

/// The Secrets that scraping needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrapeSecrets {
    /// A bearer token.
    pub bearer_token: Option<SecretRef>,
    /// Authorities to trust.
    pub authorities: Option<SecretRef>,
    /// A certificate chain to show, and its key.
    pub client: Option<(SecretRef, SecretRef)>,
}

/// A validated autoscaler.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoscalerSpec {
    /// Its identity.
    pub key: Key,
    /// What is decided by.
    pub policy: Policy,
    /// The metrics are the defaults, not the user's.
    pub default_metrics: bool,
    /// What its pages are.
    pub engine: EngineSettings,
    /// The replicas.
    pub endpoints: Vec<Endpoint>,
    /// For a whole scrape.
    pub timeout: Duration,
    /// Until when a sample is fresh.
    pub max_age: Duration,
    /// When a replica stops being Starting.
    pub startup_deadline: Duration,
    /// What scraping needs.
    pub secrets: ScrapeSecrets,
    /// Paused by annotation.
    pub paused: bool,
    /// Held by annotation.
    pub hold: Option<Hold>,
    /// What is allowed and probably not meant.
    pub warnings: Vec<FieldError>,
}

impl AutoscalerSpec {
    /// Some model server is spoken to in TLS.
    pub fn uses_tls(&self) -> bool {
        self.endpoints.iter().flat_map(|endpoint| &endpoint.urls).any(|url| url.scheme_str() == Some("https"))
    }
}
