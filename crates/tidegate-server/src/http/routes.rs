//! The paths of both listeners with their handlers, and the steps before and after every request. `connection.rs`
//! passes each request of hyper to [`HttpRoutes`]: the head is checked, the table gives the handler and who may ask for
//! it, and the handler answers. A refusal anywhere becomes a response in [`guarded`].
//!
//! A request that is not in the table is not answered, so a new path has to say who may ask for it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use hyper::Method;
use hyper::header::{ALLOW, CONTENT_LENGTH, HeaderValue};
use smallvec::SmallVec;

use super::app::App;
use super::connection::Endpoint;
use super::fast_path::{CHECK, FastPath};
use super::message::{HttpRequest, HttpResponse};
use super::table::{AdmittedRequest, HandlerFn, PublicUse, Row, RowHandler, at_other_listener};
use super::{
    admin, authorize, body, browser, check, decisions, head, health, metrics, openapi, put_rules,
    recorded, report, reservations, reserve, rules, stats, top,
};
use crate::audit::Changer;
use crate::configuration::Configuration;
use crate::limiters::RequestVerb;
use crate::listener::{Clients, OperatorAccess, Role, Who};
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::verbs::{PublicVerb, PublicVerbs};

const fn decide(path: &'static str, verb: RequestVerb) -> Row {
    Row::new(path, Method::POST, RowHandler::Decide(verb))
}

const fn get(path: &'static str, handler: HandlerFn) -> Row {
    Row::new(path, Method::GET, RowHandler::Call(handler))
}

const fn post(path: &'static str, handler: HandlerFn) -> Row {
    Row::new(path, Method::POST, RowHandler::Call(handler))
}

const fn put(path: &'static str, handler: HandlerFn) -> Row {
    Row::new(path, Method::PUT, RowHandler::Call(handler))
}

/// All rows; rows of one path are next to each other.
pub(super) static ROWS: [Row; 20] = [
    decide(CHECK, RequestVerb::Check).public(PublicVerb::Check),
    decide("/v1/peek", RequestVerb::Peek).public(PublicVerb::Peek).admin(Role::Read),
    post("/v1/reserve", |asked| Box::pin(reserve::reserve(asked))).public(PublicVerb::Reserve),
    post("/v1/settle", |asked| Box::pin(reserve::settle(asked)))
        .public(PublicVerb::Settle)
        .admin(Role::Change),
    // A client that may settle a reservation may renew it.
    post("/v1/renew", |asked| Box::pin(reserve::renew(asked)))
        .public(PublicVerb::Settle)
        .admin(Role::Change),
    get("/v1/reservations", |asked| Box::pin(reservations::list(asked))).admin(Role::Read),
    post("/v1/drop", |asked| Box::pin(reservations::drop_open(asked))).admin(Role::Change),
    post("/v1/refund", |asked| Box::pin(admin::refund(asked)))
        .public(PublicVerb::Refund)
        .admin(Role::Change),
    post("/v1/reset", |asked| Box::pin(admin::reset(asked)))
        .public(PublicVerb::Reset)
        .admin(Role::Change),
    post("/v1/report", |asked| Box::pin(report::report(asked)))
        .public(PublicVerb::Report)
        .admin(Role::Change),
    get("/v1/rules", |asked| Box::pin(rules::rules(asked))).admin(Role::Read),
    put("/v1/rules", |asked| Box::pin(put_rules::put(asked))).admin(Role::Change),
    get("/metrics", |asked| Box::pin(metrics::metrics(asked))).admin(Role::Read),
    get("/v1/stats", |asked| Box::pin(stats::stats(asked))).admin(Role::Read),
    get("/v1/stats/events", |asked| Box::pin(stats::events(asked))).admin(Role::Read),
    get("/v1/top", |asked| Box::pin(top::top(asked))).admin(Role::Read),
    get("/v1/decisions", |asked| Box::pin(decisions::decisions(asked))).admin(Role::Read),
    get("/v1/recorded", |asked| Box::pin(recorded::recorded(asked))).admin(Role::Read),
    // Before the token, because a load balancer has none.
    get("/healthz", |asked| Box::pin(health::health(asked.app))).usable(PublicUse::Open),
    // Not before the token, as health is: a stranger learns of no path. It needs no verb, because it has only the paths
    // that its reader may use.
    get("/openapi.json", |asked| Box::pin(openapi::document(&ROWS, asked)))
        .usable(PublicUse::Always)
        .admin(Role::Read),
];

