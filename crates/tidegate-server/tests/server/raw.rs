//! Raw bytes over a socket, which a real HTTP client would not send.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A check, of which the rules that are built in admit five.
pub(crate) const CHECK: &str = "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 30\r\n\r\n\
                                {\"descriptor\": {\"key\": \"abc\"}}";

pub(crate) const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";

/// All bytes until the server closes, as text.
pub(crate) fn rest(mut stream: std::net::TcpStream) -> String {
    let mut came = String::new();
    stream.read_to_string(&mut came).unwrap();
    came
}

/// The answers to these bytes, after which the client closes its side.
pub(crate) fn answers_to(at: SocketAddr, sent: &str) -> String {
    let mut stream = std::net::TcpStream::connect(at).unwrap();
    stream.write_all(sent.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    rest(stream)
}

/// A stream of decisions that an operator opens with this token; nothing if it is refused.
pub(crate) fn decisions(at: SocketAddr, token: &str) -> Option<std::net::TcpStream> {
    let mut stream = std::net::TcpStream::connect(at).unwrap();
    let head = "GET /v1/decisions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer";
    write!(stream, "{head} {token}\r\n\r\n").unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    (&status == b"HTTP/1.1 200").then_some(stream)
}

/// All bytes that the server sends in answer until it closes, which must not be by a reset.
pub(crate) async fn exchange(at: SocketAddr, sent: &str) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut came = Vec::new();
    stream.read_to_end(&mut came).await.unwrap();
    String::from_utf8(came).unwrap()
}

/// The status of the answer, whose end is not waited for: it may be a stream.
pub(crate) async fn status(at: SocketAddr, sent: &str) -> u16 {
    let mut stream = TcpStream::connect(at).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut line = [0; "HTTP/1.1 200".len()];
    stream.read_exact(&mut line).await.unwrap();
    std::str::from_utf8(&line).unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

/// One of the answers.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) head: &'a str,
    pub(crate) body: &'a str,
}

/// Splits answers that follow one another, by their content-length.
pub(crate) fn responses(mut came: &str) -> Vec<Response<'_>> {
    let mut all = Vec::new();
    while let Some((head, rest)) = came.split_once("\r\n\r\n") {
        let response = Response { head, body: "" };
        let bytes = response.header("content-length").map_or(0, |bytes| bytes.parse().unwrap());
        let (body, rest) = rest.split_at(bytes);
        all.push(Response { head, body });
        came = rest;
    }
    assert_eq!(came, "", "left over");
    all
}

impl<'a> Response<'a> {
    pub(crate) fn header(&self, name: &str) -> Option<&'a str> {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.filter(|(field, _)| *field == name).map(|(_, value)| value).next()
    }

    /// Asserts that it is a problem of this status; returns its type and detail.
    pub(crate) fn problem(&self, status: u16) -> (String, String) {
        assert!(self.head.starts_with(&format!("HTTP/1.1 {status} ")), "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        assert_eq!(self.header("cache-control"), Some("no-store"), "{self:?}");
        assert!(self.header("date").is_some_and(|date| date.ends_with(" GMT")), "{self:?}");
        let problem: Value = serde_json::from_str(self.body).unwrap();
        assert_eq!(problem["status"], status);
        assert!(!problem["title"].as_str().unwrap().is_empty());
        let text = |name| problem[name].as_str().unwrap().to_owned();
        (text("type"), text("detail"))
    }
}
