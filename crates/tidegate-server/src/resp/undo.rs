//! `TG.REFUND` and `TG.RESET`, for clients that are granted these verbs. They always wait, so `pending_reply.rs`
//! calls them.

use tidegate::json::DecisionLine;

use super::args::Args;
use super::line::write_line;
use super::question::{self, QuestionMistake, RespEntries, RespQuestion};
use super::reply::RespReply;
use super::state::ListenerState;
use super::usage::mistaken;
use crate::flags;
use crate::limiters::said_of_change;

/// Gives the cost back; the reply is as over HTTP.
pub(super) async fn refund(state: &ListenerState, args: &Args<'_>, reply: &mut RespReply<'_>) {
    let mut entries = RespEntries::default();
    let question = match read(args, &mut entries, "a refund") {
        Ok(question) => question,
        Err(mistake) => return mistaken(&mistake, "tg.refund", reply),
    };
    let descriptors = [question.descriptor()];
    match state.limiters.refund(&question.request(&descriptors)).await {
        Ok(answer) => write_line(&DecisionLine::from(&answer), flags::of(&answer), 0, reply),
        Err(error) => not_changed(&error, reply),
    }
}

/// Resets the limiters; the reply is their number.
pub(super) async fn reset(state: &ListenerState, args: &Args<'_>, reply: &mut RespReply<'_>) {
    let mut entries = RespEntries::default();
    let question = match read(args, &mut entries, "a reset") {
        // Its client may have meant a refund, so the cost is not ignored.
        Ok(question) if question.names_a_cost() => {
            return reply.error(
                "ERR COST means nothing to a reset, which forgets all that was used: remove it, or send TG.REFUND \
                 to give so many units back",
            );
        }
        Ok(question) => question,
        Err(mistake) => return mistaken(&mistake, "tg.reset", reply),
    };
    let descriptors = [question.descriptor()];
    match state.limiters.reset(&question.request(&descriptors)).await {
        Ok(limiters) => reply.integer(limiters as u64),
        Err(error) => not_changed(&error, reply),
    }
}

/// Reads a question without an id, because a repeated question is executed again.
fn read<'a, 'e>(
    args: &Args<'a>,
    entries: &'e mut RespEntries<'a>,
    what: &str,
) -> Result<RespQuestion<'a, 'e>, QuestionMistake> {
    let question = RespQuestion::read(args, entries)?;
    if question.names_an_id() {
        return Err(question::invalid(format!(
            "ID means nothing to {what}, which is done each time it is asked: remove it"
        )));
    }
    Ok(question)
}

fn not_changed(error: &tidegate::StoreError, reply: &mut RespReply<'_>) {
    reply.error(&format!("ERR {}", said_of_change(error)));
}
