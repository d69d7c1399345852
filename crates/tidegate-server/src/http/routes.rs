//! The paths of each listener and their handlers, and the steps before and after every request.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use http_body_util::Full;
use hyper::Method;
use hyper::header::{ALLOW, CONTENT_LENGTH, HeaderValue};

use super::connection::Endpoint;
use super::fast_path::FastPath;
use super::paths::{CHECK, HEALTH, METRICS, PEEK, REFUND, RESET, RULES, TOP};
use super::problem::{Kind, Problem};
use super::{
    App, Request, Response, admin, authorize, body, browser, check, head, health, metrics,
    put_rules, rules, top,
};
use crate::configuration::Configuration;
use crate::limiters::Verb;
use crate::listener::Secret;

/// The endpoint for clients: decisions.
#[derive(Clone)]
pub(super) struct Public(pub(super) Arc<App>, pub(super) Option<Secret>);

/// The endpoint for operators: changes of limiters, and the rules in force.
#[derive(Clone)]
pub(super) struct Admin {
    pub(super) app: Arc<App>,
    pub(super) secret: Option<Secret>,
    pub(super) configuration: Arc<Configuration>,
}

/// The handler of a request.
enum Route {
    Health,
    Decide(Verb),
    Reset,
    Refund,
    Rules(Arc<Configuration>),
    PutRules(Arc<Configuration>, Option<Secret>),
    Metrics,
    Top,
}

impl Endpoint for Public {
    fn fast_path(&self) -> Option<FastPath> {
        FastPath::of(&self.0, self.1.as_ref())
    }

    async fn answer(self, request: Request) -> Response {
        guarded(request, async |request| go(&self.0, request, |request| self.route(request)).await)
            .await
    }
}

impl Public {
    fn route(&self, request: &Request) -> Result<Route, Problem> {
        let path = request.uri().path();
        if path == HEALTH {
            return get(request).map(|()| Route::Health);
        }
        check_who(self.1.as_ref(), request)?;
        match path {
            CHECK => post(request).map(|()| Route::Decide(Verb::Check)),
            PEEK => post(request).map(|()| Route::Decide(Verb::Peek)),
            RESET | REFUND | RULES | METRICS | TOP => Err(elsewhere(path, "the admin listener")),
            _ => Err(nothing(path, &[CHECK, PEEK, HEALTH])),
        }
    }
}

impl Endpoint for Admin {
    const NAMES_PEERS: bool = true;

    async fn answer(self, request: Request) -> Response {
        guarded(request, async |request| {
            go(&self.app, request, |request| self.route(request)).await
        })
        .await
    }
}

impl Admin {
    fn route(&self, request: &Request) -> Result<Route, Problem> {
        let path = request.uri().path();
        if path == HEALTH {
            return get(request).map(|()| Route::Health);
        }
        check_who(self.secret.as_ref(), request)?;
        browser::check_host(self.secret.as_ref(), request)?;
        body::check_declared(request)?;
        match path {
            RESET => post(request).map(|()| Route::Reset),
            REFUND => post(request).map(|()| Route::Refund),
            RULES => self.rules(request),
            METRICS => get(request).map(|()| Route::Metrics),
            TOP => get(request).map(|()| Route::Top),
            CHECK | PEEK => Err(elsewhere(path, "the public listener")),
            _ => Err(nothing(path, &[RESET, REFUND, RULES, METRICS, TOP, HEALTH])),
        }
    }
}

impl Admin {
    fn rules(&self, request: &Request) -> Result<Route, Problem> {
        let configuration = Arc::clone(&self.configuration);
        match *request.method() {
            Method::PUT => Ok(Route::PutRules(configuration, self.secret.clone())),
            Method::GET | Method::HEAD => Ok(Route::Rules(configuration)),
            _ => Err(other(request, "GET,HEAD,PUT")),
        }
    }
}

