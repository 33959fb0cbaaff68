//! Talking to a running Headroom.

use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use reqwest::{Method, Url};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(10);

/// Which autoscaler of which process.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// Where Headroom shows its state.
    #[arg(long, env = "HEADROOM_SERVER", default_value = "http://127.0.0.1:8080")]
    pub(super) server: Url,
}

/// `NAMESPACE/NAME`; a name alone is in the namespace `default`.
pub(super) fn split_name(text: &str) -> anyhow::Result<(String, String)> {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        bail!("{text:?} is not NAMESPACE/NAME");
    }
    Ok((namespace.to_owned(), name.to_owned()))
}

/// Asks for a path under `/api/v1`, and answers the JSON.
pub(super) async fn ask(
    server: &Url,
    method: Method,
    path: &[&str],
    query: &[(&str, &str)],
    body: Option<Value>,
) -> anyhow::Result<Value> {
    let mut url = server.clone();
    match url.path_segments_mut() {
        Ok(mut segments) => {
            segments.pop_if_empty().extend(["api", "v1"]).extend(path);
        }
        Err(()) => bail!("{server} is not a URL of a server"),
    }
    let client = reqwest::Client::builder().timeout(TIMEOUT).no_proxy().build()?;
    let mut request = client.request(method, url.clone()).query(query);
    if let Some(body) = body {
        request = request.json(&body);
    }
    let response = request
        .send()
        .await
        .with_context(|| format!("no answer from {server}; name the process with --server or HEADROOM_SERVER"))?;
    let status = response.status();
    let text = response.text().await.with_context(|| format!("the answer from {url} broke off"))?;
    let json: Option<Value> = serde_json::from_str(&text).ok();
    if status.is_success() {
        return json.with_context(|| format!("{url} did not answer JSON; is it a Headroom?"));
    }
    let said = json.as_ref().and_then(|json| json.get("error")).and_then(Value::as_str);
    let said = said.map_or_else(|| format!("{server} answered {status}; is it a Headroom?"), str::to_owned);
    bail!("{said}")
}
