//! What is read, where and how: engine, endpoints, timing, Secrets.

use std::collections::HashSet;
use std::time::Duration;

use headroom_adapter::engines::{CustomMetric, Engine, EngineSettings};
use http::Uri;

use super::{Check, SECOND};
use crate::api::FieldError;
use crate::api::quantities::{duration, ports};
use crate::api::spec::{Endpoint, ScrapeSecrets, SecretRef};
use crate::api::wire::{EngineSpec, EngineType, Scheme, Spec};

impl Check {
    pub(super) fn engine(&mut self, own: &EngineSpec) -> EngineSettings {
        let engine = match own.kind.unwrap_or_default() {
            EngineType::Auto => None,
            EngineType::Engine(engine) => Some(engine),
        };
        if engine == Some(Engine::Custom) && own.custom.is_empty() {
            self.error("spec.engine.custom", "type Custom needs at least one {signal, family}");
        }
        if engine != Some(Engine::Custom) && !own.custom.is_empty() {
            self.error("spec.engine.type", "custom families are read with type Custom only");
        }
        if own.path.as_deref().is_some_and(|path| !path.starts_with('/')) {
            self.error("spec.engine.path", "a path starts with '/'");
        }
        for (index, metric) in own.custom.iter().enumerate() {
            if metric.family.is_empty() {
                self.error(format!("spec.engine.custom[{index}].family"), "is empty: write the family's name");
            }
        }
        let custom = own.custom.iter().map(|metric| CustomMetric {
            signal: metric.signal,
            family: metric.family.clone(),
            labels: metric.labels.clone(),
            roll_up: metric.roll_up,
        });
        let model = own.model_name.as_deref().filter(|name| !name.is_empty()).map(Box::from);
        EngineSettings { engine, model, custom: custom.collect() }
    }

    /// Timeout and greatest age of a sample, given the interval.
    pub(super) fn timing(&mut self, own: &EngineSpec, interval: Duration) -> Option<(Duration, Duration)> {
        let timeout = match &own.timeout {
            Some(text) => self.take(duration(text, "spec.engine.timeout"))?,
            None => SECOND.min(interval),
        };
        if timeout.is_zero() || timeout > interval {
            let interval = humantime::format_duration(interval);
            self.error("spec.engine.timeout", format!("must be above 0 and not above the interval, {interval}"));
        }
        let max_age = match &own.max_age {
            Some(text) => self.take(duration(text, "spec.engine.maxAge"))?,
            None => Duration::from_secs(15).max(interval * 2),
        };
        if max_age < interval * 2 {
            let least = humantime::format_duration(interval * 2);
            self.error("spec.engine.maxAge", format!("must be at least twice the interval, {least}"));
        }
        Some((timeout, max_age))
    }

    pub(super) fn endpoints(&mut self, spec: &Spec, engine: &EngineSettings) -> Option<Vec<Endpoint>> {
        let written = spec.endpoints.as_deref().unwrap_or_default();
        if written.is_empty() {
            self.error(
                "spec.endpoints",
                "is required in a file: list the URL of each replica, such as http://10.0.0.7:8000",
            );
        }
        let own_ports = spec.engine.ports.as_deref();
        let ports = own_ports.and_then(|written| self.take(ports(written, "spec.engine.ports")));
        let (mut endpoints, mut listed) = (Vec::new(), HashSet::new());
        for (index, text) in written.iter().enumerate() {
            let field = format!("spec.endpoints[{index}]");
            let urls = self.take(urls_of(text, &field, &spec.engine, engine, ports.as_deref()))?;
            if urls.iter().any(|url| listed.contains(url)) {
                self.error(field, format!("{text} is listed twice"));
                continue;
            }
            listed.extend(urls.iter().cloned());
            endpoints.push(Endpoint { name: text.as_str().into(), urls });
        }
        Some(endpoints)
    }

    pub(super) fn secrets(&mut self, own: &EngineSpec) -> ScrapeSecrets {
        let mut secret = |field: &'static str, name: &str, key: &str| {
            self.dns_name(field, name);
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if key.is_empty() || key.starts_with("..") || !key.bytes().all(legal) {
                self.error(field, format!("{key:?} is not a key of a Secret"));
            }
            SecretRef { field, name: name.to_owned(), key: key.to_owned() }
        };
        let bearer_token = own.bearer_token_secret_ref.as_ref().map(|reference| {
            secret("spec.engine.bearerTokenSecretRef", &reference.name, reference.key.as_deref().unwrap_or("token"))
        });
        let authorities = own.ca_secret_ref.as_ref().map(|reference| {
            secret("spec.engine.caSecretRef", &reference.name, reference.key.as_deref().unwrap_or("ca.crt"))
        });
        let client = own.client_cert_secret_ref.as_ref().map(|reference| {
            let field = "spec.engine.clientCertSecretRef";
            (secret(field, &reference.name, "tls.crt"), secret(field, &reference.name, "tls.key"))
        });
        ScrapeSecrets { bearer_token, authorities, client }
    }
}

/// The URLs of one endpoint: its own port, or each of the engine's; its own path, or the engine's.
fn urls_of(
    text: &str,
    field: &str,
    own: &EngineSpec,
    engine: &EngineSettings,
    ports: Option<&[u16]>,
) -> Result<Vec<Uri>, FieldError> {
    let wrong = |message: String| FieldError::new(field, message);
    let scheme = match own.scheme.unwrap_or_default() {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("{scheme}://{text}") };
    let url: Uri = with_scheme
        .parse()
        .map_err(|error| wrong(format!("{text:?} is not a URL such as http://10.0.0.7:8000: {error}")))?;
    if !matches!(url.scheme_str(), Some("http" | "https")) {
        return Err(wrong(format!("{text:?} is neither http nor https")));
    }
    let authority = url.authority().ok_or_else(|| wrong(format!("{text:?} names no host")))?;
    if authority.as_str().contains('@') {
        return Err(wrong("credentials do not belong into a URL; use spec.engine.bearerTokenSecretRef".to_owned()));
    }
    let known = engine.engine;
    let default_path = known.map_or("/metrics", Engine::default_path);
    let path = match url.path_and_query().map(http::uri::PathAndQuery::as_str) {
        None | Some("" | "/") => own.path.as_deref().unwrap_or(default_path),
        Some(path) => path,
    };
    let host = authority.host();
    let ports: Vec<u16> = match (authority.port_u16(), ports) {
        (Some(_), Some(_)) => {
            return Err(wrong(format!("{text:?} names a port and spec.engine.ports names more; keep one of them")));
        }
        (Some(port), None) => vec![port],
        (None, Some(ports)) => ports.to_vec(),
        (None, None) => vec![known.unwrap_or(Engine::VLLM).default_port()],
    };
    let scheme = url.scheme_str().unwrap_or("http");
    let build = |port: u16| {
        let authority = format!("{host}:{port}");
        Uri::builder()
            .scheme(scheme)
            .authority(authority)
            .path_and_query(path)
            .build()
            .map_err(|error| wrong(error.to_string()))
    };
    ports.into_iter().map(build).collect()
}
