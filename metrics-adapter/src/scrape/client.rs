//! One HTTP GET of one page, every way it can go wrong told apart.

use std::error::Error;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, LOCATION, SERVER, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Body, Incoming};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::body::{not_an_exposition, read_body};
use super::state::{ScrapeFailure, TargetState};
use super::target::ScrapeSettings;
use crate::exposition::{Format, Limits, Page, PageReader, Scrutiny};

/// The text format is asked for: asked for OpenMetrics, vLLM replaces its colons by underscores.
const ACCEPTED: HeaderValue = HeaderValue::from_static(
    "text/plain;version=0.0.4;q=1,text/plain;version=1.0.0;q=0.9,application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.1",
);
/// Each kept connection holds one, so that it is most of what a target takes in memory.
const READ_BUFFER: usize = 4 * 1024;
/// As much of an error's body is read to tell what it says.
const ERROR_BODY: usize = 4 * 1024;
const MESSAGE_SHOWN: usize = 200;

/// Why scraping cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The authorities cannot be read.
    #[error("cannot read the certificate authorities: {0}")]
    Authorities(String),
    /// The client certificate cannot be read.
    #[error("cannot read the client certificate or its key: {0}")]
    Client(String),
    /// The system has no authorities.
    #[error("the system has no certificate authorities that can be read; set engine.caSecretRef")]
    System,
}

/// Scrapes the targets of one fleet over connections that are kept.
#[derive(Debug, Clone)]
pub struct ScrapeClient {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    authorization: Option<HeaderValue>,
    timeout: Duration,
}

impl ScrapeClient {
    /// A client with the settings' credentials and timeout.
    ///
    /// # Errors
    /// A credential cannot be read.
    pub fn new(settings: &ScrapeSettings) -> Result<Self, CredentialsError> {
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        // A connection that is never answered must be told apart from a server that never answers.
        http.set_connect_timeout(Some(settings.timeout.mul_f64(0.9)));
        let tls = tls_config(settings)?;
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(http);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(Duration::from_secs(90))
            .pool_max_idle_per_host(1)
            .http1_read_buf_exact_size(READ_BUFFER)
            .build(connector);
        Ok(Self { client, authorization: settings.credentials.authorization.clone(), timeout: settings.timeout })
    }

    /// Reads a target's page within the timeout.
    ///
    /// # Errors
    /// What kept the page from being read.
    pub async fn scrape(
        &self,
        url: &Uri,
        reader: &mut PageReader,
        limits: Limits,
        scrutiny: Scrutiny,
    ) -> Result<Page, ScrapeFailure> {
        let scrape = self.scrape_without_timeout(url, reader, limits, scrutiny);
        tokio::time::timeout(self.timeout, scrape).await.unwrap_or_else(|_| {
            let message = format!("no whole answer within {:?}; the server may be busy or hang", self.timeout);
            Err(ScrapeFailure::new(TargetState::Timeout, message))
        })
    }

    async fn scrape_without_timeout(
        &self,
        url: &Uri,
        reader: &mut PageReader,
        limits: Limits,
        scrutiny: Scrutiny,
    ) -> Result<Page, ScrapeFailure> {
        let mut request = Request::get(url).header(ACCEPT, ACCEPTED);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request
            .body(Empty::new())
            .map_err(|error| ScrapeFailure::new(TargetState::HttpError, format!("cannot ask for {url}: {error}")))?;
        let response =
            self.client.request(request).await.map_err(|error| {
                if error.is_connect() { connection_failure(&error) } else { answer_failure(&error) }
            })?;
        if response.status() != StatusCode::OK {
            return Err(status_failure(response).await);
        }
        let format = exposition_format(response.headers())?;
        let gzip = is_gzip(response.headers())?;
        let tells_its_end =
            response.headers().contains_key(TRANSFER_ENCODING) || response.body().size_hint().exact().is_some();
        reader.begin(format, limits, scrutiny);
        let page = read_body(response.into_body(), gzip, reader).await?;
        if !tells_its_end && !gzip && (page.lines.partial || page.lacks_series) {
            return Err(cut_off(&page));
        }
        Ok(page)
    }
}

