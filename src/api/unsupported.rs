//! Fields whose feature this version does not have, and those that mean nothing outside a cluster.

use serde_json::Value;

use super::FieldError;
use super::wire::{Spec, WarmPoolWhen};
use headroom_policies::policy::Actuation;

/// Refuses what is set and would be ignored.
pub(super) fn refuse(spec: &Spec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut missing = |field: &str, what: &str, value: Option<&Value>| {
        if value.is_some_and(|value| !value.is_null()) {
            errors.push(FieldError::new(field, format!("{what} is not in this version of Headroom; remove the field")));
        }
    };
    missing("spec.externalSignals", "demand seen outside the pods", spec.external_signals.as_ref());
    missing("spec.schedules", "scaling ahead of a schedule", spec.schedules.as_ref());
    missing("spec.scaleToZero", "scaling to zero", spec.scale_to_zero.as_ref());
    missing("spec.drain", "draining replicas", spec.drain.as_ref());
    missing("spec.priority", "an order among autoscalers", spec.priority.as_ref());
    missing("spec.slo", "objectives for alerts", spec.slo.as_ref());
    missing("spec.engine.members", "groups of pods", spec.engine.members.as_ref());
    let provisioning = spec.provisioning.as_ref();
    if provisioning.is_some_and(|value| *value != serde_json::json!({ "mode": "Off" })) {
        missing("spec.provisioning", "asking for nodes", provisioning);
    }
    if spec.warm_pool.as_ref().is_some_and(|pool| pool.when == WarmPoolWhen::Scheduled) {
        missing("spec.warmPool.when", "a warm pool by schedule", Some(&Value::Bool(true)));
    }
    match spec.actuation {
        Some(Actuation::HPA | Actuation::Direct) => errors.push(FieldError::new(
            "spec.actuation",
            "HPA and Direct move replicas in a cluster; with a file use Metrics (the default here), for a follower of \
             the published number, or Observe",
        )),
        Some(Actuation::Metrics | Actuation::Observe) | None => {}
    }
    errors
}
