//! `headroom run` over TLS, to clients that must show a certificate, and scraping servers that want a token.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

#[path = "../metrics-adapter/tests/external_metrics_support/mod.rs"]
mod external_metrics_support;
mod support;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use external_metrics_support::certificates::{Authority, Leaf};
use external_metrics_support::client::{Client, tls_session};
use hyper::Method;
use support::{Running, output, stderr, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const PATH: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/chat/headroom_desired_replicas\
                    ?labelSelector=headroom.dev%2Fautoscaler%3Dm";

/// A model server that answers only to a token.
async fn guarded(token: &'static str) -> (std::net::SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let refused = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refused);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 4096];
            let read = stream.read(&mut head).await.unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..read]).to_lowercase();
            let body = "vllm:num_requests_waiting 20\n";
            let answer = if head.contains(&format!("authorization: bearer {token}")) {
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
            } else {
                counted.fetch_add(1, Ordering::Relaxed);
                "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned()
            };
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (address, refused)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn known_clients_are_answered_over_tls_and_tokens_open_servers() {
    let (root, client_root) = (Authority::new("root"), Authority::new("clients"));
    let folder = tempfile::tempdir().unwrap();
    root.issue(2100).write(folder.path());
    fs::write(folder.path().join("ca.crt"), client_root.pem()).unwrap();

    let (server, refused) = guarded("of-the-fleet").await;
    let config = folder.path().join("autoscaler.yaml");
    fs::write(
        &config,
        format!(
            "apiVersion: headroom.dev/v1alpha1\nkind: InferenceAutoscaler\nmetadata: {{name: m, namespace: chat}}\n\
             spec:\n  maxReplicas: 9\n  metrics: [{{signal: WaitingRequests, target: 5}}]\n  \
             engine: {{interval: 1s, bearerTokenSecretRef: {{name: scrape, key: token}}}}\n  \
             endpoints: [\"http://{server}\"]\n"
        ),
    )
    .unwrap();
    let secret = folder.path().join("secrets/chat/scrape");
    fs::create_dir_all(&secret).unwrap();
    fs::write(secret.join("token"), "of-the-fleet\n").unwrap();
    let secrets = folder.path().join("secrets");

    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let more = [
        ("--tls-cert-file", file("tls.crt")),
        ("--tls-private-key-file", file("tls.key")),
        ("--client-ca-file", file("ca.crt")),
        ("--secrets-dir", secrets.to_str().unwrap().to_owned()),
    ];
    let more: Vec<String> = more.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect();
    let running = tokio::task::spawn_blocking(move || {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let mut running = Running::start(&config, &more);
        until("four are wanted", || (running.state("autoscalers/chat/m")["decision"]["desired"] == 4).then_some(()));
        assert!(running.own_metric("headroom_serving_certificate_expiry_days").is_some_and(|days| days > 9000.0));
        assert!(!running.logs().iter().any(|line| line.contains("of-the-fleet")), "a token is never logged");
        running
    })
    .await
    .unwrap();
    assert_eq!(refused.load(Ordering::Relaxed), 0);

    let ask = async |own: Option<&Leaf>, alpn: &str| {
        let session = tls_session(running.external_metrics, root.client(own, &[alpn])).await?;
        let mut client =
            if alpn == "h2" { Client::http2_over(session).await } else { Client::http1_over(session).await };
        client.request(Method::GET, PATH, &[]).await.map_err(std::io::Error::other)
    };
    let known = client_root.issue(2100);
    for alpn in ["h2", "http/1.1"] {
        let answer = ask(Some(&known), alpn).await.unwrap();
        assert_eq!((answer.code, answer.json()["items"][0]["value"].as_str()), (200, Some("4")), "{alpn}");
    }
    assert!(ask(None, "http/1.1").await.is_err());
    assert!(ask(Some(&root.issue(2100)), "http/1.1").await.is_err());
}

#[test]
fn files_that_do_not_serve_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("autoscaler.yaml");
    fs::write(
        &config,
        "apiVersion: headroom.dev/v1alpha1\nkind: InferenceAutoscaler\nmetadata: {name: m}\n\
         spec: {maxReplicas: 9, endpoints: [\"http://127.0.0.1:9\"]}\n",
    )
    .unwrap();
    let config = config.to_str().unwrap();
    let args = ["run", "--config", config, "--address", "127.0.0.1:0"];
    let refused =
        output(&[&args[..], &["--tls-cert-file", "/nowhere.crt", "--tls-private-key-file", "/nowhere.key"]].concat());
    assert!(!refused.status.success() && stderr(&refused).contains("/nowhere.crt"), "{}", stderr(&refused));
    let alone = output(&[&args[..], &["--client-ca-file", "/nowhere.crt"]].concat());
    assert!(!alone.status.success() && stderr(&alone).contains("--tls-cert-file"), "{}", stderr(&alone));
}
