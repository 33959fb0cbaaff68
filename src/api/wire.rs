//! The resource as it is written.

use std::collections::BTreeMap;

use headroom_adapter::engines::{Engine, RollUp};
use headroom_policies::Signal;
use headroom_policies::behavior::Behavior;
use headroom_policies::policy::Actuation;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Group and version.
pub const API_VERSION: &str = "headroom.dev/v1alpha1";
/// Kind.
pub const KIND: &str = "InferenceAutoscaler";

/// An autoscaler of an inference fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InferenceAutoscaler {
    /// `headroom.dev/v1alpha1`.
    pub api_version: String,
    /// `InferenceAutoscaler`.
    pub kind: String,
    /// Name, namespace, annotations.
    pub metadata: Metadata,
    /// What is wanted.
    pub spec: Spec,
    /// Written by Headroom; ignored when read from a file.
    #[serde(default, skip_serializing)]
    pub status: Option<Value>,
}

/// The fields of `ObjectMeta`; those that are of no use here are read over.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Metadata {
    /// The object's name.
    pub name: String,
    /// Its namespace; `default` where none is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Annotations: `headroom.dev/paused` and `headroom.dev/hold-*` are read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing)]
    uid: Option<Value>,
    #[serde(skip_serializing)]
    resource_version: Option<Value>,
    #[serde(skip_serializing)]
    generation: Option<Value>,
    #[serde(skip_serializing)]
    creation_timestamp: Option<Value>,
    #[serde(skip_serializing)]
    managed_fields: Option<Value>,
    #[serde(skip_serializing)]
    owner_references: Option<Value>,
    #[serde(skip_serializing)]
    finalizers: Option<Value>,
}

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Spec {
    /// The workload. In files it only names what the endpoints belong to.
    pub scale_target_ref: Option<ScaleTargetRef>,
    /// URLs of model servers, in files.
    pub endpoints: Option<Vec<String>>,
    /// Who moves the replicas.
    pub actuation: Option<Actuation>,
    /// At least so many.
    pub min_replicas: Option<i64>,
    /// At most so many.
    pub max_replicas: Option<i64>,
    /// The signals with their targets.
    pub metrics: Option<Vec<Metric>>,
    /// The HPA's shape.
    pub behavior: Option<Behavior>,
    /// The model servers.
    pub engine: EngineSpec,
    /// A floor for a fleet that cannot be read.
    pub fallback: Option<FallbackSpec>,
    /// Replicas beyond what the load asks for.
    pub warm_pool: Option<WarmPool>,
    /// When a replica stops being Starting.
    pub startup_deadline: Option<String>,
    /// Demand seen outside the pods.
    pub external_signals: Option<Value>,
    /// Windows with floors and ceilings.
    pub schedules: Option<Value>,
    /// To zero after idleness.
    pub scale_to_zero: Option<Value>,
    /// Asking for nodes.
    pub provisioning: Option<Value>,
    /// Draining before a replica is removed.
    pub drain: Option<Value>,
    /// Order among autoscalers when nodes are short.
    pub priority: Option<Value>,
    /// Objectives for alerts and reports.
    pub slo: Option<Value>,
}

/// The workload that is scaled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScaleTargetRef {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// A number or a text, as Kubernetes' int-or-string.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A whole number.
    Int(i64),
    /// A fraction, which Kubernetes does not take without quotes.
    Float(f64),
    /// A text.
    Text(String),
}

/// A signal with its target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Metric {
    /// The signal.
    pub signal: Signal,
    /// The target of each replica.
    pub target: IntOrString,
    /// The window it is read over.
    pub window: Option<String>,
    /// The quantile of a latency.
    pub quantile: Option<f64>,
    /// `deferred`: count requests that wait for something replicas cannot give.
    #[serde(default)]
    pub include: Vec<Include>,
}

/// What a metric can count besides its usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Include {
    /// Requests that wait for something replicas cannot give.
    Deferred,
}

/// The model servers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EngineSpec {
    /// `Auto` or an engine.
    #[serde(rename = "type")]
    pub kind: Option<EngineType>,
    /// Ports: numbers, names or ranges.
    pub ports: Option<Vec<IntOrString>>,
    /// The path of the page.
    pub path: Option<String>,
    /// `http` or `https`.
    pub scheme: Option<Scheme>,
    /// Only series of this model.
    pub model_name: Option<String>,
    /// Which pods of a group serve.
    pub members: Option<Value>,
    /// From one scrape to the next.
    pub interval: Option<String>,
    /// For a whole scrape.
    pub timeout: Option<String>,
    /// Until when a sample is fresh.
    pub max_age: Option<String>,
    /// A bearer token.
    pub bearer_token_secret_ref: Option<SecretKeyRef>,
    /// Authorities to trust.
    pub ca_secret_ref: Option<SecretKeyRef>,
    /// A certificate to show.
    pub client_cert_secret_ref: Option<SecretNameRef>,
    /// Families of a server that is not known.
    pub custom: Vec<Custom>,
}

/// `Auto` or an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub enum EngineType {
    /// Recognised by its families.
    #[default]
    Auto,
    /// One engine.
    #[serde(untagged)]
    Engine(Engine),
}

impl TryFrom<String> for EngineType {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        if name == "Auto" {
            return Ok(Self::Auto);
        }
        let engines = || Engine::KNOWN.into_iter().chain([Engine::Custom]);
        engines().find(|engine| engine.name() == name).map(Self::Engine).ok_or_else(|| {
            let names: Vec<&str> = ["Auto"].into_iter().chain(engines().map(Engine::name)).collect();
            format!("there is no engine {name:?}; write one of {}", names.join(", "))
        })
    }
}

/// How model servers are spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Scheme {
    /// In the clear.
    #[default]
    Http,
    /// TLS.
    Https,
}

/// A key of a Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretKeyRef {
    /// The Secret's name.
    pub name: String,
    /// The key.
    pub key: Option<String>,
}

/// A Secret of type `kubernetes.io/tls`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SecretNameRef {
    /// The Secret's name.
    pub name: String,
}

/// Where a signal of another server comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Custom {
    /// The signal.
    pub signal: Signal,
    /// The family.
    pub family: String,
    /// Only series with these labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How several series become one.
    #[serde(default)]
    pub roll_up: RollUp,
}

/// A floor for a fleet that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FallbackSpec {
    /// After how long.
    pub after: Option<String>,
    /// How many.
    pub replicas: i64,
}

/// Replicas beyond what the load asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WarmPool {
    /// How many.
    pub replicas: i64,
    /// Always, or inside windows that say so.
    #[serde(default)]
    pub when: WarmPoolWhen,
}

/// When a warm pool is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum WarmPoolWhen {
    /// Always.
    #[default]
    Always,
    /// Inside windows that say so.
    Scheduled,
}
