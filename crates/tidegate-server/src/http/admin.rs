//! `POST /v1/reset` and `POST /v1/refund`, at the admin listener for operators, and at the public listener for
//! clients that are granted the verb. `routes.rs` calls them after it has checked the right to ask.

use serde::Serialize;
use tidegate::{Request, readable};

use super::message::HttpResponse;
use super::question::HttpQuestion;
use super::table::AdmittedRequest;
use super::{answer, body};
use crate::limiters::RequestVerb;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The limiters that were reset.
#[derive(Serialize)]
struct Reset<'a> {
    /// Their number.
    reset: usize,
    /// The names of their rules.
    rules: Vec<&'a str>,
}

/// Resets every limiter that the descriptors match.
pub(super) async fn reset(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let AdmittedRequest { app, request, by, .. } = asked;
    let body = body::read(request, app.bounds).await?;
    let body = readable::json(&body);
    let question = read(&body, "a reset")?;
    if question.names_a_cost() {
        let detail = "`cost` means nothing to a reset, which forgets all that was used: remove it, \
                      or POST to /v1/refund to give so many units back";
        return Err(RefusalKind::InvalidBody.because(detail));
    }
    let reset = question.ask(async |request: &Request<'_>| {
        // Peeked before the reset, for the names of the rules in the answer.
        let looked = app.decider.decide(RequestVerb::Peek, request).await;
        let reset = app.decider.reset(&by, request, Some(&looked)).await?;
        let mut rules: Vec<_> = looked.matched().iter().map(|one| one.rule().name()).collect();
        // Several descriptors may match one rule, which is named once.
        rules.sort_unstable();
        rules.dedup();
        answer::json(&Reset { reset, rules })
    });
    reset.await
}

/// Gives the cost back; the values are the values after that, and `allowed` is true.
pub(super) async fn refund(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let AdmittedRequest { app, request, by, .. } = asked;
    let body = body::read(request, app.bounds).await?;
    let body = readable::json(&body);
    let question = read(&body, "a refund")?;
    let refunded = question.ask(async |request: &Request<'_>| {
        answer::values(&app.decider.refund(&by, request).await?)
    });
    refunded.await
}

/// Reads a question of a change. An id is refused, because the change is made each time that it is asked for, and
/// accepting an id would promise that it is not repeated.
fn read<'b>(body: &'b [u8], what: &str) -> Result<HttpQuestion<'b>, RequestRefusal> {
    let question = HttpQuestion::parse(body)?;
    question.refuse_max_wait(what)?;
    if question.names_an_id() {
        let detail = format!(
            "`request_id` means nothing to {what}, which is done each time it is asked: expected none"
        );
        return Err(RefusalKind::InvalidBody.because(detail));
    }
    Ok(question)
}
