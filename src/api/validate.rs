//! From a resource as written to a policy with nothing left open: every rule of the fields, every mistake named.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use headroom_adapter::engines::{CustomMetric, Engine, EngineSettings};
use headroom_policies::behavior::{Behavior, ScalingRules};
use headroom_policies::observation::Hold;
use headroom_policies::policy::{Actuation, Fallback, MetricPolicy, Policy};
use headroom_policies::signal::{Reading, SignalClass};
use headroom_policies::{Replicas, Signal, Timestamp};
use http::Uri;

use super::FieldError;
use super::quantities::{duration, duration_within, ports, target};
use super::unsupported;
use super::wire::{API_VERSION, EngineSpec, EngineType, Include, InferenceAutoscaler, KIND, Metric, Scheme, Spec};

const SECOND: Duration = Duration::from_secs(1);
const STARTUP_DEADLINE: Duration = Duration::from_secs(20 * 60);
const LONGEST_METRIC_WINDOW: Duration = Duration::from_secs(600);
const FALLBACK_AFTER: Duration = Duration::from_secs(180);
const ANNOTATION_PREFIX: &str = "headroom.dev/";

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
    /// Validates a resource read from a file.
    ///
    /// # Errors
    /// Every mistake, each with its field and its remedy.
    pub fn from_file(resource: &InferenceAutoscaler) -> Result<Self, Vec<FieldError>> {
        let mut check = Check { errors: unsupported::refuse(&resource.spec), warnings: Vec::new() };
        let spec = check.autoscaler(resource);
        match spec {
            Some(spec) if check.errors.is_empty() => Ok(Self { warnings: check.warnings, ..spec }),
            _ => Err(check.errors),
        }
    }

    /// Some model server is spoken to in TLS.
    pub fn uses_tls(&self) -> bool {
        self.endpoints.iter().flat_map(|endpoint| &endpoint.urls).any(|url| url.scheme_str() == Some("https"))
    }
}

/// Mistakes and doubts found so far.
struct Check {
    errors: Vec<FieldError>,
    warnings: Vec<FieldError>,
}

impl Check {
    fn error(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.errors.push(FieldError::new(field, message));
    }

    fn warn(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.warnings.push(FieldError::new(field, message));
    }

    /// The value, or its mistake noted.
    fn take<T>(&mut self, result: Result<T, FieldError>) -> Option<T> {
        result.map_err(|error| self.errors.push(error)).ok()
    }

    fn autoscaler(&mut self, resource: &InferenceAutoscaler) -> Option<AutoscalerSpec> {
        let spec = &resource.spec;
        let key = self.key(resource);
        let (paused, hold) = self.annotations(resource);
        let bounds = self.bounds(spec);
        let engine = self.engine(&spec.engine);
        let default_metrics = spec.metrics.is_none();
        let metrics = self.metrics(spec, engine.as_ref());
        self.behavior(spec.behavior.as_ref());
        let fallback = self.fallback(spec);
        let interval_range = (SECOND, Duration::from_secs(60));
        let own = &spec.engine;
        let interval = self.take(duration_within(
            own.interval.as_deref(),
            "spec.engine.interval",
            Duration::from_secs(5),
            interval_range,
        ));
        let timing = interval
            .and_then(|interval| self.timing(own, interval).map(|(timeout, max_age)| (interval, timeout, max_age)));
        let startup_deadline = match &spec.startup_deadline {
            Some(text) => self.take(duration(text, "spec.startupDeadline")),
            None => Some(STARTUP_DEADLINE),
        };
        let endpoints = self.endpoints(spec, engine.as_ref());
        let secrets = self.secrets(own);
        let (min_replicas, max_replicas) = bounds?;
        let (interval, timeout, max_age) = timing?;
        let policy = Policy {
            min_replicas,
            max_replicas,
            metrics: metrics?,
            behavior: spec.behavior.clone(),
            warm_pool: Replicas::new(self.warm_pool(spec)),
            fallback,
            idle_for: None,
            actuation: spec.actuation.unwrap_or(Actuation::Metrics),
            interval,
        };
        Some(AutoscalerSpec {
            key: key?,
            policy,
            default_metrics,
            engine: engine?,
            endpoints: endpoints?,
            timeout,
            max_age,
            startup_deadline: startup_deadline?,
            secrets,
            paused,
            hold,
            warnings: Vec::new(),
        })
    }

