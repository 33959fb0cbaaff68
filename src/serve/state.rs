//! The state as JSON, and hold and resume for users of the machine itself.

use axum::Json;
use axum::Router;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{OriginalUri, Path, Query, State};
use axum::http::header::ORIGIN;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use headroom_policies::observation::Hold;
use headroom_policies::{Published, Replicas, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::http::{Client, Shared};
use crate::api::Key;
use crate::controller::{Entry, HoldRequest};

/// Decisions listed where no limit is given.
const DECISIONS_LISTED: usize = 100;

/// A reason is shown wherever the count is.
const MOST_REASON_BYTES: usize = 1024;

pub(super) fn routes() -> Router<Shared> {
    Router::new()
        .route("/autoscalers", get(list))
        .route("/autoscalers/{namespace}/{name}", get(one))
        .route("/autoscalers/{namespace}/{name}/decisions", get(decisions))
        .route("/autoscalers/{namespace}/{name}/decisions/{id}", get(decision))
        .route("/autoscalers/{namespace}/{name}/hold", put(hold).delete(resume))
        .method_not_allowed_fallback(|method: Method, uri: OriginalUri| async move {
            Failure(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not take {method}", uri.path()))
        })
        .fallback(|uri: OriginalUri| async move {
            Failure(StatusCode::NOT_FOUND, format!("there is no {}; / lists what there is", uri.path()))
        })
}

/// An error as JSON: `{"error": "..."}`.
struct Failure(StatusCode, String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Overview {
    namespace: String,
    name: String,
    current_replicas: Option<Replicas>,
    desired_replicas: Option<Replicas>,
    published: Option<Published>,
    blind: Option<bool>,
    reason: Option<String>,
    message: Option<String>,
    at: Option<Timestamp>,
}

fn overview(key: &Key, entry: &Entry) -> Overview {
    let standing = entry.standing.load();
    let decision = standing.as_ref().map(|standing| &standing.record.decision);
    let summary = decision.map(headroom_policies::Decision::summary);
    Overview {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        current_replicas: decision.map(|decision| decision.current),
        desired_replicas: decision.map(|decision| decision.desired),
        published: decision.map(|decision| decision.published.clone()),
        blind: decision.map(|decision| decision.blind),
        reason: summary.map(|(reason, _)| reason.to_string()),
        message: summary.map(|(_, message)| message.to_owned()),
        at: decision.map(|decision| decision.at),
    }
}

async fn list(State(shared): State<Shared>) -> Json<Value> {
    let all: Vec<Overview> = shared.store.all().iter().map(|(key, entry)| overview(key, entry)).collect();
    Json(json!({ "autoscalers": all }))
}

fn find(shared: &Shared, namespace: &str, name: &str) -> Result<std::sync::Arc<Entry>, Failure> {
    shared.store.get(namespace, name).ok_or_else(|| {
        let known: Vec<String> = shared.store.all().iter().map(|(key, _)| key.to_string()).collect();
        let known =
            if known.is_empty() { "there is none".to_owned() } else { format!("there are {}", known.join(", ")) };
        Failure(StatusCode::NOT_FOUND, format!("there is no autoscaler {namespace}/{name}; {known}"))
    })
}

async fn one(
    State(shared): State<Shared>,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<Value>, Failure> {
    let entry = find(&shared, &namespace, &name)?;
    let spec = entry.spec.load();
    let now = shared.clock.now();
    let (targets, states) = entry.fleet.load().with(|fleet| (fleet.targets(now), fleet.target_states()));
    let states: serde_json::Map<String, Value> = headroom_adapter::scrape::TargetState::ALL
        .iter()
        .zip(states)
        .filter(|(_, count)| *count > 0)
        .map(|(state, count)| (state.name().to_owned(), json!(count)))
        .collect();
    let standing = entry.standing.load();
    let warnings: Vec<String> = spec.warnings.iter().map(ToString::to_string).collect();
    Ok(Json(json!({
        "overview": overview(&spec.key, &entry),
        "policy": spec.policy,
        "warnings": warnings,
        "hold": entry.by_hand().effective(&spec, now),
        "paused": spec.paused,
        "decision": standing.as_ref().map(|standing| &standing.record.decision),
        "targetStates": states,
        "targets": targets,
    })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DecisionQuery {
    at: Option<String>,
    since: Option<String>,
    until: Option<String>,
    limit: Option<usize>,
}

fn time(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, Failure> {
    let Some(text) = text else { return Ok(None) };
    match Timestamp::parse(text) {
        Some(time) => Ok(Some(time)),
        None => {
            let message = format!("{name}={text:?} is not an RFC 3339 time such as 2026-03-08T03:12:00Z");
            Err(Failure(StatusCode::BAD_REQUEST, message))
        }
    }
}

async fn decisions(
    State(shared): State<Shared>,
    Path((namespace, name)): Path<(String, String)>,
    query: Result<Query<DecisionQuery>, QueryRejection>,
) -> Result<Json<Value>, Failure> {
    let Query(query) = query.map_err(|error| Failure(StatusCode::BAD_REQUEST, error.body_text()))?;
    let entry = find(&shared, &namespace, &name)?;
    let journal = entry.journal();
    if let Some(at) = time("at", query.at.as_deref())? {
        // Between two kept ones stand others that differ in nothing but what was read; the last of them is known.
        if let Some(standing) = entry.standing.load().as_ref()
            && at >= standing.record.decision.at
        {
            return Ok(Json(json!({ "summary": journal.newest(), "record": standing.record })));
        }
        let Some((summary, record)) = journal.in_force_at(at) else {
            let oldest = journal.oldest().map_or_else(|| "none".to_owned(), |oldest| format!("the first of {oldest}"));
            let message =
                format!("no decision of {namespace}/{name} is kept from {at}; kept are those of a day, {oldest}");
            return Err(Failure(StatusCode::NOT_FOUND, message));
        };
        return Ok(Json(json!({ "summary": summary, "record": record })));
    }
    let since = time("since", query.since.as_deref())?.unwrap_or(Timestamp::from_millis(i64::MIN));
    let until = time("until", query.until.as_deref())?.unwrap_or(Timestamp::from_millis(i64::MAX));
    let limit = query.limit.unwrap_or(DECISIONS_LISTED);
    Ok(Json(json!({ "decisions": journal.summaries(since, until, limit) })))
}

async fn decision(
    State(shared): State<Shared>,
    Path((namespace, name, id)): Path<(String, String, String)>,
) -> Result<Json<Value>, Failure> {
    let entry = find(&shared, &namespace, &name)?;
    let id: u64 =
        id.parse().map_err(|_| Failure(StatusCode::BAD_REQUEST, format!("{id:?} is not the number of a decision")))?;
    match entry.journal().get(id) {
        Some((summary, record)) => Ok(Json(json!({ "summary": summary, "record": record }))),
        None => Err(Failure(StatusCode::NOT_FOUND, format!("no decision {id} of {namespace}/{name} is kept"))),
    }
}

/// Changes are for users of this machine: no other host, and no page in a browser.
fn check_local(client: &Client, headers: &HeaderMap) -> Result<(), Failure> {
    if client.0.ip().to_canonical().is_loopback() && !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    let message = "hold and resume are taken from this machine only; run the command where Headroom runs";
    Err(Failure(StatusCode::FORBIDDEN, message.to_owned()))
}

async fn hold(
    State(shared): State<Shared>,
    client: Client,
    headers: HeaderMap,
    Path((namespace, name)): Path<(String, String)>,
    request: Result<Json<Value>, JsonRejection>,
) -> Result<Json<Value>, Failure> {
    check_local(&client, &headers)?;
    let Json(request) = request.map_err(|error| Failure(error.status(), error.body_text()))?;
    // A list would be taken for the fields, one by one.
    let request: HoldRequest = match request {
        Value::Object(_) => serde_json::from_value(request)
            .map_err(|error| Failure(StatusCode::BAD_REQUEST, format!("the body is no hold: {error}")))?,
        other => return Err(Failure(StatusCode::BAD_REQUEST, format!("the body must be a JSON object, not {other}"))),
    };
    let entry = find(&shared, &namespace, &name)?;
    let spec = entry.spec.load();
    let bad = |message: String| Failure(StatusCode::BAD_REQUEST, message);
    let current = entry.standing.load().as_ref().map(|standing| standing.record.decision.current);
    let replicas = request.replicas.or(current).ok_or_else(|| {
        Failure(
            StatusCode::CONFLICT,
            format!("the size of {namespace}/{name} is not known yet; name the replicas to hold"),
        )
    })?;
    if replicas < Replicas::ZERO || replicas > spec.policy.max_replicas {
        return Err(bad(format!(
            "{namespace}/{name} cannot be held at {replicas}: write from 0 to its maxReplicas, {}",
            spec.policy.max_replicas
        )));
    }
    if let Some(until) = request.until.filter(|until| *until <= shared.clock.now()) {
        let now = shared.clock.now();
        return Err(bad(format!(
            "{namespace}/{name} cannot be held until {until}: it is {now} here; write a later time"
        )));
    }
    if request.reason.as_ref().is_some_and(|reason| reason.len() > MOST_REASON_BYTES) {
        return Err(bad(format!("the reason is longer than {MOST_REASON_BYTES} bytes; write a shorter one")));
    }
    let mut by_hand = entry.by_hand();
    let hold = Hold { replicas, until: request.until, reason: request.reason };
    by_hand.hold = Some(hold.clone());
    entry.set_by_hand(by_hand);
    Ok(Json(json!({ "hold": hold })))
}

async fn resume(
    State(shared): State<Shared>,
    client: Client,
    headers: HeaderMap,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<Value>, Failure> {
    check_local(&client, &headers)?;
    let entry = find(&shared, &namespace, &name)?;
    let mut by_hand = entry.by_hand();
    let ended = by_hand.hold.take();
    entry.set_by_hand(by_hand);
    let spec = entry.spec.load();
    Ok(Json(json!({ "ended": ended, "hold": spec.hold, "paused": spec.paused })))
}
