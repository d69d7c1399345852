//! Which path is answered by what, on which listener.

use axum::Router;
use axum::extract::Request;
use axum::http::Uri;
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use tower_http::catch_panic::CatchPanicLayer;

use super::problem::{Kind, Problem};
use super::{App, admin, authorize, body, check, head, health, problem, rules};
use crate::door::Secret;

const CHECK: &str = "/v1/check";
const PEEK: &str = "/v1/peek";
const RESET: &str = "/v1/reset";
const REFUND: &str = "/v1/refund";
const RULES: &str = "/v1/rules";
const HEALTH: &str = "/healthz";

/// For everyone: decisions.
pub(super) fn public(app: App, secret: Option<Secret>) -> Router {
    let routes = Router::new()
        .route(CHECK, post(check::check))
        .route(PEEK, post(check::peek))
        .fallback(public_knows_not)
        .layer(middleware::from_fn_with_state(secret, authorize::knows))
        .route(HEALTH, get(health::health));
    guarded(routes).with_state(app)
}

/// For operators: what changes limiters, and what is in force.
pub(super) fn admin(app: App, secret: Option<Secret>) -> Router {
    let routes = Router::new()
        .route(RESET, post(admin::reset))
        .route(REFUND, post(admin::refund))
        .route(RULES, get(rules::rules))
        .fallback(admin_knows_not)
        .layer(middleware::from_fn(body::declared_as_json))
        .layer(middleware::from_fn_with_state(secret, authorize::knows))
        .route(HEALTH, get(health::health));
    guarded(routes).with_state(app)
}

/// What every request of either listener gets: a problem for a wrong method, a large head or a panic, and
/// a log line.
fn guarded(routes: Router<App>) -> Router<App> {
    routes
        .method_not_allowed_fallback(problem::method_not_allowed)
        .layer(middleware::from_fn(head::fits))
        .layer(CatchPanicLayer::custom(problem::panicked))
        .layer(middleware::from_fn(logged))
}

/// A line for each request at `debug`; nothing of the body, for it names callers.
async fn logged(request: Request, next: Next) -> Response {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return next.run(request).await;
    }
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    tracing::debug!(%method, path, status = response.status().as_u16(), "request");
    response
}

async fn public_knows_not(uri: Uri) -> Problem {
    let here = [CHECK, PEEK, HEALTH];
    not_found(uri.path(), &here, "the admin listener", &[RESET, REFUND, RULES])
}

async fn admin_knows_not(uri: Uri) -> Problem {
    let here = [RESET, REFUND, RULES, HEALTH];
    not_found(uri.path(), &here, "the public listener", &[CHECK, PEEK])
}

/// Says where the path is, or what there is.
fn not_found(path: &str, here: &[&str], elsewhere: &str, there: &[&str]) -> Problem {
    let detail = if there.contains(&path) {
        format!("{path} is answered on {elsewhere}, at its own port")
    } else {
        format!("nothing is at {path}: expected one of {}", here.join(", "))
    };
    Problem::new(Kind::NotFound, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Limits, testing};

    #[tokio::test]
    async fn a_panic_is_that_requests_500_and_the_next_one_is_answered() {
        let routes = Router::new().route("/panic", get(panics)).route("/fine", get(fine));
        let server = testing::serve(guarded(routes), Limits::default()).await;
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

    async fn panics() -> &'static str {
        panic!("a defect")
    }

    async fn fine() -> &'static str {
        "fine"
    }
}
