//! `POST /v1/check` and `POST /v1/peek`: a decision, taken or only looked at.

use axum::extract::{Request, State};
use axum::response::Response;
use tidegate::{Answer, Gate};

use super::App;
use super::answer;
use super::problem::Problem;
use super::question::Question;

/// Decides, and takes when all rules admit.
pub(super) async fn check(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    decide(&app, request, Gate::check).await
}

/// What a check would answer, with the same status, taking nothing.
pub(super) async fn peek(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    decide(&app, request, Gate::peek).await
}

async fn decide(
    app: &App,
    request: Request,
    verb: for<'g> fn(&'g Gate, &tidegate::Request<'_>) -> Answer<'g>,
) -> Result<Response, Problem> {
    let question = Question::read(request, app.limits).await?;
    question.ask(|request| answer::decided(&verb(&app.gate, request)))
}