async fn go(
    app: &App,
    request: Request,
    route: impl FnOnce(&Request) -> Result<Route, Problem>,
) -> Result<Response, Problem> {
    let clear = head::fits(&request).and_then(|()| head::is_clear(&request));
    match clear.and_then(|()| route(&request)) {
        Ok(Route::Decide(verb)) => check::decide(app, verb, request).await,
        // Health is answered to everyone.
        Ok(Route::Health) => Box::pin(health::health(app)).await,
        Ok(Route::Reset) => admin::reset(app, request).await,
        Ok(Route::Refund) => admin::refund(app, request).await,
        Ok(Route::Rules(configuration)) => rules::rules(app, &configuration),
        Ok(Route::PutRules(configuration, secret)) => {
            Box::pin(put_rules::put(app, configuration, secret.as_ref(), request)).await
        }
        Ok(Route::Metrics) => Box::pin(metrics::metrics(app)).await,
        Ok(Route::Top) => top::top(app, request.uri().query()),
        Err(problem) => {
            Box::pin(body::pass_over(request, app.bounds)).await;
            Err(problem)
        }
    }
}

/// Accepts clients with a token, if one is needed, and refuses requests of foreign web pages.
fn check_who(secret: Option<&Secret>, request: &Request) -> Result<(), Problem> {
    authorize::check(secret, request.headers())?;
    browser::check_origin(secret, request)
}

/// Runs a request of either listener: a panic becomes a problem, and the request is logged.
pub(super) async fn guarded(
    request: Request,
    route: impl AsyncFnOnce(Request) -> Result<Response, Problem>,
) -> Response {
    let log = Log::of(&request);
    let is_head = request.method() == Method::HEAD;
    let response = AssertUnwindSafe(route(request)).catch_unwind().await;
    let response = response.unwrap_or_else(|_| Err(Problem::panicked()));
    let response = response.unwrap_or_else(Problem::into_response);
    log.write(&response);
    if is_head { without_body(response) } else { response }
}

/// A log line for each request at `debug`, without the body, which names callers.
struct Log(Option<(Method, String)>);

impl Log {
    fn of(request: &Request) -> Self {
        let asked = || (request.method().clone(), request.uri().path().to_owned());
        Self(tracing::enabled!(tracing::Level::DEBUG).then(asked))
    }

    fn write(self, response: &Response) {
        if let Some((method, path)) = self.0 {
            tracing::debug!(%method, path, status = response.status().as_u16(), "request");
        }
    }
}

/// The answer to HEAD: that to GET, with its length but without its body.
fn without_body(mut response: Response) -> Response {
    let body = std::mem::take(response.body_mut());
    let bytes = hyper::body::Body::size_hint(&body).exact().unwrap_or_default();
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    response.map(|_: Full<_>| Full::default())
}

/// `Ok` if the method is POST.
fn post(request: &Request) -> Result<(), Problem> {
    if request.method() == Method::POST { Ok(()) } else { Err(other(request, "POST")) }
}

/// `Ok` if the method is GET or HEAD.
fn get(request: &Request) -> Result<(), Problem> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        _ => Err(other(request, "GET,HEAD")),
    }
}

fn other(request: &Request, allowed: &'static str) -> Problem {
    let (path, method) = (request.uri().path(), request.method());
    let expected = allowed.replace(',', " or ");
    let detail = format!("{path} does not take {method}: expected {expected}");
    let allowed = HeaderValue::from_static(allowed);
    Problem::new(Kind::MethodNotAllowed, detail).with(ALLOW, allowed)
}

fn elsewhere(path: &str, listener: &str) -> Problem {
    let detail = format!("{path} is answered on {listener}, at its own port");
    Problem::new(Kind::NotFound, detail)
}

fn nothing(path: &str, here: &[&str]) -> Problem {
    let detail = format!("nothing is at {path}: expected one of {}", here.join(", "));
    Problem::new(Kind::NotFound, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Bounds, testing};

    #[tokio::test]
    async fn a_panic_is_that_requests_500_and_the_next_one_is_answered() {
        let endpoint = testing::endpoint(async |request| guarded(request, panics_or_not).await);
        let server = testing::serve(endpoint, Bounds::default()).await;
        let answers = server
            .exchange(
                "GET /panic HTTP/1.1\r\nhost: a\r\n\r\n\
                 GET /fine HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
            )
            .await;
        assert!(answers.starts_with("HTTP/1.1 500"), "{answers}");
        assert!(answers.contains("application/problem+json"), "{answers}");
        assert!(answers.ends_with("fine"), "{answers}");
    }

    async fn panics_or_not(request: Request) -> Result<Response, Problem> {
        assert_ne!(request.uri().path(), "/panic", "a defect");
        Ok(Response::new("fine".into()))
    }
}
