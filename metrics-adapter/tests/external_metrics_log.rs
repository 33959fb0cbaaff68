//! What the serving side writes to the log, in a process of its own since the log is the process's.

#![allow(clippy::unwrap_used)]

mod external_metrics_support;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use external_metrics_support::client::get;
use external_metrics_support::{DESIRED, Fake, TestServer};

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// B-55 (iii): a request without a selector, as any client may send, is refused with the names it could have meant
/// and leaves nothing in the log.
#[tokio::test]
async fn a_request_without_selector_is_no_fault_of_ours() {
    let log = Log::default();
    let writer = log.clone();
    tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(move || writer.clone()).init();
    let fake = Fake::default().number("llm", "chat", DESIRED, "7").number("llm", "embed", DESIRED, "2");
    let server = TestServer::plain(fake.router()).await;
    let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/llm/{DESIRED}");
    assert_eq!(
        get(server.address, &path).await.refusal(400, "BadRequest"),
        "labelSelector \"\" selects 2 autoscalers in namespace \"llm\": chat, embed; \
         select one with headroom.dev/autoscaler=NAME"
    );
    let empty_namespace = "/apis/external.metrics.k8s.io/v1beta1/namespaces/web/headroom_desired_replicas";
    get(server.address, empty_namespace).await.refusal(404, "NotFound");
    let written = log.0.lock().unwrap().clone();
    assert_eq!(String::from_utf8(written).unwrap(), "");
    tracing::info!("the log is written to");
    assert!(!log.0.lock().unwrap().is_empty());
}
