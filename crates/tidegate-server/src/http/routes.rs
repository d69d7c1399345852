//! The paths of each listener and their handlers, and the steps before and after every request. `connection.rs`
//! passes each request of hyper to [`Public`] or [`Admin`]: the head is checked, `table.rs` gives the action and who
//! may ask for it, and the handler answers. A problem anywhere becomes a response in [`guarded`].

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use hyper::Method;
use hyper::header::{ALLOW, CONTENT_LENGTH, HeaderValue};
use smallvec::SmallVec;

use super::answer::made_apart;
use super::app::App;
use super::connection::Endpoint;
use super::fast_path::FastPath;
use super::message::{HttpRequest, HttpResponse};
use super::table::{Action, PublicUse, ROWS, Row};
use super::{
    admin, authorize, body, browser, check, decisions, head, health, metrics, openapi, put_rules,
    recorded, report, reservations, reserve, rules, stats, top,
};
use crate::configuration::Configuration;
use crate::limiters::RequestVerb;
use crate::listener::{Clients, OperatorAccess, Role, Who};
use crate::refusal::{Refusal, RefusalKind};
use crate::verbs::{PublicVerb, PublicVerbs};

/// The endpoint for clients: decisions, and other verbs as the setting allows.
#[derive(Clone)]
pub(super) struct Public {
    pub(super) app: Arc<App>,
    pub(super) clients: Clients,
}

/// The endpoint for operators: changes of limiters, and the rules in force.
#[derive(Clone)]
pub(super) struct Admin {
    pub(super) app: Arc<App>,
    pub(super) access: OperatorAccess,
    pub(super) configuration: Arc<Configuration>,
}

/// A request that was let in: its action, the operator at the admin listener, and the verbs of a client at the public
/// listener.
struct ChosenAction<'a> {
    action: Action,
    operator: Option<Operator<'a>>,
    verbs: PublicVerbs,
}

impl ChosenAction<'_> {
    /// The action of a row, for a client with these verbs.
    const fn of_client(row: &Row, verbs: PublicVerbs) -> Self {
        Self { action: row.action, operator: None, verbs }
    }
}

/// An operator that asks, and the configuration that the listener shows and changes.
struct Operator<'a> {
    who: Who,
    configuration: &'a Arc<Configuration>,
}

impl Endpoint for Public {
    fn names_peers(&self) -> bool {
        !self.clients.certificates.is_empty()
    }

    /// A check that only a token or a certificate grants is answered by hyper.
    fn fast_path(&self) -> Option<FastPath> {
        if !self.clients.verbs.has(PublicVerb::Check) {
            return None;
        }
        FastPath::of(&self.app, self.clients.secret.as_ref())
    }

    async fn answer(self, request: HttpRequest) -> HttpResponse {
        guarded(request, async |request| {
            run_action(&self.app, request, |request| self.route(request)).await
        })
        .await
    }
}

impl Public {
    /// The action of a request of a client that may ask for it.
    fn route(&self, request: &HttpRequest) -> Result<ChosenAction<'_>, Refusal> {
        let rows = rows(request);
        // Health comes before the token, because a load balancer has none.
        if is_health(&rows) {
            let row = chosen(&rows, request)?;
            return Ok(ChosenAction::of_client(row, PublicVerbs::default()));
        }
        // The token comes before the path, so that a stranger learns of no path.
        let verbs = authorize::verbs(&self.clients, request)?;
        let has_token = self.clients.secret.is_some();
        browser::check_origin(has_token, request)?;
        // A path that exists only at the other listener gets a hint and not the list of paths.
        let here: Rows =
            rows.iter().copied().filter(|row| row.public != PublicUse::Never).collect();
        if rows.is_empty() {
            // A client is told only of the paths that it may use.
            return Err(unknown_path(request, |row| row.public.admits(verbs)));
        }
        if here.is_empty() {
            return Err(at_other_listener(request, "the admin listener"));
        }
        let row = chosen(&here, request)?;
        if let PublicUse::Granted(verb) = row.public
            && !verbs.has(verb)
        {
            return Err(verb.refusal(self.clients.verbs));
        }
        if matches!(row.action, Action::Refund | Action::Reset) {
            // Verbs that undo limits are guarded as at the admin listener.
            browser::check_host(has_token, request)?;
            body::check_declared(request)?;
        }
        Ok(ChosenAction::of_client(row, verbs))
    }
}

impl Endpoint for Admin {
    fn names_peers(&self) -> bool {
        true
    }

