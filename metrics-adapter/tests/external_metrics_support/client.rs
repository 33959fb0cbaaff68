//! A client of one connection, over HTTP/1.1 or HTTP/2, plain or TLS.

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{self, HeaderMap};
use hyper::{Method, Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::soon;

/// An answer, read whole.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }

    /// The message of a `Status` that agrees with the answer's code.
    pub fn refusal(&self, code: u16, reason: &str) -> String {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.header("content-type"), "application/json");
        let status = self.json();
        assert_eq!((&status["kind"], &status["apiVersion"]), (&"Status".into(), &"v1".into()));
        assert_eq!((&status["status"], &status["reason"]), (&"Failure".into(), &reason.into()));
        assert_eq!(status["code"], code);
        assert!(!self.headers.contains_key(header::RETRY_AFTER));
        status["message"].as_str().unwrap().to_owned()
    }
}

/// One connection.
pub enum Client {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Client {
    /// Plain HTTP/1.1.
    pub async fn http1(address: SocketAddr) -> Self {
        Self::http1_over(soon(TcpStream::connect(address)).await.unwrap()).await
    }

    /// Plain HTTP/2, known beforehand.
    pub async fn http2(address: SocketAddr) -> Self {
        Self::http2_over(soon(TcpStream::connect(address)).await.unwrap()).await
    }

    /// HTTP/1.1 over any stream.
    pub async fn http1_over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (sender, connection) = soon(http1::handshake(TokioIo::new(stream))).await.unwrap();
        tokio::spawn(connection);
        Self::Http1(sender)
    }

    /// HTTP/2 over any stream.
    pub async fn http2_over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let io = TokioIo::new(stream);
        let (sender, connection) = soon(http2::handshake(TokioExecutor::new(), io)).await.unwrap();
        tokio::spawn(connection);
        Self::Http2(sender)
    }

    /// A request for a path and query, of the address as host.
    pub async fn request(&mut self, method: Method, path: &str, headers: &[(&str, &str)]) -> hyper::Result<Answer> {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = match self {
            Self::Http1(sender) => {
                let request = request.uri(path).header(header::HOST, "localhost").body(Empty::new()).unwrap();
                soon(sender.ready()).await?;
                soon(sender.send_request(request)).await?
            }
            Self::Http2(sender) => {
                let uri = format!("http://localhost{path}");
                let request = request.uri(uri).version(Version::HTTP_2).body(Empty::new()).unwrap();
                soon(sender.ready()).await?;
                soon(sender.send_request(request)).await?
            }
        };
        read(response).await
    }

    /// A GET.
    pub async fn get(&mut self, path: &str) -> Answer {
        self.request(Method::GET, path, &[]).await.unwrap()
    }
}

async fn read(response: Response<Incoming>) -> hyper::Result<Answer> {
    let (parts, body) = response.into_parts();
    let body = soon(body.collect()).await?.to_bytes();
    Ok(Answer { code: parts.status.as_u16(), headers: parts.headers, body })
}

/// One GET over a connection of its own.
pub async fn get(address: SocketAddr, path: &str) -> Answer {
    Client::http1(address).await.get(path).await
}

/// One GET with headers.
pub async fn get_with(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Answer {
    Client::http1(address).await.request(Method::GET, path, headers).await.unwrap()
}

/// A TLS session with a server called `localhost`.
pub async fn tls_session(address: SocketAddr, config: rustls::ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = soon(TcpStream::connect(address)).await?;
    stream.set_nodelay(true)?;
    soon(TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream)).await
}
