//! What the tests of the cluster share.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// The program under test: `HEADROOM_PROGRAM`, else what cargo builds for tests.
pub(crate) fn headroom_program() -> PathBuf {
    if let Some(program) = std::env::var_os("HEADROOM_PROGRAM") {
        return program.into();
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
    target.join("debug/headroom")
}

/// As many requests wait, or none is told.
const HANGS: i64 = -1;

/// A server that shows vLLM's metrics.
pub(crate) struct ModelServer {
    address: SocketAddr,
    waiting: Arc<AtomicI64>,
}

impl ModelServer {
    pub(crate) fn start(waiting: i64) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let server = Self { address: listener.local_addr()?, waiting: Arc::new(AtomicI64::new(waiting)) };
        let waiting = Arc::clone(&server.waiting);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let waiting = Arc::clone(&waiting);
                std::thread::spawn(move || answer_all(stream, &waiting));
            }
        });
        Ok(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn answer(&self, waiting: i64) {
        self.waiting.store(waiting, Ordering::Relaxed);
    }

    /// Takes requests and answers none.
    pub(crate) fn hang(&self) {
        self.answer(HANGS);
    }
}

fn answer_all(mut stream: TcpStream, waiting: &AtomicI64) -> io::Result<()> {
    let mut request = Vec::new();
    loop {
        let mut bytes = [0; 1024];
        let count = stream.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        request.extend_from_slice(&bytes[..count]);
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        request.clear();
        let waiting = waiting.load(Ordering::Relaxed);
        if waiting == HANGS {
            continue;
        }
        let page = format!(
            "vllm:num_requests_waiting{{model_name=\"chat\"}} {waiting}\n\
             vllm:num_requests_running{{model_name=\"chat\"}} 8\n\
             vllm:kv_cache_usage_perc{{model_name=\"chat\"}} 0.3\n"
        );
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length";
        write!(stream, "{head}: {}\r\n\r\n{page}", page.len())?;
    }
}

/// As Kubernetes wants bytes in YAML (RFC 4648 section 4).
pub(crate) fn base64(text: &str) -> String {
    base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text)
}