    async fn answer(self, request: HttpRequest) -> HttpResponse {
        guarded(request, async |request| {
            run_action(&self.app, request, |request| self.route(request)).await
        })
        .await
    }
}

impl Admin {
    /// The action of a request of an operator who may ask for it.
    fn route(&self, request: &HttpRequest) -> Result<ChosenAction<'_>, Refusal> {
        let rows = rows(request);
        if is_health(&rows) {
            let row = chosen(&rows, request)?;
            return Ok(ChosenAction::of_client(row, PublicVerbs::default()));
        }
        // Before anything is said about paths and methods, so that a stranger learns none.
        let who = authorize::admit(&self.access, request)?;
        browser::check_origin(self.access.needs_token(), request)?;
        browser::check_host(self.access.needs_token(), request)?;
        let here: Rows = rows.iter().copied().filter(|row| row.admin.is_some()).collect();
        if rows.is_empty() {
            return Err(unknown_path(request, |row| row.admin.is_some()));
        }
        if here.is_empty() {
            return Err(at_other_listener(request, "the public listener"));
        }
        let row = chosen(&here, request)?;
        match row.admin {
            Some(role) if who.role < role => Err(authorize::needs(role, &who, request)),
            _ => {
                body::check_declared(request)?;
                let operator = Operator { who, configuration: &self.configuration };
                let verbs = PublicVerbs::default();
                Ok(ChosenAction { action: row.action, operator: Some(operator), verbs })
            }
        }
    }
}

/// Checks the head, finds the action, and runs its handler.
async fn run_action<'a>(
    app: &App,
    request: HttpRequest,
    route: impl FnOnce(&HttpRequest) -> Result<ChosenAction<'a>, Refusal>,
) -> Result<HttpResponse, Refusal> {
    let ChosenAction { action, operator, verbs } =
        match head::is_clear(&request).and_then(|()| route(&request)) {
            Ok(route) => route,
            Err(problem) => {
                // The body is read all the same: a sender that is still writing would not see the answer.
                Box::pin(body::pass_over(request, app.bounds)).await;
                return Err(problem);
            }
        };
    let role = operator.as_ref().map_or(Role::Read, |operator| operator.who.role);
    // All but checks and peeks are boxed: one future of them would make the future of every check as large.
    match action {
        Action::Check => check::decide(app, RequestVerb::Check, request).await,
        Action::Peek => check::decide(app, RequestVerb::Peek, request).await,
        Action::Health => Box::pin(health::health(app)).await,
        Action::Reserve => Box::pin(reserve::reserve(app, request)).await,
        Action::Settle => Box::pin(reserve::settle(app, who(operator), request)).await,
        Action::Renew => Box::pin(reserve::renew(app, who(operator), request)).await,
        Action::Reservations => {
            let Operator { who, .. } = required(operator, &request)?;
            reservations::list(app, &who, request.uri().query())
        }
        Action::Drop => Box::pin(reservations::drop_open(app, who(operator), request)).await,
        Action::Reset => Box::pin(admin::reset(app, who(operator), request)).await,
        Action::Refund => Box::pin(admin::refund(app, who(operator), request)).await,
        Action::Rules => {
            let limiters = Arc::clone(&app.limiters);
            let configuration = Arc::clone(required(operator, &request)?.configuration);
            Box::pin(made_apart(move || rules::rules(&limiters, &configuration))).await
        }
        Action::PutRules => {
            let Operator { who, configuration } = required(operator, &request)?;
            Box::pin(put_rules::put(app, Arc::clone(configuration), who, request)).await
        }
        Action::Metrics => {
            let limiters = Arc::clone(&app.limiters);
            let format = metrics::MetricsFormat::preferred(request.headers());
            Box::pin(made_apart(move || metrics::metrics(limiters, format))).await
        }
        Action::Report => Box::pin(report::report(app, request)).await,
        Action::Top => top::top(app, request.uri().query()),
        Action::Stats => {
            let limiters = Arc::clone(&app.limiters);
            let query = request.uri().query().map(str::to_owned);
            Box::pin(made_apart(move || stats::stats(&limiters, query.as_deref()))).await
        }
        Action::StatsEvents => stats::events(app, role, request.uri().query()),
        Action::Decisions => decisions::decisions(app, role, request.uri().query()),
        Action::Recorded => Box::pin(recorded::recorded(app, role)).await,
        Action::OpenApi => openapi::document(operator.is_none().then_some(verbs)),
    }
}

