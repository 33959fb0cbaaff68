//! A router on a listener, with limits that keep one client from hurting the others.

use std::future::Ready;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum_server::accept::{Accept, NoDelayAcceptor};
use axum_server::tls_rustls::RustlsAcceptor;
use axum_server::{Control, Handle, Server};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use super::tls::Tls;

/// How long an HTTP/2 connection may be silent before it is asked for a sign of life.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// How long the answer to that may take before the connection is closed.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// The largest head of an HTTP/1.1 request, in bytes.
const MAX_HEAD: usize = 32 * 1024;

/// What lies between the router and TCP. HTTP/1.1 and HTTP/2 are spoken over both.
pub enum Transport {
    /// Nothing.
    Plain,
    /// TLS with a certificate that follows its files.
    Tls(Arc<Tls>),
}

/// What clients together and each of them may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open connections at one time, handshakes included. One more is closed as soon as it is accepted.
    pub connections: usize,
    /// The time a TLS handshake may take.
    pub handshake: Duration,
    /// The time from the end of the handshake to the end of the first request's head.
    pub first_request: Duration,
    /// The time from the end of the last HTTP/1.1 request to the end of the next one's head: so also how long such a
    /// connection may be idle.
    pub request_head: Duration,
    /// The time that requests under way have to finish at shutdown.
    pub grace: Duration,
}

impl Default for Limits {
    /// 1,000 connections, 10 s for a handshake and for the first request, 30 s for a later one's head (two passes of
    /// the HPA), 20 s at shutdown.
    fn default() -> Self {
        Self {
            connections: 1000,
            handshake: Duration::from_secs(10),
            first_request: Duration::from_secs(10),
            request_head: Duration::from_secs(30),
            grace: Duration::from_secs(20),
        }
    }
}

/// Serves a router until `shutdown`, then lets requests under way finish within [`Limits::grace`].
///
/// No failure of a client or of accepting one ends it.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    transport: Transport,
    limits: Limits,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let handle = Handle::<SocketAddr>::new();
    let admission = Admission {
        control: handle.control(),
        connections: limits.connections,
        full: Arc::new(AtomicBool::new(false)),
    };
    let mut server = Server::<SocketAddr>::from_listener(listener)
        .handle(handle.clone())
        .first_request_timeout(limits.first_request)
        // A client that fails is the client's concern; a port scan must not fill the log.
        .accept_error_handler(|client, error| tracing::debug!(?client, %error, "cannot accept a connection"));
    server.http_builder().http1().header_read_timeout(limits.request_head).max_buf_size(MAX_HEAD);
    server.http_builder().http2().keep_alive_interval(PING_INTERVAL).keep_alive_timeout(PING_TIMEOUT);

    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    let served = async {
        match transport {
            Transport::Plain => server.acceptor(admission).serve(service).await,
            Transport::Tls(tls) => {
                let acceptor =
                    RustlsAcceptor::new(tls.config()).handshake_timeout(limits.handshake).acceptor(admission);
                server.acceptor(acceptor).serve(service).await
            }
        }
    };
    tokio::pin!(served);
    tokio::select! {
        ended = &mut served => return ended,
        () = shutdown.cancelled() => handle.graceful_shutdown(Some(limits.grace)),
    }
    served.await
}

/// Admits connections up to a number, without Nagle's delay: with it an answer over HTTP/2 can wait for an
/// acknowledgement of the one before.
#[derive(Clone)]
struct Admission {
    control: Control,
    connections: usize,
    full: Arc<AtomicBool>,
}

impl Admission {
    /// Whether one more connection, counted already, is within the limit. Being full is told once, until there is
    /// ample room again.
    fn admits(&self) -> bool {
        let open = self.control.connection_count();
        if open > self.connections {
            if !self.full.swap(true, Ordering::Relaxed) {
                tracing::warn!(limit = self.connections, "refusing connections: as many are open as are allowed");
            }
            return false;
        }
        if open <= self.connections / 2 {
            self.full.store(false, Ordering::Relaxed);
        }
        true
    }
}

impl<S> Accept<TcpStream, S> for Admission {
    type Stream = TcpStream;
    type Service = S;
    type Future = Ready<io::Result<(TcpStream, S)>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        if self.admits() {
            NoDelayAcceptor::new().accept(stream, service)
        } else {
            std::future::ready(Err(io::Error::other("as many connections are open as are allowed")))
        }
    }
}
