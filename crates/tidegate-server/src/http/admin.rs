//! `POST /v1/reset` and `POST /v1/refund`, at the admin listener for operators, and at the public listener for
//! clients that are granted the verb. `routes.rs` calls them after it has checked the right to ask.

use serde::Serialize;
use tidegate::{StoreError, readable};

use super::answer;
use super::app::App;
use super::audit::Audit;
use super::body;
use super::message::{HttpRequest, HttpResponse};
use super::question::HttpQuestion;
use crate::limiters::{said_of_change, was_not_sent};
use crate::listener::Who;
use crate::refusal::{Refusal, RefusalKind};

/// The limiters that were reset.
#[derive(Serialize)]
struct Reset<'a> {
    /// Their number.
    reset: usize,
    /// The names of their rules.
    rules: Vec<&'a str>,
}

/// Resets every limiter that the descriptors match.
pub(super) async fn reset(
    app: &App,
    who: Option<Who>,
    request: HttpRequest,
) -> Result<HttpResponse, Refusal> {
    let body = body::read(request, app.bounds).await?;
    let body = readable::json(&body);
    let question = HttpQuestion::parse(&body)?;
    question.refuse_max_wait("a reset")?;
    if question.names_a_cost() {
        let detail = "`cost` means nothing to a reset, which forgets all that was used: remove it, \
                      or POST to /v1/refund to give so many units back";
        return Err(Refusal::new(RefusalKind::InvalidBody, detail));
    }
    takes_no_id(&question, "a reset")?;
    let reset = question.ask(async |request: &tidegate::Request<'_>| {
        // Peeked before the reset, for the audit line and for the names of the rules in the answer.
        let looked = app.limiters.peek(request).await;
        let audit = Audit::after_look(who.as_ref(), "reset", &looked);
        let reset = app.limiters.reset(request).await;
        audit.end(app, request, reset.as_ref().map(|count| Some(*count))).await;
        let mut rules: Vec<_> = looked.matched().iter().map(|one| one.rule().name()).collect();
        // Several descriptors may match one rule, which is named once.
        rules.sort_unstable();
        rules.dedup();
        answer::json(&Reset { reset: reset.map_err(away)?, rules })
    });
    reset.await
}

/// Gives the cost back; the values are the values after that, and `allowed` is true.
pub(super) async fn refund(
    app: &App,
    who: Option<Who>,
    request: HttpRequest,
) -> Result<HttpResponse, Refusal> {
    let body = body::read(request, app.bounds).await?;
    let body = readable::json(&body);
    let question = HttpQuestion::parse(&body)?;
    question.refuse_max_wait("a refund")?;
    takes_no_id(&question, "a refund")?;
    let answer = question.ask(async |request: &tidegate::Request<'_>| {
        let audit = Audit::begin(app, who.as_ref(), "refund", request).await;
        let refunded = app.limiters.refund(request).await;
        audit.end(app, request, refunded.as_ref().map(|_| None)).await;
        answer::values(&refunded.map_err(away)?)
    });
    answer.await
}

/// Refuses an id, because an operator's request always runs, and accepting an id would promise that
/// it is not repeated.
fn takes_no_id(question: &HttpQuestion, what: &str) -> Result<(), Refusal> {
    if !question.names_an_id() {
        return Ok(());
    }
    let detail = format!(
        "`request_id` means nothing to {what}, which is done each time it is asked: expected none"
    );
    Err(Refusal::new(RefusalKind::InvalidBody, detail))
}

/// The problem of a store that did not reply. Only a change that was not sent may be repeated.
fn away(error: StoreError) -> Refusal {
    let problem = Refusal::new(RefusalKind::Unavailable, said_of_change(&error));
    if was_not_sent(&error) { problem.repeatable() } else { problem }
}