/// The operator, if one asks.
fn who(operator: Option<Operator<'_>>) -> Option<Who> {
    operator.map(|operator| operator.who)
}

/// The operator of an action that the table has at the admin listener alone.
fn required<'a>(
    operator: Option<Operator<'a>>,
    request: &HttpRequest,
) -> Result<Operator<'a>, Refusal> {
    operator.ok_or_else(|| at_other_listener(request, "the admin listener"))
}

/// The rows of one path.
type Rows = SmallVec<[&'static Row; 2]>;

/// The rows of the request's path, at either listener.
fn rows(request: &HttpRequest) -> Rows {
    ROWS.iter().filter(|row| row.path == request.uri().path()).collect()
}

fn is_health(rows: &[&Row]) -> bool {
    rows.iter().any(|row| row.action == Action::Health)
}

/// The row of the request's method.
fn chosen(rows: &[&'static Row], request: &HttpRequest) -> Result<&'static Row, Refusal> {
    let row = rows.iter().find(|row| row.takes(request.method()));
    row.copied().ok_or_else(|| wrong_method(request, rows))
}

/// Runs a request of either listener: a panic becomes a problem, and the request is logged.
pub(super) async fn guarded(
    request: HttpRequest,
    route: impl AsyncFnOnce(HttpRequest) -> Result<HttpResponse, Refusal>,
) -> HttpResponse {
    let log = RequestLog::of(&request);
    let is_head = request.method() == Method::HEAD;
    // State that requests share survives a panic: locks ignore poison, and counts are atomic.
    let response = AssertUnwindSafe(route(request)).catch_unwind().await;
    let response = response.unwrap_or_else(|_| Err(Refusal::panicked()));
    let response = response.unwrap_or_else(Refusal::into_response);
    log.write(&response);
    if is_head { without_body(response) } else { response }
}

/// A log line for each request at `debug`, without the body, which names callers.
struct RequestLog(Option<(Method, String)>);

impl RequestLog {
    fn of(request: &HttpRequest) -> Self {
        let is_logged = tracing::enabled!(tracing::Level::DEBUG);
        Self(is_logged.then(|| (request.method().clone(), request.uri().path().to_owned())))
    }

    fn write(self, response: &HttpResponse) {
        if let Some((method, path)) = self.0 {
            tracing::debug!(%method, path, status = response.status().as_u16(), "request");
        }
    }
}

/// The answer to HEAD: that to GET, with its length but without its body.
fn without_body(mut response: HttpResponse) -> HttpResponse {
    let body = std::mem::take(response.body_mut());
    if let Some(bytes) = body.len() {
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes));
    }
    response
}

/// The problem of a method that the path does not take.
fn wrong_method(request: &HttpRequest, rows: &[&Row]) -> Refusal {
    let names = rows.iter().flat_map(|row| match row.method {
        // A path with GET answers HEAD as well.
        Method::GET => vec!["GET", "HEAD"],
        _ => vec![row.method.as_str()],
    });
    let names: Vec<_> = names.collect();
    let detail = format!(
        "{} does not take {}: expected {}",
        request.uri().path(),
        request.method(),
        names.join(" or ")
    );
    let problem = Refusal::new(RefusalKind::MethodNotAllowed, detail);
    match HeaderValue::from_str(&names.join(",")) {
        Ok(allowed) => problem.with(ALLOW, allowed),
        Err(_) => problem,
    }
}

/// The problem of a path that only the other listener answers.
fn at_other_listener(request: &HttpRequest, listener: &str) -> Refusal {
    let path = request.uri().path();
    let detail = format!("{path} is answered on {listener}, at its own port");
    Refusal::new(RefusalKind::NotFound, detail)
}

/// The problem of an unknown path, with the paths of the listener.
fn unknown_path(request: &HttpRequest, is_here: impl Fn(&Row) -> bool) -> Refusal {
    let path = request.uri().path();
    let here = ROWS.iter().filter(|row| row.action == Action::Health || is_here(row));
    let mut here: Vec<_> = here.map(|row| row.path).collect();
    // Rows of one path are next to each other in the table.
    here.dedup();
    let detail = format!("nothing is at {path}: expected one of {}", here.join(", "));
    Refusal::new(RefusalKind::NotFound, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::testing;
    use crate::listener::Bounds;

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

    async fn panics_or_not(request: HttpRequest) -> Result<HttpResponse, Refusal> {
        assert_ne!(request.uri().path(), "/panic", "a defect");
        Ok(HttpResponse::new("fine".into()))
    }
}
