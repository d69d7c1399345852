//! A small HTTP client: one request, the whole answer.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{HeaderMap, Method, Request, StatusCode};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client as Legacy};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

/// A client of one listener.
#[derive(Clone)]
pub(crate) struct Client {
    at: SocketAddr,
    inner: Legacy<HttpConnector, Full<Bytes>>,
}

/// The whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Client {
    /// Speaks HTTP/1.1.
    pub(crate) fn new(at: SocketAddr) -> Self {
        Self::with(at, &Legacy::builder(TokioExecutor::new()))
    }

    /// Speaks HTTP/2 from the first byte.
    pub(crate) fn http2(at: SocketAddr) -> Self {
        let mut builder = Legacy::builder(TokioExecutor::new());
        Self::with(at, builder.http2_only(true))
    }

    /// Head and body are sent together; otherwise the body would wait for the acknowledgement of
    /// the head.
    fn with(at: SocketAddr, builder: &Builder) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { at, inner: builder.build(connector) }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[]).await
    }

    /// A GET with header fields.
    pub(crate) async fn get_with(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        self.ask(Method::GET, path, fields, "").await
    }

    /// A GET as the holder of a token.
    pub(crate) async fn get_as(&self, path: &str, said: &str) -> Answer {
        self.get_with(path, &[("authorization", said)]).await
    }

    /// Posts JSON.
    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.post_with(path, &[], body).await
    }

    /// Puts a configuration if the configuration in force has this tag; without a condition if the tag is empty.
    pub(crate) async fn put_rules(&self, query: &str, etag: &str, toml: &str) -> Answer {
        self.put_with(query, &[("if-match", etag)], toml).await
    }

    /// Puts a configuration as the holder of a token.
    pub(crate) async fn put_rules_as(&self, etag: &str, toml: &str, said: &str) -> Answer {
        self.put_with("", &[("if-match", etag), ("authorization", said)], toml).await
    }

    async fn put_with(&self, query: &str, fields: &[(&str, &str)], toml: &str) -> Answer {
        let fields = [fields, &[("content-type", "application/toml")]].concat();
        self.ask(Method::PUT, &format!("/v1/rules{query}"), &fields, toml).await
    }

    /// Posts JSON with an `authorization`; none if it is empty.
    pub(crate) async fn post_as(&self, path: &str, body: &str, said: &str) -> Answer {
        self.post_with(path, &[("authorization", said)], body).await
    }

    /// Posts JSON with those header fields that are not empty.
    pub(crate) async fn post_with(
        &self,
        path: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let fields = [fields, &[("content-type", "application/json")]].concat();
        self.ask(Method::POST, path, &fields, body).await
    }

    /// Posts JSON to `/v1/check`.
    pub(crate) async fn check(&self, body: &str) -> Answer {
        self.post("/v1/check", body).await
    }

    /// Reserves units for a user; its answer.
    pub(crate) async fn reserve(&self, user: &str, cost: u64) -> Value {
        let body = json!({"descriptor": {"user": user}, "cost": cost}).to_string();
        self.post("/v1/reserve", &body).await.json()
    }

    pub(crate) async fn settle(&self, id: &Value, actual: impl Into<Value>) -> Answer {
        let body = json!({"reservation": id, "actual": actual.into()}).to_string();
        self.post("/v1/settle", &body).await
    }

    pub(crate) async fn renew(&self, id: &Value) -> Answer {
        self.post("/v1/renew", &json!({"reservation": id}).to_string()).await
    }

    /// The units that a user has left.
    pub(crate) async fn remaining(&self, user: &str) -> Value {
        let body = json!({"descriptor": {"user": user}}).to_string();
        self.post("/v1/peek", &body).await.json()["remaining"].clone()
    }

    /// Sends a body of any bytes, with this type if there is any.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Vec<u8>,
    ) -> Answer {
        let mut request = self.request(method, path);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        self.answer(request.body(Full::from(body)).unwrap()).await
    }

    async fn ask(&self, method: Method, path: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let mut request = self.request(method, path);
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            request = request.header(*name, *value);
        }
        self.answer(request.body(Full::from(body.to_owned())).unwrap()).await
    }

    fn request(&self, method: Method, path: &str) -> hyper::http::request::Builder {
        Request::builder().method(method).uri(format!("http://{}{path}", self.at))
    }

    async fn answer(&self, request: Request<Full<Bytes>>) -> Answer {
        let (head, body) = self.inner.request(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// A header field, or nothing.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Asserts that its status is 200.
    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.status, 200, "{}", self.text);
        self
    }

    /// Asserts that it is a problem of this status, whose detail has this text.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, expected: &str) {
        let detail = self.problem(status);
        assert!(detail.contains(expected), "{expected} is not in {detail}");
    }

    /// Asserts that it is a problem of this status; returns its detail.
    pub(crate) fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        let problem = self.json();
        assert_eq!(problem["status"], status);
        let kind = problem["type"].as_str().unwrap();
        assert!(kind.starts_with("urn:problem-type:tidegate:"), "{kind}");
        assert!(!problem["title"].as_str().unwrap().is_empty());
        problem["detail"].as_str().unwrap().to_owned()
    }
}
