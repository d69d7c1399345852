//! `POST /v1/check` and `POST /v1/peek`: decisions that take or only look; for one question, or for a batch.
//! `routes.rs` calls [`decide`] for requests that the fast path has not answered.

use futures_util::stream::{FuturesOrdered, StreamExt};
use tidegate::{Answer, readable};

use super::answer;
use super::app::App;
use super::body;
use super::message::{HttpRequest, HttpResponse};
use super::question::{HttpQuestion, QuestionBody};
use crate::decide::RequestDecider;
use crate::limiters::RequestVerb;
use crate::otlp::Span;
use crate::refusal::RequestRefusal;

/// The largest number of questions of one batch that are under way at a time.
const AT_ONCE: usize = 64;

/// Answers one question with a decision, or a batch with as many, in the same order.
pub(super) async fn decide(
    app: &App,
    verb: RequestVerb,
    request: HttpRequest,
) -> Result<HttpResponse, RequestRefusal> {
    // Begun before the body is read, so the span includes the time of a slow sender.
    let mut span = Span::begin(verb.name(), request.headers());
    let decider = &app.decider;
    let body = body::read_held(request, app.bounds).await;
    let (body, held) = body.inspect_err(|why| decider.refused(verb, why))?;
    let read = decider.counts.now();
    let body = readable::json(&body);
    let question = QuestionBody::parse(&body).inspect_err(|why| decider.refused(verb, why))?;
    let response = match question {
        QuestionBody::One(question) => {
            let answer = question.ask(async |request| decider.decide(verb, request).await).await;
            if let Some(span) = &mut span {
                span.end(question.domain(), &answer);
            }
            match verb {
                RequestVerb::Peek => answer::looked(&answer),
                RequestVerb::Check => answer::decided(&answer),
            }
        }
        QuestionBody::Each(questions) => {
            // Claimed before the first question is asked, because a batch that does not fit must take nothing.
            let claimed =
                held.as_ref().map_or(Ok(()), |held| held.keep_answers(questions.len(), 0));
            claimed.inspect_err(|why| decider.refused(verb, why))?;
            let answers = Box::pin(each(decider, verb, &questions)).await;
            if verb == RequestVerb::Peek {
                // A peek has taken nothing, so it may be refused when it is known how many rules it names.
                let rules = answers.iter().map(|answer| answer.enforced().count()).sum();
                held.map_or(Ok(()), |held| held.keep_answers(answers.len(), rules))?;
            }
            answer::each(verb, &answers)
        }
    };
    if verb == RequestVerb::Check {
        decider.counts.took(read, 1);
    }
    response
}

/// The questions are asked, and so decided, in order: several at a time, so that a batch does not
/// wait for the store once per question, but not all, so that others get their turn and a batch takes
/// little memory.
async fn each<'l>(
    decider: &'l RequestDecider,
    verb: RequestVerb,
    questions: &[HttpQuestion<'_>],
) -> Vec<Answer<'l>> {
    let mut answers = Vec::with_capacity(questions.len());
    let mut under_way = FuturesOrdered::new();
    for question in questions {
        // The oldest answer is taken first, so answers keep the order of their questions.
        if under_way.len() == AT_ONCE {
            answers.extend(under_way.next().await);
        }
        let decided = question.ask(async |request| decider.decide(verb, request).await);
        under_way.push_back(decided);
    }
    while let Some(answer) = under_way.next().await {
        answers.push(answer);
    }
    answers
}