/// The callers that a listener answers.
#[derive(Clone)]
pub(super) enum Access {
    /// Clients: they ask for decisions, and for other verbs as the setting allows.
    Public(Clients),
    /// Operators: they read and change limiters and the configuration.
    Admin(OperatorAccess, Arc<Configuration>),
}

/// The endpoint of a listener.
#[derive(Clone)]
pub(super) struct HttpRoutes {
    pub(super) app: Arc<App>,
    pub(super) access: Access,
}

/// A caller that may ask for something.
enum AdmittedCaller {
    Client(PublicVerbs),
    Operator(Who),
}

impl AdmittedCaller {
    /// Returns whether its listener answers a row.
    fn is_answered(&self, row: &Row) -> bool {
        match self {
            Self::Client(_) => row.public != PublicUse::Never,
            Self::Operator(_) => row.admin.is_some(),
        }
    }

    /// Returns whether it is told of a row: a client only of the paths that it may use.
    fn is_told(&self, row: &Row) -> bool {
        match self {
            Self::Client(verbs) => row.public.admits(*verbs),
            Self::Operator(_) => row.admin.is_some(),
        }
    }
}

impl Endpoint for HttpRoutes {
    fn names_peers(&self) -> bool {
        !matches!(&self.access, Access::Public(clients) if clients.certificates.is_empty())
    }

    fn fast_path(&self) -> Option<FastPath> {
        match &self.access {
            // A check that only a token or a certificate grants is answered by hyper.
            Access::Public(clients) if clients.verbs.has(PublicVerb::Check) => {
                FastPath::of(&self.app, clients.secret.as_ref())
            }
            _ => None,
        }
    }

    async fn answer(self, request: HttpRequest) -> HttpResponse {
        guarded(request, async |request| self.run(request).await).await
    }
}

impl HttpRoutes {
    /// Checks the head, finds the handler, and runs it.
    async fn run(&self, request: HttpRequest) -> Result<HttpResponse, RequestRefusal> {
        let found = head::is_clear(&request).and_then(|()| self.route(&request));
        let (row, caller) = match found {
            Ok(found) => found,
            Err(why) => {
                // The body is read all the same: a sender that is still writing would not see the answer.
                Box::pin(body::pass_over(request, self.app.bounds)).await;
                return Err(why);
            }
        };
        let handler = match row.handler {
            // Not boxed: nearly every request is a check, and an allocation costs a part of a decision.
            RowHandler::Decide(verb) => return check::decide(&self.app, verb, request).await,
            RowHandler::Call(handler) => handler,
        };
        let by = match (&caller, &self.access) {
            (Some(AdmittedCaller::Operator(who)), _) => Changer::Operator(who.clone()),
            // Only the line of such a change names its client.
            (Some(_), Access::Public(clients)) if row.undoes() => {
                authorize::client(clients, &request)
            }
            _ => Changer::unnamed(),
        };
        let verbs = match caller {
            Some(AdmittedCaller::Client(verbs)) => verbs,
            _ => PublicVerbs::default(),
        };
        // At the public listener no handler can reach the configuration.
        let configuration = match &self.access {
            Access::Admin(_, configuration) => Some(configuration),
            Access::Public(_) => None,
        };
        handler(AdmittedRequest { app: &self.app, request, by, verbs, configuration }).await
    }

