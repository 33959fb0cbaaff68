//! The external metrics API over real HTTP: discovery, values, selectors, refusals.

#![allow(clippy::unwrap_used)]

mod external_metrics_support;

use std::sync::Arc;
use std::time::Duration;

use external_metrics_support::client::{Client, get, get_with};
use external_metrics_support::{DESIRED, Fake, LATENCY, MIXED_CASE, TestServer, WAITING};
use headroom_adapter::serve::{
    AUTOSCALER_LABEL, ApiGroup, ExternalMetrics, MetricError, MetricValue, NoMetricNames, external_metrics,
};
use headroom_policies::{Milli, Timestamp};
use hyper::Method;
use serde_json::json;

const GROUP: &str = "/apis/external.metrics.k8s.io";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The path of a metric in the namespace `llm`, with the name and the selector already encoded.
fn path(metric: &str, selector: &str) -> String {
    format!("{GROUP}/v1beta1/namespaces/llm/{metric}?labelSelector={selector}")
}

/// The path of a metric of the autoscaler `chat`.
fn chat(metric: &str) -> String {
    path(metric, "headroom.dev%2Fautoscaler%3Dchat")
}

fn two_autoscalers() -> Fake {
    Fake::default().number("llm", "chat", DESIRED, "7").number("llm", "embed", DESIRED, "2")
}

#[tokio::test]
async fn discovery_names_group_version_and_resources() {
    let server = TestServer::plain(two_autoscalers().router()).await;
    let version = json!({ "groupVersion": "external.metrics.k8s.io/v1beta1", "version": "v1beta1" });
    let group = json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "external.metrics.k8s.io",
        "versions": [version],
        "preferredVersion": version,
    });
    let resource = |name: &str| {
        json!({
            "name": name,
            "singularName": "",
            "namespaced": true,
            "kind": "ExternalMetricValueList",
            "verbs": ["get"],
        })
    };
    for (path, expected) in [
        ("/apis".to_owned(), json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [group] })),
        (GROUP.to_owned(), group.clone()),
        (
            format!("{GROUP}/v1beta1"),
            json!({
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": "external.metrics.k8s.io/v1beta1",
                "resources": [resource(DESIRED), resource(WAITING), resource(LATENCY), resource(MIXED_CASE)],
            }),
        ),
    ] {
        for accept in ["application/json", "application/vnd.kubernetes.protobuf, */*", "text/html"] {
            let answer = get_with(server.address, &path, &[("accept", accept)]).await;
            assert_eq!((answer.code, answer.json()), (200, expected.clone()), "{path} {accept}");
            assert_eq!(answer.header("content-type"), "application/json");
        }
    }
}

#[tokio::test]
async fn aggregated_discovery_is_tagged() {
    let server = TestServer::plain(two_autoscalers().router()).await;
    let accept = ("accept", AGGREGATED);
    let answer = get_with(server.address, "/apis", &[accept]).await;
    assert_eq!(answer.code, 200);
    assert_eq!(answer.header("content-type"), AGGREGATED);
    assert_eq!(answer.header("vary"), "Accept");
    let resource = |name: &str| {
        json!({
            "resource": name,
            "responseKind": {
                "group": "external.metrics.k8s.io",
                "version": "v1beta1",
                "kind": "ExternalMetricValueList",
            },
            "scope": "Namespaced",
            "singularResource": "",
            "verbs": ["get"],
        })
    };
    let resources = [resource(DESIRED), resource(WAITING), resource(LATENCY), resource(MIXED_CASE)];
    assert_eq!(
        answer.json(),
        json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [{
                "metadata": { "name": "external.metrics.k8s.io" },
                "versions": [{ "version": "v1beta1", "freshness": "Current", "resources": resources }],
            }],
        })
    );

    let etag = answer.header("etag");
    let again = get_with(server.address, "/apis", &[accept, ("if-none-match", etag)]).await;
    assert_eq!((again.code, again.body.len(), again.header("etag")), (304, 0, etag));
    let other_form = get_with(server.address, "/apis", &[("if-none-match", etag)]).await;
    assert_eq!((other_form.code, other_form.json()["kind"].clone()), (200, json!("APIGroupList")));
}

