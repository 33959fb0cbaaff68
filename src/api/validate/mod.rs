//! From a resource as written to a policy with nothing left open: every rule of the fields, every mistake named.

mod engine;
mod metrics;

use std::sync::Arc;
use std::time::Duration;

use headroom_policies::observation::Hold;
use headroom_policies::policy::{Actuation, Fallback, Policy};
use headroom_policies::{Replicas, Timestamp};

use super::quantities::{duration, duration_within};
use super::spec::{AutoscalerSpec, Key};
use super::wire::{API_VERSION, InferenceAutoscaler, KIND, Spec};
use super::{FieldError, unsupported};

const SECOND: Duration = Duration::from_secs(1);
const STARTUP_DEADLINE: Duration = Duration::from_secs(20 * 60);
const FALLBACK_AFTER: Duration = Duration::from_secs(180);
const ANNOTATION_PREFIX: &str = "headroom.dev/";

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
        let metrics = self.metrics(spec, &engine);
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
        let endpoints = self.endpoints(spec, &engine);
        let secrets = self.secrets(own);
        let (min_replicas, max_replicas) = bounds?;
        let (interval, timeout, max_age) = timing?;
        let policy = Policy {
            min_replicas,
            max_replicas,
            metrics,
            behavior: spec.behavior.clone(),
            warm_pool: Replicas::new(self.warm_pool(spec)),
            fallback,
            idle_for: None,
            actuation: spec.actuation.unwrap_or(Actuation::Metrics),
            interval,
        };
        Some(AutoscalerSpec {
            key,
            policy,
            default_metrics,
            engine,
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

    fn key(&mut self, resource: &InferenceAutoscaler) -> Key {
        if resource.api_version != API_VERSION {
            self.error("apiVersion", format!("{:?} is not read here; write {API_VERSION}", resource.api_version));
        }
        if resource.kind != KIND {
            self.error("kind", format!("{:?} is not read here; write {KIND}", resource.kind));
        }
        let namespace = resource.metadata.namespace.as_deref().unwrap_or("default");
        self.dns_label("metadata.namespace", namespace);
        self.dns_name("metadata.name", &resource.metadata.name);
        Key { namespace: namespace.into(), name: resource.metadata.name.as_str().into() }
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
}