    /// The row of a request, and the caller if it had to show itself.
    fn route(
        &self,
        request: &HttpRequest,
    ) -> Result<(&'static Row, Option<AdmittedCaller>), RequestRefusal> {
        let rows: Rows = ROWS.iter().filter(|row| row.path == request.uri().path()).collect();
        if rows.iter().any(|row| row.is_open()) {
            return Ok((chosen(&rows, request)?, None));
        }
        // Before anything is said about paths and methods, so that a stranger learns none.
        let (caller, has_token, other) = match &self.access {
            Access::Public(clients) => {
                let verbs = authorize::verbs(clients, request)?;
                (AdmittedCaller::Client(verbs), clients.secret.is_some(), "the admin listener")
            }
            Access::Admin(access, _) => (
                AdmittedCaller::Operator(authorize::admit(access, request)?),
                access.needs_token(),
                "the public listener",
            ),
        };
        browser::check_origin(has_token, request)?;
        // A page may ask the public listener by a name, because many clients do; changes are checked below.
        if matches!(caller, AdmittedCaller::Operator(_)) {
            browser::check_host(has_token, request)?;
        }
        if rows.is_empty() {
            return Err(unknown_path(request, |row| caller.is_told(row)));
        }
        // A path that exists only at the other listener gets a hint and not the list of paths.
        let here: Rows = rows.iter().copied().filter(|row| caller.is_answered(row)).collect();
        if here.is_empty() {
            return Err(at_other_listener(request, other));
        }
        let row = chosen(&here, request)?;
        // The right comes after the path and the method: a client that is let in may learn what it lacks.
        match (&caller, &self.access) {
            (AdmittedCaller::Client(verbs), Access::Public(clients)) => {
                if let PublicUse::Granted(verb) = row.public
                    && !verbs.has(verb)
                {
                    return Err(verb.refusal(clients.verbs));
                }
                if row.undoes() {
                    // Verbs that undo limits are guarded as at the admin listener.
                    browser::check_host(has_token, request)?;
                    body::check_declared(request)?;
                }
            }
            (AdmittedCaller::Operator(who), _) => match row.admin {
                Some(role) if who.role < role => return Err(authorize::needs(role, who, request)),
                // A page of another origin cannot send a declared body without being asked first.
                _ => body::check_declared(request)?,
            },
            _ => {}
        }
        Ok((row, Some(caller)))
    }
}

/// The rows of one path.
type Rows = SmallVec<[&'static Row; 2]>;

/// The row of the request's method.
fn chosen(rows: &[&'static Row], request: &HttpRequest) -> Result<&'static Row, RequestRefusal> {
    let row = rows.iter().find(|row| row.takes(request.method()));
    row.copied().ok_or_else(|| wrong_method(request, rows))
}

/// Runs a request of either listener: a panic becomes a problem, and the request is logged.
pub(super) async fn guarded(
    request: HttpRequest,
    route: impl AsyncFnOnce(HttpRequest) -> Result<HttpResponse, RequestRefusal>,
) -> HttpResponse {
    let log = RequestLog::of(&request);
    let is_head = request.method() == Method::HEAD;
    // State that requests share survives a panic: locks ignore poison, and counts are atomic.
    let response = AssertUnwindSafe(route(request)).catch_unwind().await;
    let response = response.unwrap_or_else(|_| Err(RequestRefusal::panicked()));
    let response = response.unwrap_or_else(RequestRefusal::into_response);
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
fn wrong_method(request: &HttpRequest, rows: &[&Row]) -> RequestRefusal {
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
    let problem = RefusalKind::MethodNotAllowed.because(detail);
    match HeaderValue::from_str(&names.join(",")) {
        Ok(allowed) => problem.with(ALLOW, allowed),
        Err(_) => problem,
    }
}

/// The problem of an unknown path, with the paths of the listener.
fn unknown_path(request: &HttpRequest, is_here: impl Fn(&Row) -> bool) -> RequestRefusal {
    let path = request.uri().path();
    let here = ROWS.iter().filter(|row| row.is_open() || is_here(row));
    let mut here: Vec<_> = here.map(|row| row.path).collect();
    // Rows of one path are next to each other in the table.
    here.dedup();
    let detail = format!("nothing is at {path}: expected one of {}", here.join(", "));
    RefusalKind::NotFound.because(detail)
}