    fn key(&mut self, resource: &InferenceAutoscaler) -> Option<Key> {
        if resource.api_version != API_VERSION {
            self.error("apiVersion", format!("{:?} is not read here; write {API_VERSION}", resource.api_version));
        }
        if resource.kind != KIND {
            self.error("kind", format!("{:?} is not read here; write {KIND}", resource.kind));
        }
        let namespace = resource.metadata.namespace.as_deref().unwrap_or("default");
        self.dns_label("metadata.namespace", namespace);
        self.dns_name("metadata.name", &resource.metadata.name);
        Some(Key { namespace: namespace.into(), name: resource.metadata.name.as_str().into() })
    }

    fn dns_label(&mut self, field: &str, text: &str) {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let edges = !text.starts_with('-') && !text.ends_with('-');
        if text.is_empty() || text.len() > 63 || !text.bytes().all(legal) || !edges {
            self.error(
                field,
                format!("{text:?} must be 1 to 63 lower-case letters, digits or '-', and end in neither '-'"),
            );
        }
    }

    fn dns_name(&mut self, field: &str, text: &str) {
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
        let edges = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
            && text.bytes().next_back().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if text.len() > 253 || !text.bytes().all(legal) || !edges {
            self.error(
                field,
                format!("{text:?} must be lower-case letters, digits, '-' or '.', from and to a letter or digit"),
            );
        }
    }

    /// Pause and hold, as `headroom hold` writes them in a cluster.
    fn annotations(&mut self, resource: &InferenceAutoscaler) -> (bool, Option<Hold>) {
        let annotations = &resource.metadata.annotations;
        let field = |name: &str| format!("metadata.annotations[{ANNOTATION_PREFIX}{name}]");
        let get = |name: &str| annotations.get(&format!("{ANNOTATION_PREFIX}{name}")).map(String::as_str);
        for name in annotations.keys().filter_map(|name| name.strip_prefix(ANNOTATION_PREFIX)) {
            if !["paused", "hold-replicas", "hold-until", "hold-reason"].contains(&name) {
                self.error(
                    field(name),
                    "there is no such annotation; there are paused, hold-replicas, hold-until, hold-reason",
                );
            }
        }
        let paused = match get("paused") {
            None | Some("false") => false,
            Some("true") => true,
            Some(other) => {
                self.error(field("paused"), format!("{other:?} is neither \"true\" nor \"false\""));
                false
            }
        };
        let until = get("hold-until").and_then(|text| {
            let until = Timestamp::parse(text);
            if until.is_none() {
                self.error(
                    field("hold-until"),
                    format!("{text:?} is not an RFC 3339 time such as 2026-03-08T03:12:00Z"),
                );
            }
            until
        });
        let replicas = get("hold-replicas").and_then(|text| {
            let count = text.parse::<i32>().ok().filter(|count| *count >= 0);
            if count.is_none() {
                self.error(field("hold-replicas"), format!("{text:?} is not a number of replicas, 0 or more"));
            }
            count
        });
        let reason = get("hold-reason").map(Arc::from);
        (paused, replicas.map(|replicas| Hold { replicas: Replicas::new(replicas), until, reason }))
    }

    fn bounds(&mut self, spec: &Spec) -> Option<(Replicas, Replicas)> {
        let minimum = spec.min_replicas.unwrap_or(1);
        let Some(maximum) = spec.max_replicas else {
            self.error("spec.maxReplicas", "is required: write the most replicas you are willing to pay for");
            return None;
        };
        if minimum < 0 {
            self.error("spec.minReplicas", format!("{minimum} must be 0 or more"));
        }
        if minimum == 0 {
            self.error(
                "spec.minReplicas",
                "0 needs a signal that is there at 0 replicas, which this version of Headroom does not have; write 1",
            );
        }
        if maximum < 1 {
            self.error("spec.maxReplicas", format!("{maximum} must be 1 or more"));
        } else if maximum < minimum {
            self.error("spec.maxReplicas", format!("{maximum} must not be below minReplicas, {minimum}"));
        } else if maximum == minimum {
            self.warn("spec.maxReplicas", format!("equals minReplicas, {minimum}: nothing will ever be scaled"));
        }
        let replicas = |field: &str, count: i64| {
            i32::try_from(count)
                .map(Replicas::new)
                .map_err(|_| FieldError::new(field, format!("{count} does not fit in 32 bits")))
        };
        let minimum = self.take(replicas("spec.minReplicas", minimum));
        let maximum = self.take(replicas("spec.maxReplicas", maximum));
        minimum.zip(maximum)
    }

