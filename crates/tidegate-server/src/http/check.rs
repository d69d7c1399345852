//! `POST /v1/check` and `POST /v1/peek`: a decision, taken or only looked at.

use axum::extract::{Request, State};
use axum::response::Response;

use super::App;
use super::answer;
use super::problem::Problem;
use super::question::Question;

/// Decides, and takes when all rules admit. Where the rules that refuse let a request wait, the answer
/// waits; a client that goes away meanwhile leaves no trace.
pub(super) async fn check(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let question = Question::read(request, app.limits).await?;
    question.ask(async |request| answer::decided(&app.limiters.check(request).await)).await
}

/// What a check would answer if nothing could wait, with the same status, taking nothing.
pub(super) async fn peek(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let question = Question::read(request, app.limits).await?;
    question.ask(async |request| answer::decided(&app.limiters.peek(request).await)).await
}
