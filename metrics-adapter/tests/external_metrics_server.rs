//! The server under clients that do nothing, too many clients, and at shutdown.

#![allow(clippy::unwrap_used)]

mod external_metrics_support;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get as on_get;
use external_metrics_support::client::{Client, get};
use external_metrics_support::{DESIRED, Fake, TestServer, soon};
use headroom_adapter::serve::{AUTOSCALER_LABEL, Limits, Transport};
use hyper::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

fn router() -> Router {
    Fake::default().number("llm", "chat", DESIRED, "7").router()
}

fn path() -> String {
    format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/llm/{DESIRED}?labelSelector={AUTOSCALER_LABEL}=chat")
}

/// Waits until the server has closed a connection, whatever it says before.
async fn closed(stream: &mut TcpStream) {
    // A reset is as good an end as an orderly one.
    let _ = soon(stream.read_to_end(&mut Vec::new())).await;
}

/// B-59: callers that keep many idle connections open for ever, and callers that open one per request, get answers
/// all the same.
#[tokio::test]
async fn idle_connections_hurt_nobody() {
    let server = TestServer::plain(router()).await;
    let mut silent = Vec::new();
    for _ in 0..500 {
        silent.push(soon(TcpStream::connect(server.address)).await.unwrap());
    }
    let mut kept = Client::http1(server.address).await;
    let mut multiplexed = Client::http2(server.address).await;
    for _ in 0..50 {
        assert_eq!(get(server.address, &path()).await.code, 200);
        assert_eq!(kept.get(&path()).await.code, 200);
        assert_eq!(multiplexed.get(&path()).await.code, 200);
    }
}

#[tokio::test]
async fn a_silent_or_slow_client_is_closed() {
    let limits = Limits { request_head: Duration::from_millis(50), ..Limits::default() };
    let server = TestServer::start(router(), Transport::Plain, limits).await;
    for sent in [&b""[..], b"GET /apis HTT", b"GET /apis HTTP/1.1\r\nHost: x\r\n", b"PRI * HTTP/2.0\r\n"] {
        let mut stream = soon(TcpStream::connect(server.address)).await.unwrap();
        stream.write_all(sent).await.unwrap();
        closed(&mut stream).await;
    }
    // Between requests, too.
    let mut stream = soon(TcpStream::connect(server.address)).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    closed(&mut stream).await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_and_then_admitted() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let server = TestServer::start(router(), Transport::Plain, limits).await;
    let mut first = Client::http1(server.address).await;
    let mut second = Client::http1(server.address).await;
    assert_eq!(first.get("/healthz").await.code, 200);
    assert_eq!(second.get("/healthz").await.code, 200);

    let mut third = soon(TcpStream::connect(server.address)).await.unwrap();
    closed(&mut third).await;
    assert_eq!(first.get(&path()).await.code, 200);

    drop(second);
    soon(async {
        loop {
            let mut client = Client::http1(server.address).await;
            if client.request(Method::GET, "/healthz", &[]).await.is_ok_and(|answer| answer.code == 200) {
                break;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A route that says when it was entered, and answers once it may.
fn slow_router(entered: &Arc<Semaphore>, may_answer: &Arc<Semaphore>) -> Router {
    let (entered, may_answer) = (Arc::clone(entered), Arc::clone(may_answer));
    Router::new().route(
        "/slow",
        on_get(move || async move {
            entered.add_permits(1);
            let _ = may_answer.acquire().await;
            "done"
        }),
    )
}

#[tokio::test]
async fn shutdown_lets_requests_finish_and_takes_no_more() {
    for http2 in [false, true] {
        let (entered, may_answer) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let mut server = TestServer::plain(slow_router(&entered, &may_answer)).await;
        let mut client = if http2 { Client::http2(server.address).await } else { Client::http1(server.address).await };
        let mut idle = soon(TcpStream::connect(server.address)).await.unwrap();
        let slow = tokio::spawn(async move { client.get("/slow").await });
        let _ = soon(entered.acquire()).await.unwrap();

        server.shutdown.cancel();
        closed(&mut idle).await;
        soon(async { while TcpStream::connect(server.address).await.is_ok() {} }).await;
        assert!(!server.served.is_finished());

        may_answer.add_permits(1);
        let answer = soon(slow).await.unwrap();
        assert_eq!((answer.code, &answer.body[..]), (200, &b"done"[..]), "http2: {http2}");
        soon(&mut server.served).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn shutdown_has_a_deadline() {
    let (entered, may_answer) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let limits = Limits { grace: Duration::from_millis(50), ..Limits::default() };
    let mut server = TestServer::start(slow_router(&entered, &may_answer), Transport::Plain, limits).await;
    let mut client = Client::http1(server.address).await;
    let slow = tokio::spawn(async move { client.request(Method::GET, "/slow", &[]).await });
    let _ = soon(entered.acquire()).await.unwrap();
    server.shutdown.cancel();
    soon(&mut server.served).await.unwrap().unwrap();
    assert!(soon(slow).await.unwrap().is_err());
}
