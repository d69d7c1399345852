//! `TG.CHECK` and `TG.PEEK`: decisions by the configured rules. `dispatch.rs` calls [`answer`]; if the decision has
//! to wait, the connection copies the command and [`later`] decides it while the connection goes on reading.

use tidegate::Answer;
use tidegate::json::DecisionLine;

use super::args::Args;
use super::line::write_line;
use super::question::{QuestionMistake, RespEntries, RespQuestion};
use super::reply::RespReply;
use super::session::{CommandOutcome, Session};
use super::state::ListenerState;
use super::usage::mistaken;
use crate::counts;
use crate::flags;
use crate::limiters::RequestVerb;
use crate::once_a_minute::warn_of;
use crate::refusal::WarningKind;

const WRONG_NUMBER: &str = "wrong number of arguments";

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
            mistake.write(&session.state, verb, reply);
            return CommandOutcome::Answered;
        }
    };
    // Without an answer nothing was taken, so `later` may ask the same again.
    let limiters = &session.state.limiters;
    let answered = question.ask(|request| {
        limiters.try_answer(verb, request).map(|answer| {
            count(&session.state, verb, &answer);
            write_answer(&answer, 0, reply);
        })
    });
    if answered.is_none() {
        return CommandOutcome::Later;
    }
    session.decided += u64::from(verb == RequestVerb::Check);
    CommandOutcome::Answered
}

/// Answers once the limiters have decided.
pub(super) async fn later(
    state: &ListenerState,
    verb: RequestVerb,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) {
    // Read once more, from the command's own copy: the input has gone on.
    let mut entries = RespEntries::default();
    let question = match RespQuestion::read(args, &mut entries) {
        Ok(question) => question,
        Err(mistake) => return mistake.write(state, verb, reply),
    };
    let descriptors = [question.descriptor()];
    let request = question.request(&descriptors);
    let read = state.counts().now();
    let answer = state.limiters.answer(verb, &request).await;
    count(state, verb, &answer);
    state.counts().took(read, u64::from(verb == RequestVerb::Check));
    write_answer(&answer, 0, reply);
}

fn count(state: &ListenerState, verb: RequestVerb, answer: &Answer<'_>) {
    if verb == RequestVerb::Check {
        state.counts().answered(answer);
    }
}

impl QuestionMistake {
    #[cold]
    fn write(&self, state: &ListenerState, verb: RequestVerb, reply: &mut RespReply<'_>) {
        if verb == RequestVerb::Check {
            state.counts().count(counts::RequestOutcome::Error);
            let reason = if let Self::Invalid(why) = self { &why.detail } else { WRONG_NUMBER };
            warn_of(WarningKind::Question, reason);
        }
        let command = if verb == RequestVerb::Peek { "tg.peek" } else { "tg.check" };
        mistaken(self, command, reply);
    }
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
