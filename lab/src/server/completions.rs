//! `POST /v1/completions`, in the form of `OpenAI`'s API.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Server;
use super::answer::{answer, error, unavailable, unix_time};
use super::live::{Following, Progress};
use super::stage::{self, Stage};
use crate::fleet::SubmitError;

/// What every token reads.
const TOKEN: &str = " token";
/// Characters of text that are taken as one token.
const CHARACTERS_A_TOKEN: usize = 4;

/// A prompt.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Prompt {
    Text(String),
    Tokens(Vec<u32>),
}

impl Prompt {
    fn tokens(&self) -> u32 {
        let tokens = match self {
            Self::Text(text) => text.chars().count().div_ceil(CHARACTERS_A_TOKEN),
            Self::Tokens(tokens) => tokens.len(),
        };
        u32::try_from(tokens).unwrap_or(u32::MAX)
    }
}

/// The fields of the body that matter here; others are passed over.
#[derive(Debug, Deserialize)]
struct Completion {
    model: Option<String>,
    prompt: Prompt,
    /// 16 is `OpenAI`'s default.
    #[serde(default = "sixteen")]
    max_tokens: u32,
    #[serde(default)]
    stream: bool,
}

fn sixteen() -> u32 {
    16
}

/// Answers a completion.
pub(super) async fn complete(State(server): State<Arc<Server>>, body: Bytes) -> Response {
    let completion: Completion = match serde_json::from_slice(&body) {
        Ok(completion) => completion,
        Err(problem) => {
            let message = format!(
                "the body is no completion request: {problem}; send JSON with a prompt (text or an array of token \
                 ids), max_tokens and stream"
            );
            return error(StatusCode::BAD_REQUEST, "BadRequestError", &message);
        }
    };
    if let Some(model) = completion.model.as_ref().filter(|model| **model != server.model) {
        let message = format!("the model {model:?} does not exist here; this server has {:?}", server.model);
        return error(StatusCode::NOT_FOUND, "NotFoundError", &message);
    }
    let prompt_tokens = completion.prompt.tokens();
    let followed = server.fleet.follow(server.replica, prompt_tokens, completion.max_tokens, completion.stream);
    match followed {
        Ok(following) if completion.stream => stream_tokens(&server, following),
        Ok(following) => answer_whole(&server, following, prompt_tokens).await,
        Err(SubmitError::Refused(refusal)) => error(StatusCode::BAD_REQUEST, "BadRequestError", &refusal.to_string()),
        Err(not_ready @ SubmitError::NotReady(_)) => unavailable(&not_ready.to_string()),
    }
}

/// One answer, or one chunk of it.
fn object(server: &Server, id: u64, text: &str, finish_reason: Option<&str>) -> Value {
    json!({
        "id": format!("cmpl-{id}"),
        "object": "text_completion",
        "created": unix_time().as_secs(),
        "model": server.model,
        "choices": [{"index": 0, "text": text, "logprobs": null, "finish_reason": finish_reason}],
    })
}

async fn answer_whole(server: &Server, mut following: Following, prompt_tokens: u32) -> Response {
    let mut progress = Progress::default();
    while !progress.finished {
        tokio::select! {
            news = following.beyond(progress.tokens) => progress = news,
            () = stage::reached(&server.stage, Stage::Killed) => {
                return unavailable("the server stopped");
            }
        }
    }
    let mut whole = object(server, following.id().get(), &TOKEN.repeat(progress.tokens as usize), Some("length"));
    whole["usage"] = json!({
        "prompt_tokens": prompt_tokens,
        "completion_tokens": progress.tokens,
        "total_tokens": prompt_tokens + progress.tokens,
    });
    answer(StatusCode::OK, &whole)
}

/// Where a stream of tokens stands.
struct Streaming {
    server: Arc<Server>,
    following: Following,
    sent: u32,
    done: bool,
}

impl Streaming {
    /// The next chunk; `None` after the last, or when the server is killed.
    async fn next(&mut self) -> Option<String> {
        if self.done {
            return None;
        }
        let progress = tokio::select! {
            news = self.following.beyond(self.sent) => news,
            () = stage::reached(&self.server.stage, Stage::Killed) => return None,
        };
        if progress.tokens <= self.sent {
            self.done = true;
            return Some("data: [DONE]\n\n".to_owned());
        }
        self.sent += 1;
        let is_last = progress.finished && self.sent == progress.tokens;
        let chunk = object(&self.server, self.following.id().get(), TOKEN, is_last.then_some("length"));
        Some(format!("data: {chunk}\n\n"))
    }
}

/// Server-sent events: a chunk for each token as it comes out.
fn stream_tokens(server: &Arc<Server>, following: Following) -> Response {
    let streaming = Streaming { server: Arc::clone(server), following, sent: 0, done: false };
    let chunks = stream::unfold(streaming, |mut streaming| async move {
        let chunk = streaming.next().await?;
        Some((Ok::<_, Infallible>(chunk), streaming))
    });
    ([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], Body::from_stream(chunks)).into_response()
}