#[tokio::test]
async fn another_group_is_served_alike() {
    let group: ApiGroup = "metrics.headroom.dev".parse().unwrap();
    let router = external_metrics(Arc::new(two_autoscalers()), &group).unwrap();
    let server = TestServer::plain(router).await;
    let path =
        format!("/apis/metrics.headroom.dev/v1beta1/namespaces/llm/{DESIRED}?labelSelector={AUTOSCALER_LABEL}=chat");
    let answer = get(server.address, &path).await;
    assert_eq!(answer.json()["apiVersion"], "metrics.headroom.dev/v1beta1");
    assert_eq!(get(server.address, &chat(DESIRED)).await.code, 404);
    assert_eq!(get(server.address, "/apis").await.json()["groups"][0]["name"], "metrics.headroom.dev");
}

#[test]
fn an_empty_group_is_not_served() {
    struct Nothing;
    impl ExternalMetrics for Nothing {
        fn metric_names(&self) -> &[&'static str] {
            &[]
        }
        fn autoscalers(&self, _: &str, _: &mut dyn FnMut(&str)) {}
        fn read(&self, _: &str, _: &str, _: &'static str) -> Result<MetricValue, MetricError> {
            Err(MetricError::NoSuchAutoscaler)
        }
    }
    assert_eq!(external_metrics(Arc::new(Nothing), &ApiGroup::default()).err(), Some(NoMetricNames));
}

#[tokio::test]
async fn a_value_is_one_item() {
    let read = MetricValue {
        value: "37.5".parse().unwrap(),
        at: Timestamp::parse("2026-11-30T10:00:00.999Z").unwrap(),
        window: Some(Duration::from_millis(9_500)),
    };
    let server = TestServer::plain(Fake::default().with("llm", "chat", WAITING, Ok(read)).router()).await;
    let expected = json!({
        "kind": "ExternalMetricValueList",
        "apiVersion": "external.metrics.k8s.io/v1beta1",
        "metadata": {},
        "items": [{
            "metricName": WAITING,
            "metricLabels": { "headroom.dev/autoscaler": "chat" },
            "timestamp": "2026-11-30T10:00:00Z",
            "window": 10,
            "value": "37500m",
        }],
    });
    let path = format!("{}&limit=500&pretty=true&timeoutSeconds=30&%zz", chat(WAITING));
    for accept in ["application/vnd.kubernetes.protobuf, */*", "application/json", "image/png"] {
        let answer = get_with(server.address, &path, &[("accept", accept)]).await;
        assert_eq!((answer.code, answer.json()), (200, expected.clone()), "{accept}");
        assert_eq!(answer.header("content-type"), "application/json");
    }
    let answer = Client::http2(server.address).await.get(&path).await;
    assert_eq!((answer.code, answer.json()), (200, expected));
}

#[tokio::test]
async fn a_value_without_window_has_none() {
    let server = TestServer::plain(two_autoscalers().router()).await;
    let answer = get(server.address, &chat(DESIRED)).await.json();
    let item = answer["items"][0].as_object().unwrap();
    assert!(!item.contains_key("window"), "{answer}");
    assert_eq!(item["value"], "7");
}

/// B-49: a name in lower case, as the HPA's client sends it, finds one that is published in mixed case; the labels
/// stay case-sensitive.
#[tokio::test]
async fn metric_names_are_found_in_any_case() {
    let server = TestServer::plain(Fake::default().number("llm", "chat", MIXED_CASE, "3").router()).await;
    for name in ["llmQueueDepth", "llmqueuedepth", "LLMQUEUEDEPTH"] {
        let answer = get(server.address, &chat(name)).await;
        assert_eq!((answer.code, &answer.json()["items"][0]["metricName"]), (200, &json!(MIXED_CASE)), "{name}");
    }
    for selector in ["headroom.dev/autoscaler=Chat", "headroom.dev/Autoscaler=chat"] {
        get(server.address, &path("llmqueuedepth", selector)).await.refusal(404, "NotFound");
    }
}

/// B-50: an encoded name is the same name; an engine's own names, written in whichever way, are a 404 that says
/// which names there are.
#[tokio::test]
async fn metric_names_are_decoded_and_unknown_ones_refused() {
    let server = TestServer::plain(two_autoscalers().router()).await;
    for name in ["headroom%5Fdesired%5freplicas", "%68eadroom_desired_replicas"] {
        assert_eq!(get(server.address, &chat(name)).await.json()["items"][0]["value"], "7", "{name}");
    }
    for (name, shown) in [
        ("vllm:num_requests_waiting", "vllm:num_requests_waiting"),
        ("vllm%3Anum_requests_waiting", "vllm:num_requests_waiting"),
        ("vllm_num_requests_waiting", "vllm_num_requests_waiting"),
        ("a%2Fb", "a/b"),
        ("a%20b", "a b"),
    ] {
        let message = get(server.address, &chat(name)).await.refusal(404, "NotFound");
        assert_eq!(
            message,
            format!("there is no metric \"{shown}\"; the metrics are {DESIRED}, {WAITING}, {LATENCY}, {MIXED_CASE}")
        );
    }
    get(server.address, &chat("a%FFb")).await.refusal(400, "BadRequest");
}

