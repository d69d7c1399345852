//! `TG.REFUND` and `TG.RESET`, for clients that are granted these verbs. They always wait, so `pending_reply.rs`
//! calls them.

use tidegate::json::DecisionLine;

use super::args::Args;
use super::line::write_line;
use super::question::{RespEntries, RespQuestion};
use super::reply::RespReply;
use crate::audit::Changer;
use crate::decide::RequestDecider;
use crate::flags;
use crate::refusal::{RefusalKind, RequestRefusal};

/// Gives the cost back; the reply is as over HTTP.
pub(super) async fn refund(
    decider: &RequestDecider,
    by: &Changer,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) -> Result<(), RequestRefusal> {
    let mut entries = RespEntries::default();
    let question = read(args, &mut entries, "a refund", "tg.refund")?;
    let descriptors = [question.descriptor()];
    let answer = decider.refund(by, &question.request(&descriptors)).await?;
    write_line(&DecisionLine::from(&answer), flags::of(&answer), 0, reply);
    Ok(())
}

/// Resets the limiters; the reply is their number.
pub(super) async fn reset(
    decider: &RequestDecider,
    by: &Changer,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) -> Result<(), RequestRefusal> {
    let mut entries = RespEntries::default();
    let question = read(args, &mut entries, "a reset", "tg.reset")?;
    // Its client may have meant a refund, so the cost is not ignored.
    if question.options.names_a_cost {
        let detail = "COST means nothing to a reset, which forgets all that was used: remove it, or send TG.REFUND \
                      to give so many units back";
        return Err(RefusalKind::InvalidQuestion.because(detail));
    }
    let descriptors = [question.descriptor()];
    let limiters = decider.reset(by, &question.request(&descriptors), None).await?;
    reply.integer(limiters as u64);
    Ok(())
}

/// Reads a question without an id, because a repeated question is executed again.
fn read<'a, 'e>(
    args: &Args<'a>,
    entries: &'e mut RespEntries<'a>,
    what: &str,
    command: &str,
) -> Result<RespQuestion<'a, 'e>, RequestRefusal> {
    let question = RespQuestion::read(args, entries).map_err(|mistake| mistake.refusal(command))?;
    if question.options.id.is_some() {
        let detail =
            format!("ID means nothing to {what}, which is done each time it is asked: remove it");
        return Err(RefusalKind::InvalidQuestion.because(detail));
    }
    Ok(question)
}