/// The state for a body that ended with its connection, and not where it should.
fn cut_off(page: &Page) -> ScrapeFailure {
    let what = if page.lines.partial { "in the middle of a line" } else { "without series that were there before" };
    let message = format!(
        "the body ended with the connection {what}, and no Content-Length says that it was whole, so none of it counts"
    );
    ScrapeFailure::new(TargetState::Malformed, message)
}

fn tls_config(settings: &ScrapeSettings) -> Result<rustls::ClientConfig, CredentialsError> {
    let credentials = &settings.credentials;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| CredentialsError::Authorities(error.to_string()))?;
    let roots = match &credentials.authorities {
        Some(pem) => Arc::new(roots_in(pem)?),
        None if settings.tls => system_roots()?,
        None => Arc::new(RootCertStore::empty()),
    };
    let builder = builder.with_root_certificates(roots);
    let Some(identity) = &credentials.client else { return Ok(builder.with_no_client_auth()) };
    let failed = |error: &dyn std::fmt::Display| CredentialsError::Client(error.to_string());
    let chain = CertificateDer::pem_slice_iter(&identity.certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| failed(&error))?;
    let key = PrivateKeyDer::from_pem_slice(&identity.key).map_err(|error| failed(&error))?;
    builder.with_client_auth_cert(chain, key).map_err(|error| failed(&error))
}

fn roots_in(pem: &[u8]) -> Result<RootCertStore, CredentialsError> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| CredentialsError::Authorities(error.to_string()))?;
        roots.add(certificate).map_err(|error| CredentialsError::Authorities(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(CredentialsError::Authorities("there is no certificate in the PEM".into()));
    }
    Ok(roots)
}

/// The system's authorities, read once: they take a megabyte.
fn system_roots() -> Result<Arc<RootCertStore>, CredentialsError> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    if roots.is_empty() { Err(CredentialsError::System) } else { Ok(Arc::clone(roots)) }
}

fn exposition_format(headers: &HeaderMap) -> Result<Format, ScrapeFailure> {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    Format::of_content_type(content_type).map_err(not_an_exposition)
}

fn is_gzip(headers: &HeaderMap) -> Result<bool, ScrapeFailure> {
    match headers.get(CONTENT_ENCODING).map(HeaderValue::as_bytes) {
        None | Some(b"identity" | b"") => Ok(false),
        Some(b"gzip" | b"x-gzip") => Ok(true),
        Some(other) => {
            let message =
                format!("the body is encoded as {:?}, which was not asked for", String::from_utf8_lossy(other));
            Err(ScrapeFailure::new(TargetState::Malformed, message))
        }
    }
}

/// The state for a connection on which no answer came.
fn answer_failure(error: &(dyn Error + 'static)) -> ScrapeFailure {
    let chain = causes(error);
    let state = if chain.iter().any(|cause| cause.downcast_ref::<rustls::Error>().is_some()) {
        TargetState::TlsError
    } else {
        TargetState::HttpError
    };
    ScrapeFailure::new(state, format!("connected, but there was no HTTP answer: {}", text_of(&chain)))
}

/// The state for a request that got no connection.
fn connection_failure(error: &(dyn Error + 'static)) -> ScrapeFailure {
    let chain = causes(error);
    if chain.iter().any(|cause| cause.downcast_ref::<rustls::Error>().is_some()) {
        let message = format!("the TLS handshake failed: {}", text_of(&chain));
        return ScrapeFailure::new(TargetState::TlsError, message);
    }
    let kind = chain.iter().find_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    match kind {
        Some(io::ErrorKind::ConnectionRefused) => ScrapeFailure::new(
            TargetState::Refused,
            "the connection was refused: nothing listens on that port, or the model is still being loaded",
        ),
        Some(io::ErrorKind::TimedOut) => ScrapeFailure::new(
            TargetState::Blocked,
            "the connection is not answered: a NetworkPolicy or firewall drops it, or the node is gone",
        ),
        Some(io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::PermissionDenied) => {
            ScrapeFailure::new(
                TargetState::Blocked,
                format!("a policy or the network keeps us out: {}", text_of(&chain)),
            )
        }
        Some(io::ErrorKind::InvalidData) if text_of(&chain).contains("tls") => {
            ScrapeFailure::new(TargetState::TlsError, format!("the TLS handshake failed: {}", text_of(&chain)))
        }
        _ => ScrapeFailure::new(TargetState::Refused, format!("no connection: {}", text_of(&chain))),
    }
}

/// An error, its causes, and what those carry inside.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    let mut chain: Vec<&'a (dyn Error + 'static)> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        chain.push(cause);
        next = cause.source();
        // An error of a stream can carry another one that is not its source.
        if let Some(inner) = cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            chain.push(inner);
        }
    }
    chain
}