/// B-52: what leaves is a quantity that is neither rounded to nothing, nor negative, nor overflowing.
#[tokio::test]
async fn quantities_keep_their_meaning() {
    for (given, sent) in [
        ("9.1e15", "9100T"),
        ("1e16", "9223372036854775807m"),
        ("0.0001", "1m"),
        ("0.8505", "851m"),
        ("0", "0"),
        ("12000", "12k"),
    ] {
        let server = TestServer::plain(Fake::default().number("llm", "chat", DESIRED, given).router()).await;
        assert_eq!(get(server.address, &chat(DESIRED)).await.json()["items"][0]["value"], sent, "{given}");
    }
    let server = TestServer::plain(Fake::default().number("llm", "chat", DESIRED, "-1").router()).await;
    let message = get(server.address, &chat(DESIRED)).await.refusal(503, "ServiceUnavailable");
    assert!(message.ends_with("of autoscaler \"chat\" in namespace \"llm\" cannot be sent: its value -1 is negative"));
}

#[tokio::test]
async fn a_time_that_is_no_date_is_refused() {
    let read = MetricValue { value: Milli::ZERO, at: Timestamp::from_millis(i64::MAX), window: None };
    let server = TestServer::plain(Fake::default().with("llm", "chat", DESIRED, Ok(read)).router()).await;
    get(server.address, &chat(DESIRED)).await.refusal(503, "ServiceUnavailable");
}

/// B-53: an item carries the time of its data, and data too old is an error rather than a number.
#[tokio::test]
async fn old_data_is_shown_as_old_or_refused() {
    let read = MetricValue {
        value: Milli::from_units(37),
        at: Timestamp::parse("2026-11-30T10:00:00Z").unwrap(),
        window: Some(Duration::from_secs(60)),
    };
    let too_old = MetricError::Unreadable("no sample of pods chat-0, chat-1 for more than 60s".to_owned());
    let fake = Fake::default().with("llm", "chat", WAITING, Ok(read)).with("llm", "embed", WAITING, Err(too_old));
    let server = TestServer::plain(fake.router()).await;
    let item = get(server.address, &chat(WAITING)).await.json()["items"][0].clone();
    assert_eq!((&item["timestamp"], &item["window"]), (&json!("2026-11-30T10:00:00Z"), &json!(60)));
    let message = get(server.address, &path(WAITING, "headroom.dev/autoscaler=embed")).await;
    assert_eq!(
        message.refusal(503, "ServiceUnavailable"),
        "metric headroom_waiting_requests of autoscaler \"embed\" in namespace \"llm\" is not known now: \
         no sample of pods chat-0, chat-1 for more than 60s"
    );
}

#[tokio::test]
async fn a_metric_that_is_not_served_says_what_to_use() {
    let why = "latencies do not add up over replicas; use headroom_desired_replicas".to_owned();
    let fake = Fake::default().with("llm", "chat", LATENCY, Err(MetricError::NotServed(why)));
    let server = TestServer::plain(fake.router()).await;
    assert_eq!(
        get(server.address, &chat(LATENCY)).await.refusal(404, "NotFound"),
        "metric headroom_time_to_first_token of autoscaler \"chat\" in namespace \"llm\" is not served: \
         latencies do not add up over replicas; use headroom_desired_replicas"
    );
}

#[tokio::test]
async fn a_selector_selects_one_autoscaler() {
    let server = TestServer::plain(two_autoscalers().router()).await;
    for selector in [
        "headroom.dev%2Fautoscaler%3Dchat",
        "headroom.dev/autoscaler=chat",
        "headroom.dev/autoscaler==chat",
        "headroom.dev%2Fautoscaler+in+%28chat%29",
        "headroom.dev%2Fautoscaler%20in%20(chat,rerank)",
        "headroom.dev%2Fautoscaler!%3Dembed",
        "headroom.dev%2Fautoscaler+notin+%28embed%2Crerank%29",
        "headroom.dev%2Fautoscaler%2Cheadroom.dev%2Fautoscaler%3Dchat",
        "headroom.dev%2Fautoscaler%3Dchat%2C%21app",
        "headroom.dev%2Fautoscaler%3Dchat&labelSelector=headroom.dev%2Fautoscaler%3Dembed",
    ] {
        let answer = get(server.address, &path(DESIRED, selector)).await;
        assert_eq!(answer.code, 200, "{selector}: {answer:?}");
        assert_eq!(answer.json()["items"][0]["metricLabels"][AUTOSCALER_LABEL], "chat", "{selector}");
    }
    let alone = TestServer::plain(Fake::default().number("llm", "chat", DESIRED, "7").router()).await;
    for query in ["", "?", "?labelSelector=", "?limit=1"] {
        let path = format!("{GROUP}/v1beta1/namespaces/llm/{DESIRED}{query}");
        assert_eq!(get(alone.address, &path).await.code, 200, "{query}");
    }
}

