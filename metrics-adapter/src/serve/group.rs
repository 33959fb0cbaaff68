//! The name of the API group served.

use std::fmt;
use std::str::FromStr;

use super::message::Quoted;
use super::names::is_dns_subdomain;

/// The one version there is of the external metrics API.
pub(super) const VERSION: &str = "v1beta1";

/// An API group under which the metrics are served, a DNS subdomain.
///
/// `external.metrics.k8s.io` is the one the HPA asks; another name lets several servers of metrics live in one
/// cluster once a metric can name its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiGroup {
    name: String,
}

/// A text that cannot be the name of an API group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("API group {} is not a DNS subdomain such as external.metrics.k8s.io", Quoted(.0))]
pub struct ApiGroupError(String);

impl ApiGroup {
    /// The name, e.g. `external.metrics.k8s.io`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Name and version as `apiVersion` has them, e.g. `external.metrics.k8s.io/v1beta1`.
    pub fn api_version(&self) -> String {
        format!("{}/{VERSION}", self.name)
    }
}

impl Default for ApiGroup {
    fn default() -> Self {
        Self { name: "external.metrics.k8s.io".to_owned() }
    }
}

impl FromStr for ApiGroup {
    type Err = ApiGroupError;

    fn from_str(text: &str) -> Result<Self, ApiGroupError> {
        if is_dns_subdomain(text) { Ok(Self { name: text.to_owned() }) } else { Err(ApiGroupError(text.to_owned())) }
    }
}

impl fmt::Display for ApiGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_subdomains_are_groups() {
        let group: ApiGroup = "metrics.headroom.dev".parse().unwrap();
        assert_eq!(group.api_version(), "metrics.headroom.dev/v1beta1");
        assert_eq!(ApiGroup::default().api_version(), "external.metrics.k8s.io/v1beta1");
        let refused = "{*all}".parse::<ApiGroup>().unwrap_err();
        assert!(refused.to_string().contains("\"{*all}\""), "{refused}");
    }
}
