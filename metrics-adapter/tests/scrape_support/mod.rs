//! Model servers that misbehave in every known way, on loopback.

// Shared by several tests, none of which uses all of it.
#![allow(dead_code, clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What a server does with a request.
#[derive(Clone)]
pub(crate) enum Behaviour {
    /// Answers with this head and body, and keeps the connection.
    Answer { head: String, body: Vec<u8> },
    /// Answers like that, then closes the connection.
    AnswerAndClose { head: String, body: Vec<u8> },
    /// Takes the request and never answers.
    Hang,
    /// Answers with a body that never ends.
    Endless(Vec<u8>),
    /// Answers, then changes.
    Changing(Arc<dyn Fn(u64) -> Behaviour + Send + Sync>),
}

impl Behaviour {
    /// A page in the text format.
    pub(crate) fn page(body: &str) -> Self {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        Self::Answer { head, body: body.as_bytes().to_vec() }
    }

    /// A status with headers and a body.
    pub(crate) fn status(status: &str, headers: &str, body: &str) -> Self {
        let head = format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n", body.len());
        Self::Answer { head, body: body.as_bytes().to_vec() }
    }
}

/// A server on a free port of loopback.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<AtomicU64>,
    pub(crate) connections: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let connections = Arc::new(AtomicU64::new(0));
        let (counted, connected) = (Arc::clone(&requests), Arc::clone(&connections));
        let task = tokio::spawn(async move {
            let mut tasks = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connected.fetch_add(1, Ordering::Relaxed);
                tasks.spawn(serve(stream, behaviour.clone(), Arc::clone(&counted)));
            }
        });
        Self { address, requests, connections, task }
    }

    pub(crate) fn url(&self) -> http::Uri {
        format!("http://{}/metrics", self.address).parse().unwrap()
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, behaviour: Behaviour, requests: Arc<AtomicU64>) {
    while read_request(&mut stream).await {
        let number = requests.fetch_add(1, Ordering::Relaxed);
        let behaviour = match &behaviour {
            Behaviour::Changing(change) => change(number),
            fixed => fixed.clone(),
        };
        let goes_on = match behaviour {
            Behaviour::Answer { head, body } => answer(&mut stream, &head, &body).await,
            Behaviour::AnswerAndClose { head, body } => {
                answer(&mut stream, &head, &body).await;
                false
            }
            Behaviour::Hang => {
                std::future::pending::<()>().await;
                false
            }
            Behaviour::Endless(part) => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\n";
                if answer(&mut stream, head, &part).await {
                    while stream.write_all(&part).await.is_ok() {}
                }
                false
            }
            Behaviour::Changing(_) => false,
        };
        if !goes_on {
            return;
        }
    }
}

async fn answer(stream: &mut TcpStream, head: &str, body: &[u8]) -> bool {
    stream.write_all(head.as_bytes()).await.is_ok() && stream.write_all(body).await.is_ok()
}

async fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut buffer = [0; 1024];
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return false,
            Ok(count) => seen.extend_from_slice(&buffer[..count]),
        }
    }
    true
}
