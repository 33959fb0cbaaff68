//! Discovery: which groups, versions and resources there are, in both forms that clients ask for.
//!
//! Sources: `k8s.io/apimachinery/pkg/apis/meta/v1` (`APIGroupList`, `APIGroup`, `APIResourceList`) and
//! `k8s.io/api/apidiscovery/v2` (`APIGroupDiscoveryList`, "aggregated discovery").

use std::hash::{DefaultHasher, Hash, Hasher};

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::group::{ApiGroup, VERSION};

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Every discovery document of one group, made once.
pub(super) struct Discovery {
    /// `/apis`.
    groups: Document,
    /// `/apis` in the aggregated form.
    aggregated: Document,
    /// `/apis/GROUP`.
    pub(super) group: Document,
    /// `/apis/GROUP/v1beta1`.
    pub(super) resources: Document,
}

/// A body and the tag by which a client asks whether it changed.
pub(super) struct Document {
    content_type: &'static str,
    body: Bytes,
    etag: String,
}

impl Discovery {
    /// The documents for a group whose resources are the metrics of these names.
    pub(super) fn new(group: &ApiGroup, metric_names: &[&str]) -> Self {
        let resources: Vec<Value> = metric_names.iter().map(|name| resource(name)).collect();
        let aggregated: Vec<Value> = metric_names.iter().map(|name| aggregated_resource(group, name)).collect();
        let api_group = api_group(group);
        Self {
            groups: Document::new(JSON, &json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [api_group] })),
            aggregated: Document::new(
                AGGREGATED,
                &json!({
                    "kind": "APIGroupDiscoveryList",
                    "apiVersion": "apidiscovery.k8s.io/v2",
                    "metadata": {},
                    "items": [{
                        "metadata": { "name": group.name() },
                        "versions": [{ "version": VERSION, "freshness": "Current", "resources": aggregated }],
                    }],
                }),
            ),
            resources: Document::new(
                JSON,
                &json!({
                    "kind": "APIResourceList",
                    "apiVersion": "v1",
                    "groupVersion": group.api_version(),
                    "resources": resources,
                }),
            ),
            group: Document::new(JSON, &api_group),
        }
    }

    /// `/apis`, in the form the client prefers.
    pub(super) fn groups(&self, headers: &HeaderMap) -> Response {
        let document = if prefers_aggregated(headers) { &self.aggregated } else { &self.groups };
        let mut response = document.respond(headers);
        response.headers_mut().insert(header::VARY, header::HeaderValue::from_static("Accept"));
        response
    }
}

impl Document {
    fn new(content_type: &'static str, content: &Value) -> Self {
        let body = content.to_string();
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        Self { content_type, body: body.into(), etag: format!("\"{:016X}\"", hasher.finish()) }
    }

    /// The document, or 304 where the client has it already.
    pub(super) fn respond(&self, headers: &HeaderMap) -> Response {
        let etag = [(header::ETAG, self.etag.as_str())];
        if listed(headers, header::IF_NONE_MATCH).any(|tag| tag == "*" || tag.trim_start_matches("W/") == self.etag) {
            return (StatusCode::NOT_MODIFIED, etag).into_response();
        }
        ([(header::CONTENT_TYPE, self.content_type)], etag, self.body.clone()).into_response()
    }
}

fn api_group(group: &ApiGroup) -> Value {
    let version = json!({ "groupVersion": group.api_version(), "version": VERSION });
    json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": group.name(),
        "versions": [version],
        "preferredVersion": version,
    })
}

fn resource(metric_name: &str) -> Value {
    json!({
        "name": metric_name,
        "singularName": "",
        "namespaced": true,
        "kind": "ExternalMetricValueList",
        "verbs": ["get"],
    })
}

/// A resource without a `responseKind` would be dropped by its reader.
fn aggregated_resource(group: &ApiGroup, metric_name: &str) -> Value {
    json!({
        "resource": metric_name,
        "responseKind": { "group": group.name(), "version": VERSION, "kind": "ExternalMetricValueList" },
        "scope": "Namespaced",
        "singularResource": "",
        "verbs": ["get"],
    })
}

/// Whether the first media type in `Accept` that can be served is the aggregated form. What cannot be served is
/// passed over, and never refused.
fn prefers_aggregated(headers: &HeaderMap) -> bool {
    listed(headers, header::ACCEPT).find_map(served_as_aggregated).unwrap_or(false)
}

/// Whether a media type asks for the aggregated form, `None` where it asks for something else than JSON.
fn served_as_aggregated(media_type: &str) -> Option<bool> {
    let mut parts = media_type.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|name| matches!(name, JSON | "application/*" | "*/*"));
    let mut asked = [("g", "apidiscovery.k8s.io", false), ("v", "v2", false), ("as", "APIGroupDiscoveryList", false)];
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        for (known, expected, met) in &mut asked {
            match name == *known {
                true if value == *expected => *met = true,
                true => return None,
                false => {}
            }
        }
    }
    let met = asked.iter().filter(|(_, _, met)| *met).count();
    match (is_json, met) {
        (true, 0) => Some(false),
        (true, 3) => Some(true),
        _ => None,
    }
}

/// The items of a header that is a list.
fn listed(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_the_form_by_accept() {
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        for (accept, expected) in [
            (AGGREGATED.to_owned(), true),
            ("application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io; q=0.9".to_owned(), true),
            (format!("{AGGREGATED},{beta},application/json"), true),
            (format!("{beta},{AGGREGATED}"), true),
            (format!("application/vnd.kubernetes.protobuf,{AGGREGATED}"), true),
            (format!("application/json,{AGGREGATED}"), false),
            (format!("{beta},application/json"), false),
            (beta.to_owned(), false),
            ("application/json;as=Table;v=v1;g=meta.k8s.io".to_owned(), false),
            ("application/json;g=apidiscovery.k8s.io".to_owned(), false),
            ("application/vnd.kubernetes.protobuf, */*".to_owned(), false),
            ("text/html".to_owned(), false),
            (String::new(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            assert_eq!(prefers_aggregated(&headers), expected, "{accept}");
        }
        assert!(!prefers_aggregated(&HeaderMap::new()));
    }

    #[test]
    fn a_known_tag_is_answered_without_a_body() {
        let document = Document::new(JSON, &json!({ "a": 1 }));
        for (tag, code) in [
            (document.etag.clone(), 304),
            (format!("\"x\", W/{}", document.etag), 304),
            ("*".to_owned(), 304),
            ("\"x\"".to_owned(), 200),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, tag.parse().unwrap());
            let response = document.respond(&headers);
            assert_eq!(response.status().as_u16(), code, "{tag}");
            assert_eq!(response.headers()[header::ETAG], document.etag.as_str());
        }
        assert_ne!(document.etag, Document::new(JSON, &json!({ "a": 2 })).etag);
    }
}
