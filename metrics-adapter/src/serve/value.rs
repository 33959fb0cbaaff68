//! The answer to one request: an `ExternalMetricValueList` of one item.

use std::collections::BTreeMap;

use headroom_policies::Milli;
use serde::Serialize;

use super::source::{AUTOSCALER_LABEL, MetricValue};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: &'static str,
    api_version: &'a str,
    metadata: Metadata,
    items: [Item<'a>; 1],
}

/// Of a list that has no version and no continuation.
#[derive(Serialize)]
struct Metadata {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    metric_name: &'a str,
    metric_labels: BTreeMap<&'static str, &'a str>,
    timestamp: jiff::Timestamp,
    // This API calls it `window`; custom metrics of later versions call it `windowSeconds`.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<u64>,
    value: Milli,
}

/// Why a value cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum ValueError {
    #[error("its value {0} is negative")]
    Negative(Milli),
    #[error("the time of its data, {0} ms since 1970, is no date")]
    Time(i64),
    #[error("it cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The body of an answer. The HPA adds up all items, so there is one.
pub(super) fn value_list(
    api_version: &str,
    metric: &str,
    autoscaler: &str,
    value: &MetricValue,
) -> Result<Vec<u8>, ValueError> {
    if value.value < Milli::ZERO {
        return Err(ValueError::Negative(value.value));
    }
    let millis = value.at.as_millis();
    let timestamp = jiff::Timestamp::from_second(millis.div_euclid(1000)).map_err(|_| ValueError::Time(millis))?;
    let item = Item {
        metric_name: metric,
        metric_labels: BTreeMap::from([(AUTOSCALER_LABEL, autoscaler)]),
        timestamp,
        window: value.window.map(|window| window.as_secs() + u64::from(window.subsec_nanos() > 0)),
        value: value.value,
    };
    let list = List { kind: "ExternalMetricValueList", api_version, metadata: Metadata {}, items: [item] };
    Ok(serde_json::to_vec(&list)?)
}