#[tokio::test]
async fn a_selector_that_selects_none_says_which_there_are() {
    let server = TestServer::plain(two_autoscalers().router()).await;
    for selector in [
        "headroom.dev/autoscaler=chta",
        "headroom.dev/autoscaler=chat,headroom.dev/autoscaler=embed",
        "headroom.dev/autoscaler=chat,app=vllm",
        "!headroom.dev/autoscaler",
        "headroom.dev/autoscaler>1",
    ] {
        let encoded = selector.replace('>', "%3E");
        let message = get(server.address, &path(DESIRED, &encoded)).await.refusal(404, "NotFound");
        assert_eq!(
            message,
            format!(
                "labelSelector \"{selector}\" selects no autoscaler in namespace \"llm\", which has chat, embed; \
                 select one with headroom.dev/autoscaler=NAME"
            )
        );
    }
    let elsewhere = format!("{GROUP}/v1beta1/namespaces/web/{DESIRED}?labelSelector={AUTOSCALER_LABEL}=chat");
    let message = get(server.address, &elsewhere).await.refusal(404, "NotFound");
    assert_eq!(message, "namespace \"web\" has no autoscaler");
}

#[tokio::test]
async fn a_selector_that_selects_many_names_some() {
    let fake = (0..30).fold(Fake::default(), |fake, index| fake.number("llm", &format!("m{index:02}"), DESIRED, "1"));
    let server = TestServer::plain(fake.router()).await;
    let message = get(server.address, &path(DESIRED, "headroom.dev/autoscaler")).await.refusal(400, "BadRequest");
    assert_eq!(
        message,
        "labelSelector \"headroom.dev/autoscaler\" selects 30 autoscalers in namespace \"llm\": m00, m01, m02, m03, \
         m04, m05, m06, m07, m08, m09 and 20 more; select one with headroom.dev/autoscaler=NAME"
    );
}

#[tokio::test]
async fn a_text_that_is_no_selector_is_refused_with_its_place() {
    let server = TestServer::plain(two_autoscalers().router()).await;
    let message = get(server.address, &path(DESIRED, "app+in+chat")).await.refusal(400, "BadRequest");
    assert_eq!(
        message,
        "labelSelector \"app in chat\" cannot be read: at character 8: expected an opening parenthesis, found \"chat\""
    );
}

#[tokio::test]
async fn everything_else_is_a_status() {
    let server = TestServer::plain(two_autoscalers().router()).await;
    for path in [
        "/".to_owned(),
        "/openapi/v2".to_owned(),
        "/openapi/v3".to_owned(),
        "/apis/custom.metrics.k8s.io/v1beta1".to_owned(),
        format!("{GROUP}/v1beta2"),
        format!("{GROUP}/v1beta1/{DESIRED}"),
        format!("{GROUP}/v1beta1/namespaces/llm/{DESIRED}/chat"),
    ] {
        let message = get(server.address, &path).await.refusal(404, "NotFound");
        assert_eq!(message, format!("there is nothing at \"{path}\""));
    }
    let mut client = Client::http1(server.address).await;
    for path in ["/apis".to_owned(), format!("{GROUP}/v1beta1"), chat(DESIRED), "/healthz".to_owned()] {
        let answer = client.request(Method::DELETE, &path, &[]).await.unwrap();
        answer.refusal(405, "MethodNotAllowed");
        assert_eq!(answer.header("allow"), "GET,HEAD", "{path}");
    }
}

#[tokio::test]
async fn health_and_version_do_not_depend_on_numbers() {
    let server = TestServer::plain(Fake::default().router()).await;
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = get(server.address, path).await;
        assert_eq!((answer.code, &answer.body[..]), (200, &b"ok"[..]), "{path}");
    }
    let version = get(server.address, "/version").await.json();
    assert_eq!(version["gitVersion"], concat!("v", env!("CARGO_PKG_VERSION")));
    for field in ["major", "minor", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "platform"] {
        assert!(version[field].is_string(), "{field}");
    }
}