    fn engine(&mut self, own: &EngineSpec) -> Option<EngineSettings> {
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
        Some(EngineSettings { engine, model, custom: custom.collect() })
    }

    fn metrics(&mut self, spec: &Spec, engine: Option<&EngineSettings>) -> Option<Vec<MetricPolicy>> {
        let Some(written) = &spec.metrics else {
            let mut defaults = Policy::new(Replicas::ONE, Replicas::ONE).metrics;
            if let Some(engine) = engine {
                defaults.retain(|metric| exports(engine, metric.signal) != Some(false));
            }
            return Some(defaults);
        };
        let mut metrics: Vec<MetricPolicy> = Vec::new();
        for (index, metric) in written.iter().enumerate() {
            let field = format!("spec.metrics[{index}]");
            if metrics.iter().any(|own| own.signal == metric.signal) {
                self.error(format!("{field}.signal"), format!("{} is listed twice", metric.signal));
                continue;
            }
            if engine.is_some_and(|engine| exports(engine, metric.signal) == Some(false)) {
                let name = engine.and_then(|engine| engine.engine).map_or("this engine", Engine::name);
                self.error(format!("{field}.signal"), format!("{name} does not export {}; remove it", metric.signal));
            }
            if let Some(metric) = self.metric(metric, &field) {
                metrics.push(metric);
            }
        }
        if !written.iter().any(|metric| metric.signal.class() != SignalClass::Latency) {
            self.error(
                "spec.metrics",
                "needs a signal that can also lower, such as {signal: WaitingRequests, target: 5}",
            );
        }
        Some(metrics)
    }

    fn metric(&mut self, written: &Metric, field: &str) -> Option<MetricPolicy> {
        let signal = written.signal;
        let target = self.take(target(signal, &written.target, &format!("{field}.target")));
        let window = self.take(duration_within(
            written.window.as_deref(),
            &format!("{field}.window"),
            signal.default_window(),
            (Duration::ZERO, LONGEST_METRIC_WINDOW),
        ));
        if window == Some(Duration::ZERO) && signal.reading() != Reading::Gauge {
            self.error(format!("{field}.window"), format!("{signal} needs a window, such as 60s"));
        }
        if written.quantile.is_some() && signal.reading() != Reading::Quantile {
            self.error(format!("{field}.quantile"), format!("{signal} is no latency and has no quantile"));
        }
        let quantile = written.quantile.unwrap_or(0.95);
        if !(quantile > 0.0 && quantile <= 1.0) {
            self.error(format!("{field}.quantile"), format!("{quantile} must be above 0 and at most 1, such as 0.95"));
        }
        let include_deferred = written.include.contains(&Include::Deferred);
        if include_deferred && !matches!(signal, Signal::WaitingRequests | Signal::InFlightRequests) {
            self.error(format!("{field}.include"), format!("only waiting requests can be deferred, not {signal}"));
        }
        let target = target?;
        if signal == Signal::WaitingRequests && target.get() > 30_000 {
            self.warn(
                format!("{field}.target"),
                format!("{target} waiting requests a replica is a long queue; 5 to 10 is usual"),
            );
        }
        Some(MetricPolicy { signal, target, window: window?, quantile, include_deferred })
    }

    /// The HPA's own validation of `behavior`.
    fn behavior(&mut self, behavior: Option<&Behavior>) {
        let Some(behavior) = behavior else { return };
        for (rules, field) in [
            (behavior.scale_up.as_ref(), "spec.behavior.scaleUp"),
            (behavior.scale_down.as_ref(), "spec.behavior.scaleDown"),
        ] {
            if let Some(rules) = rules {
                self.scaling_rules(rules, field);
            }
        }
    }

