//! The routes of the external metrics API.
//!
//! What is not here is answered with a `Status` of 404, also `/openapi/v2` and `/openapi/v3`: the aggregator accepts
//! that, asks no more, and there is no client for a schema of these values.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;

use super::discovery::Discovery;
use super::group::{ApiGroup, VERSION};
use super::message::{Listing, Quoted};
use super::selector::Selector;
use super::source::{AUTOSCALER_LABEL, ExternalMetrics, MetricError};
use super::status::{Status, json_response};
use super::value::value_list;

/// A source of metrics that names none: an API group without resources breaks clients of the whole cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot serve external metrics: the source names no metric")]
pub struct NoMetricNames;

/// What the handlers share.
struct Shared {
    source: Arc<dyn ExternalMetrics>,
    api_version: String,
    metric_names: Box<[&'static str]>,
    discovery: Discovery,
}

/// The routes by which a source's metrics are discovered and read, under one API group.
///
/// Answers are always JSON, whatever a request accepts; unknown query parameters are passed over. `/healthz`,
/// `/livez` and `/readyz` say `ok` as long as there is an answer at all: ready means that discovery can be served,
/// and says nothing of the numbers, since an API group that is not ready hurts the whole cluster.
pub fn external_metrics(source: Arc<dyn ExternalMetrics>, group: &ApiGroup) -> Result<Router, NoMetricNames> {
    let metric_names: Box<[&'static str]> = source.metric_names().into();
    if metric_names.is_empty() {
        return Err(NoMetricNames);
    }
    let discovery = Discovery::new(group, &metric_names);
    let shared = Arc::new(Shared { source, api_version: group.api_version(), metric_names, discovery });
    let group_path = format!("/apis/{group}");
    let version_path = format!("{group_path}/{VERSION}");
    let value_path = format!("{version_path}/namespaces/{{namespace}}/{{metric}}");
    let router = Router::new()
        .route(&value_path, get(value))
        .route("/apis", get(groups))
        .route(&group_path, get(group_versions))
        .route(&version_path, get(resources))
        .route("/version", get(version))
        .route("/healthz", get(ok))
        .route("/livez", get(ok))
        .route("/readyz", get(ok))
        .fallback(no_such_path)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(shared);
    Ok(router)
}

async fn groups(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    shared.discovery.groups(&headers)
}

async fn group_versions(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    shared.discovery.group.respond(&headers)
}

async fn resources(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    shared.discovery.resources.respond(&headers)
}

async fn ok() -> &'static str {
    "ok"
}

/// As Kubernetes writes its own version, `version.Info` of `k8s.io/apimachinery`.
async fn version() -> Response {
    let body = json!({
        "major": env!("CARGO_PKG_VERSION_MAJOR"),
        "minor": env!("CARGO_PKG_VERSION_MINOR"),
        "gitVersion": concat!("v", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    });
    json_response(StatusCode::OK, body.to_string().into())
}

async fn no_such_path(uri: Uri) -> Status {
    Status::not_found(format!("there is nothing at {}", Quoted(uri.path())))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Status {
    Status::method_not_allowed(format!(
        "{} can only be read with GET, not {}",
        Quoted(uri.path()),
        Quoted(method.as_str())
    ))
}

async fn value(
    State(shared): State<Arc<Shared>>,
    path: Result<Path<(String, String)>, PathRejection>,
    RawQuery(query): RawQuery,
) -> Response {
    let Ok(Path((namespace, metric))) = path else {
        return Status::bad_request("the path is not UTF-8 once decoded".to_owned()).into_response();
    };
    match shared.answer(&namespace, &metric, query.as_deref().unwrap_or_default()) {
        Ok(body) => json_response(StatusCode::OK, body.into()),
        Err(status) => status.into_response(),
    }
}

impl Shared {
    /// The body of the answer to one request for a value.
    fn answer(&self, namespace: &str, metric: &str, query: &str) -> Result<Vec<u8>, Status> {
        let metric = self.known_metric(metric)?;
        let text = label_selector(query);
        let selector = Selector::parse(&text)
            .map_err(|error| Status::bad_request(format!("labelSelector {} cannot be read: {error}", Quoted(&text))))?;
        let autoscaler = self.selected(namespace, &selector, &text)?;
        let subject =
            || format!("metric {metric} of autoscaler {} in namespace {}", Quoted(&autoscaler), Quoted(namespace));
        let value = self.source.read(namespace, &autoscaler, metric).map_err(|error| match error {
            MetricError::NoSuchAutoscaler => self.none_selected(namespace, &text),
            MetricError::NotServed(why) => Status::not_found(format!("{} is not served: {why}", subject())),
            MetricError::Unreadable(why) => Status::unavailable(format!("{} is not known now: {why}", subject())),
        })?;
        value_list(&self.api_version, metric, &autoscaler, &value)
            .map_err(|error| Status::unavailable(format!("{} cannot be sent: {error}", subject())))
    }

    /// A metric's own name. The HPA's client puts names in lower case, so the case does not count.
    fn known_metric(&self, asked: &str) -> Result<&'static str, Status> {
        self.metric_names.iter().copied().find(|name| name.eq_ignore_ascii_case(asked)).ok_or_else(|| {
            let known = self.metric_names.join(", ");
            Status::not_found(format!("there is no metric {}; the metrics are {known}", Quoted(asked)))
        })
    }

    /// The one autoscaler that a selector selects. Several are refused: the HPA would add up their values.
    fn selected<'a>(&self, namespace: &str, selector: &Selector<'a>, text: &str) -> Result<Cow<'a, str>, Status> {
        let matches = |name: &str| selector.matches(&[(AUTOSCALER_LABEL, name)]);
        // A name that is required need not be searched for: reading it tells whether it exists.
        if let Some(name) = selector.required_value(AUTOSCALER_LABEL).filter(|name| matches(name)) {
            return Ok(Cow::Borrowed(name));
        }
        let mut selected = Listing::default();
        self.source.autoscalers(namespace, &mut |name| {
            if matches(name) {
                selected.add(name);
            }
        });
        if selected.count() == 0 {
            return Err(self.none_selected(namespace, text));
        }
        selected.into_only().map(Cow::Owned).map_err(|several| {
            Status::bad_request(format!(
                "labelSelector {} selects {} autoscalers in namespace {}: {several}; \
                 select one with {AUTOSCALER_LABEL}=NAME",
                Quoted(text),
                several.count(),
                Quoted(namespace),
            ))
        })
    }

    fn none_selected(&self, namespace: &str, text: &str) -> Status {
        let mut existing = Listing::default();
        self.source.autoscalers(namespace, &mut |name| existing.add(name));
        let namespace = Quoted(namespace);
        Status::not_found(if existing.count() == 0 {
            format!("namespace {namespace} has no autoscaler")
        } else {
            format!(
                "labelSelector {} selects no autoscaler in namespace {namespace}, which has {existing}; \
                 select one with {AUTOSCALER_LABEL}=NAME",
                Quoted(text),
            )
        })
    }
}

/// The `labelSelector` of a query, empty where there is none. `+` is a space, as HTML forms and Go write it.
fn label_selector(query: &str) -> Cow<'_, str> {
    form_urlencoded::parse(query.as_bytes())
        .find_map(|(name, value)| (name == "labelSelector").then_some(value))
        .unwrap_or_default()
}