fn text_of(chain: &[&(dyn Error + 'static)]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in chain {
        let text = cause.to_string();
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
    }
    shortened(&texts.join(": "))
}

/// At most so many characters, on one line.
pub(super) fn shortened(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_SHOWN) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

/// The state for a response whose status is not 200.
async fn status_failure(response: Response<Incoming>) -> ScrapeFailure {
    let (status, headers) = (response.status(), response.headers().clone());
    let body = Limited::new(response.into_body(), ERROR_BODY).collect().await;
    let body = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default();
    let said = shortened(&said_in(&body));
    let said = if said.is_empty() { String::new() } else { format!(": {said}") };
    let by_proxy = headers.get(SERVER).is_some_and(|server| is_proxy(server.as_bytes()));
    let (state, what) = match status.as_u16() {
        401 => {
            (TargetState::Unauthorized, "the server asks for credentials (401); set engine.bearerTokenSecretRef".into())
        }
        403 if by_proxy => (TargetState::Blocked, "a proxy refuses us (403); allow us in its policy".into()),
        403 => (TargetState::Unauthorized, "the server refuses our credentials (403)".into()),
        300..=399 => {
            let to = headers
                .get(LOCATION)
                .map_or_else(String::new, |to| String::from_utf8_lossy(to.as_bytes()).into_owned());
            (TargetState::Blocked, format!("redirected ({status}) to {to:?}, and redirects are not followed"))
        }
        407 | 502 | 504 => (TargetState::Blocked, format!("a proxy answered in the server's place ({status})")),
        503 if body.to_ascii_lowercase().contains("loading model") => {
            (TargetState::Loading, "the model is being loaded (503)".into())
        }
        503 if by_proxy => (TargetState::Blocked, "a proxy answered in the server's place (503)".into()),
        404 => (TargetState::HttpError, "there is no such page (404); check engine.path and engine.ports".into()),
        501 => (TargetState::HttpError, "the server does not show metrics (501); llama-server needs --metrics".into()),
        _ => (TargetState::HttpError, format!("the server answered {status}")),
    };
    ScrapeFailure::new(state, format!("{what}{said}"))
}

fn is_proxy(server: &[u8]) -> bool {
    let server = server.to_ascii_lowercase();
    ["envoy", "nginx", "haproxy", "traefik", "linkerd"]
        .iter()
        .any(|name| server.windows(name.len()).any(|part| part == name.as_bytes()))
}

/// The message inside a JSON error, or the text itself unless it is a page.
fn said_in(body: &str) -> String {
    let json: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = json.as_ref().and_then(|json| {
        let error = json.get("error").unwrap_or(json);
        error.get("message").or(error.get("detail")).or(Some(error)).and_then(|message| message.as_str())
    });
    match message {
        Some(message) => message.to_owned(),
        None if body.trim_start().starts_with('<') => String::new(),
        None => body.to_owned(),
    }
}
