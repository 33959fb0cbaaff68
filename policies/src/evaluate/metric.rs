//! Cases of one metric, and the metrics of a reconcile.

use serde::Deserialize;
use serde_json::{Value, json};

use super::CaseError;
use super::read::{Count, Fraction, MilliNumber, Positive, Target, field, nullable, plain, read};
use crate::hpa::{MetricInput, MetricSource, Pod, PodPhase, ReplicaCounts, ResourcePod, ToleranceBand};
use crate::quantity::Milli;
use crate::reason::Reason;
use crate::units::Replicas;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum MetricType {
    External,
    Object,
    Pods,
    Resource,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum TargetType {
    Value,
    AverageValue,
    Utilization,
}

/// Fractions for both directions.
#[derive(Clone, Copy, Deserialize)]
#[serde(expecting = "an object")]
pub(super) struct TolerancesJson {
    pub(super) up: Fraction,
    pub(super) down: Fraction,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct PodJson {
    #[serde(deserialize_with = "nullable")]
    value_milli: Option<MilliNumber>,
    phase: PodPhase,
    #[serde(default)]
    deleting: bool,
}

impl From<PodJson> for Pod {
    fn from(pod: PodJson) -> Self {
        Self { value: pod.value_milli.map(|value| value.0), phase: pod.phase, deleting: pod.deleting }
    }
}

/// The fields that have other names in a case of one metric than in a reconcile.
struct Names {
    values: &'static str,
    usage: &'static str,
    requests: &'static str,
}

const OF_ONE_METRIC: Names =
    Names { values: "metricValuesMilli", usage: "usageMilliPerPod", requests: "requestMilliPerPod" };
const OF_RECONCILE: Names = Names { values: "valuesMilli", usage: "usageMilli", requests: "requestMilli" };

fn source(
    (metric, target_type): (MetricType, TargetType),
    value: &Value,
    at: &str,
    names: &Names,
) -> Result<MetricSource, CaseError> {
    let target = || field::<Target>(value, at, "targetMilli").map(|target| target.0);
    let values = || field::<Vec<MilliNumber>>(value, at, names.values).map(plain::<_, Milli>);
    Ok(match (metric, target_type) {
        (MetricType::External, TargetType::Value) => {
            MetricSource::ExternalValue { target: target()?, values: values()? }
        }
        (MetricType::External, TargetType::AverageValue) => {
            MetricSource::ExternalAverageValue { target: target()?, values: values()? }
        }
        (MetricType::Object, TargetType::Value) => MetricSource::ObjectValue { target: target()?, values: values()? },
        (MetricType::Object, TargetType::AverageValue) => {
            MetricSource::ObjectAverageValue { target: target()?, values: values()? }
        }
        (MetricType::Pods, TargetType::AverageValue) => {
            MetricSource::Pods { target: target()?, pods: plain(field::<Vec<PodJson>>(value, at, "pods")?) }
        }
        (MetricType::Resource, TargetType::Utilization) => MetricSource::Resource {
            target_percent: field::<Positive>(value, at, "targetUtilizationPercent")?.0,
            pods: resource_pods(value, at, names)?,
        },
        (metric, target) => {
            let problem = format!("a metric of type {metric:?} has no target of type {target:?}");
            return Err(CaseError::Field { field: format!("{at}.targetType"), problem });
        }
    })
}

/// Requests without a usage are those of pods without a sample.
fn resource_pods(value: &Value, at: &str, names: &Names) -> Result<Vec<ResourcePod>, CaseError> {
    let usage: Vec<i64> = field(value, at, names.usage)?;
    let requests: Vec<i64> = field(value, at, names.requests)?;
    if usage.len() > requests.len() {
        let problem = format!("{} pods with usage, but {} with a request", usage.len(), requests.len());
        return Err(CaseError::Field { field: format!("{at}.{}", names.usage), problem });
    }
    let pod = |(index, request): (usize, &i64)| ResourcePod { request: *request, usage: usage.get(index).copied() };
    Ok(requests.iter().enumerate().map(pod).collect())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeclaredTypes {
    metric_type: Option<MetricType>,
    target_type: Option<TargetType>,
}

impl DeclaredTypes {
    /// Where a case names its types beside its kind, both must say the same.
    fn check(input: &Value, (metric, target): (MetricType, TargetType)) -> Result<(), CaseError> {
        let declared: Self = read(input, "input")?;
        let wrong = |name: &str, problem: String| Err(CaseError::Field { field: format!("input.{name}"), problem });
        match (declared.metric_type, declared.target_type) {
            (Some(other), _) if other != metric => wrong("metricType", format!("{other:?} does not fit the kind")),
            (_, Some(other)) if other != target => wrong("targetType", format!("{other:?} does not fit the kind")),
            _ => Ok(()),
        }
    }
}

fn counts(input: &Value, metric: MetricType) -> Result<ReplicaCounts, CaseError> {
    let count = |name| field::<Count>(input, "input", name).map(|count| count.0);
    let spec = count("specReplicas")?;
    Ok(match metric {
        // These two count pods, not replicas.
        MetricType::Pods | MetricType::Resource => {
            ReplicaCounts { spec, status: Replicas::ZERO, ready: Replicas::ZERO }
        }
        _ => ReplicaCounts { spec, status: count("statusReplicas")?, ready: count("readyPods")? },
    })
}

/// A case of one metric. Where it cannot be computed the count stays.
pub(super) fn one_metric(input: &Value, types: (MetricType, TargetType)) -> Result<Value, CaseError> {
    DeclaredTypes::check(input, types)?;
    let counts = counts(input, types.0)?;
    let tolerance: TolerancesJson = field(input, "input", "tolerance")?;
    let band = ToleranceBand::new(tolerance.up.0, tolerance.down.0);
    let mut answer = json!({ "desiredReplicas": counts.spec, "limited": null, "reason": null });
    match source(types, input, "input", &OF_ONE_METRIC)?.propose(counts, band) {
        Err(reason) => answer["reason"] = json!(reason),
        Ok(proposal) => {
            answer["desiredReplicas"] = json!(proposal.replicas);
            match types.1 {
                TargetType::Value => {}
                TargetType::AverageValue => answer["reportedAverageMilli"] = json!(proposal.reported),
                TargetType::Utilization => answer["reportedUtilizationPercent"] = json!(proposal.reported),
            }
        }
    }
    Ok(answer)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an object")]
struct Header {
    #[serde(rename = "type")]
    metric: MetricType,
    error: Option<Reason>,
}

/// A metric of a reconcile. Of one that cannot be read only its type matters.
pub(super) fn metric_input(value: &Value, at: &str) -> Result<MetricInput, CaseError> {
    let header: Header = read(value, at)?;
    let source = match (header.error, header.metric) {
        (Some(reason), _) => Err(reason),
        (None, MetricType::Unknown) => Err(Reason::InvalidMetricSourceType),
        (None, metric) => {
            let target: TargetType = field(value, at, "targetType")?;
            Ok(source((metric, target), value, at, &OF_RECONCILE)?)
        }
    };
    Ok(MetricInput { can_wake: matches!(header.metric, MetricType::External | MetricType::Object), source })
}