    fn scaling_rules(&mut self, rules: &ScalingRules, field: &str) {
        if rules.stabilization_window_seconds.is_some_and(|seconds| seconds > 3600) {
            self.error(format!("{field}.stabilizationWindowSeconds"), "must be from 0 to 3600");
        }
        let Some(policies) = &rules.policies else { return };
        if policies.is_empty() {
            self.error(format!("{field}.policies"), "must hold at least one policy, or be left out");
        }
        for (index, policy) in policies.iter().enumerate() {
            if policy.value < 1 {
                self.error(
                    format!("{field}.policies[{index}].value"),
                    "must be above 0; to forbid changes set selectPolicy: Disabled",
                );
            }
            if !(1..=1800).contains(&policy.period_seconds) {
                self.error(format!("{field}.policies[{index}].periodSeconds"), "must be from 1 to 1800");
            }
        }
    }

    fn fallback(&mut self, spec: &Spec) -> Option<Fallback> {
        let written = spec.fallback.as_ref()?;
        let after = match &written.after {
            Some(text) => self.take(duration(text, "spec.fallback.after"))?,
            None => FALLBACK_AFTER,
        };
        let replicas = i32::try_from(written.replicas).ok().filter(|count| *count >= 1);
        if replicas.is_none() {
            self.error("spec.fallback.replicas", format!("{} must be 1 or more", written.replicas));
        }
        if spec.max_replicas.is_some_and(|most| written.replicas > most) {
            self.warn("spec.fallback.replicas", "is above maxReplicas, which it will not exceed");
        }
        Some(Fallback { after, replicas: Replicas::new(replicas?) })
    }

    fn warm_pool(&mut self, spec: &Spec) -> i32 {
        let Some(pool) = &spec.warm_pool else { return 0 };
        match i32::try_from(pool.replicas).ok().filter(|count| *count >= 0) {
            Some(count) => count,
            None => {
                self.error("spec.warmPool.replicas", format!("{} must be 0 or more", pool.replicas));
                0
            }
        }
    }

    /// Timeout and greatest age of a sample, given the interval.
    fn timing(&mut self, own: &EngineSpec, interval: Duration) -> Option<(Duration, Duration)> {
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

    fn endpoints(&mut self, spec: &Spec, engine: Option<&EngineSettings>) -> Option<Vec<Endpoint>> {
        let written = spec.endpoints.as_deref().unwrap_or_default();
        if written.is_empty() {
            self.error(
                "spec.endpoints",
                "is required in a file: list the URL of each replica, such as http://10.0.0.7:8000",
            );
        }
        let own_ports = spec.engine.ports.as_deref();
        let ports = own_ports.and_then(|written| self.take(ports(written, "spec.engine.ports")));
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for (index, text) in written.iter().enumerate() {
            let field = format!("spec.endpoints[{index}]");
            let urls = self.take(urls_of(text, &field, &spec.engine, engine, ports.as_deref()))?;
            if endpoints.iter().any(|own| own.urls.iter().any(|url| urls.contains(url))) {
                self.error(field, format!("{text} is listed twice"));
                continue;
            }
            endpoints.push(Endpoint { name: text.as_str().into(), urls });
        }
        Some(endpoints)
    }

    fn secrets(&mut self, own: &EngineSpec) -> ScrapeSecrets {
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

/// Whether an engine can export a signal, where that is known of it.
fn exports(settings: &EngineSettings, signal: Signal) -> Option<bool> {
    match settings.engine? {
        Engine::Custom => {
            let named = |wanted: Signal| settings.custom.iter().any(|metric| metric.signal == wanted);
            let parts =
                signal == Signal::InFlightRequests && named(Signal::WaitingRequests) && named(Signal::RunningRequests);
            Some(named(signal) || parts)
        }
        engine => engine.exports(signal),
    }
}

/// The URLs of one endpoint: its own port, or each of the engine's; its own path, or the engine's.
fn urls_of(
    text: &str,
    field: &str,
    own: &EngineSpec,
    engine: Option<&EngineSettings>,
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
    let known = engine.and_then(|engine| engine.engine);
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
