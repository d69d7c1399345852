//! `TG.CHECK` and `TG.PEEK`: decisions by the configured rules. `dispatch.rs` calls [`answer`]; if the decision has
//! to wait, the connection copies the command and [`later`] decides it while the connection goes on reading.

use tidegate::Answer;
use tidegate::json::DecisionLine;

use super::args::Args;
use super::line::write_line;
use super::question::{QuestionMistake, RespEntries, RespQuestion};
use super::reply::RespReply;
use super::session::{CommandOutcome, Session};
use crate::decide::RequestDecider;
use crate::flags;
use crate::limiters::RequestVerb;

/// Answers immediately, unless the decision has to wait.
pub(super) fn answer(
    session: &mut Session,
    verb: RequestVerb,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) -> CommandOutcome {
    let mut entries = RespEntries::default();
    let question = match RespQuestion::read(args, &mut entries) {
        Ok(question) => question,
        Err(QuestionMistake::NoText) => {
            // At most once: words that are texts need no escape.
            return answer(session, verb, &args.to_texts().as_args(), reply);
        }
        Err(mistake) => {
            refuse(&session.state.decider, verb, mistake, reply);
            return CommandOutcome::Answered;
        }
    };
    // Without an answer nothing was taken, so `later` may ask the same again.
    let decider = &session.state.decider;
    let answered = question
        .ask(|request| decider.try_decide(verb, request, |answer| write_answer(answer, 0, reply)));
    if answered.is_none() {
        return CommandOutcome::Later;
    }
    session.decided += u64::from(verb == RequestVerb::Check);
    CommandOutcome::Answered
}

/// Answers once the limiters have decided.
pub(super) async fn later(
    decider: &RequestDecider,
    verb: RequestVerb,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) {
    // Read once more, from the command's own copy: the input has gone on.
    let mut entries = RespEntries::default();
    let question = match RespQuestion::read(args, &mut entries) {
        Ok(question) => question,
        Err(mistake) => return refuse(decider, verb, mistake, reply),
    };
    let descriptors = [question.descriptor()];
    let read = decider.counts.now();
    let answer = decider.decide(verb, &question.request(&descriptors)).await;
    decider.counts.took(read, u64::from(verb == RequestVerb::Check));
    write_answer(&answer, 0, reply);
}

#[cold]
fn refuse(
    decider: &RequestDecider,
    verb: RequestVerb,
    mistake: QuestionMistake,
    reply: &mut RespReply<'_>,
) {
    let command = if verb == RequestVerb::Peek { "tg.peek" } else { "tg.check" };
    let why = mistake.refusal(command);
    decider.refused(verb, &why);
    reply.refuse(&why);
}

/// Writes an answer in a map with room for `more` pairs; `near` and `no_rule` only if it is so.
pub(super) fn write_answer(answer: &Answer<'_>, more: usize, reply: &mut RespReply<'_>) {
    let named = [("near", answer.is_near()), ("no_rule", answer.is_no_rule())];
    let named = named.into_iter().filter(|(_, is)| *is);
    let more = more + named.clone().count();
    write_line(&DecisionLine::from(answer), flags::of(answer), more, reply);
    for (name, _) in named {
        reply.text(name);
        reply.boolean(true);
    }
}
