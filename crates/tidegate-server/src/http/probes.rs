//! The listener for probes: `GET /livez` and `GET /readyz`, without TLS and tokens, and nothing else.
//!
//! A kubelet has neither a client certificate nor a token, so this listener tells a stranger no more than the
//! two words.

use std::sync::Arc;

use hyper::Method;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};

use super::app::App;
use super::body;
use super::connection::Endpoint;
use super::message::{HttpRequest, HttpResponse};
use super::routes::guarded;
use crate::refusal::{RefusalKind, RequestRefusal};

/// Succeeds while decisions come: the process need not be restarted.
const LIVE: &str = "/livez";
/// Succeeds while decisions are correct as well: requests may be sent here.
const READY: &str = "/readyz";

/// The endpoint for probes.
#[derive(Clone)]
pub(super) struct Probes(pub(super) Arc<App>);

impl Endpoint for Probes {
    async fn answer(self, request: HttpRequest) -> HttpResponse {
        guarded(request, async |request| {
            let result = self.result_of(&request).await;
            body::pass_over(request, self.0.bounds).await;
            result
        })
        .await
    }
}

impl Probes {
    /// The answer to a probe.
    async fn result_of(&self, request: &HttpRequest) -> Result<HttpResponse, RequestRefusal> {
        let path = request.uri().path();
        if !matches!(path, LIVE | READY) {
            let detail = format!("nothing is at {path}: expected {LIVE} or {READY}");
            return Err(RefusalKind::NotFound.because(detail));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let detail = format!("{path} does not take {}: expected GET or HEAD", request.method());
            let problem = RefusalKind::MethodNotAllowed.because(detail);
            return Err(problem.with(ALLOW, HeaderValue::from_static("GET,HEAD")));
        }
        match (self.0.probe.is_answered().await, path) {
            // A wrong decision is no reason to restart: only readiness fails by it.
            (Some(true), _) | (Some(false), LIVE) => Ok(well()),
            (Some(false), _) => {
                Err(RefusalKind::Unavailable.because("the check of a decision failed"))
            }
            (None, _) => Err(RefusalKind::Unavailable.because("no decision came in time")),
        }
    }
}

fn well() -> HttpResponse {
    let mut response = HttpResponse::new("ok\n".to_owned().into());
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
