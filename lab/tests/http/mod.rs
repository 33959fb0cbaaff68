//! The smallest HTTP client that shows what a server sends, byte for byte.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    /// The body, its chunks joined.
    pub(crate) body: String,
}

impl Answer {
    /// Reads to the end of the connection.
    pub(crate) async fn read(client: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        // A server that breaks off may reset the connection; what came before counts.
        let _ = client.read_to_end(&mut bytes).await;
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer but {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() };
        if answer.header("transfer-encoding") == Some("chunked") {
            answer.body = join_chunks(body);
        }
        answer
    }

    /// A header's value, in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find_map(|(key, value)| (key == name).then_some(value))
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{} is no JSON", self.body))
    }
}

fn join_chunks(mut rest: &str) -> String {
    let mut body = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        let Some(chunk) = after.get(..size) else { break };
        body.push_str(chunk);
        rest = after[size..].trim_start_matches("\r\n");
        if size == 0 {
            break;
        }
    }
    body
}

/// Sends a request with an authorization, which may be empty, and leaves its answer to be read.
pub(crate) async fn open(address: SocketAddr, line: &str, authorization: &str, body: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\nAuthorization: {authorization}\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    client
}

/// Asks for a path.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    Answer::read(&mut open(address, &format!("GET {path}"), "", "").await).await
}

/// Posts JSON to a path.
pub(crate) async fn post(address: SocketAddr, path: &str, body: &Value) -> Answer {
    Answer::read(&mut open(address, &format!("POST {path}"), "", &body.to_string()).await).await
}
