//! `TG.RESERVE`, `TG.SETTLE` and `TG.RENEW`: units for work whose cost is known only afterwards, and permits for as
//! long as work runs. They always wait, so `pending_reply.rs` calls them.

use tidegate::MAX_COST;

use super::args::{Args, integer};
use super::check::write_answer;
use super::line::write_line;
use super::question::{RespEntries, RespQuestion};
use super::reply::RespReply;
use super::state::ListenerState;
use super::usage::mistaken;
use crate::counts;
use crate::limiters::{Unreserved, Unsettled};

/// Decides as a check, and adds the id of the reservation: null if there is none.
pub(super) async fn reserve(state: &ListenerState, args: &Args<'_>, reply: &mut RespReply<'_>) {
    let mut entries = RespEntries::default();
    let question = match RespQuestion::read_reserve(args, &mut entries) {
        Ok(question) => question,
        Err(mistake) => {
            state.counts().count(counts::RequestOutcome::Error);
            return mistaken(&mistake, "tg.reserve", reply);
        }
    };
    let descriptors = [question.descriptor()];
    let request = question.request(&descriptors);
    let read = state.counts().now();
    let reserved = match state.limiters.reserve(&request, question.life()).await {
        Ok(reserved) => reserved,
        Err(why) => {
            state.counts().count(counts::RequestOutcome::Error);
            let is_of_life = matches!(why, Unreserved::TooLong { .. });
            let option = if is_of_life { "LIFE: " } else { "" };
            return reply.error(&format!("ERR {option}{why}"));
        }
    };
    state.counts().answered(&reserved.answer);
    state.counts().took(read, 1);
    let matched = reserved.answer.matched();
    // Without a reservation the permits belong to an earlier request, which may have returned them.
    let held = if reserved.reservation.is_some() { &*matched } else { &[] };
    let permits = held.iter().filter_map(|one| Some((one.rule().name(), one.token()?)));
    let permits: Vec<_> = permits.collect();
    // The map announces its pairs before they are written, so the permits are collected first.
    write_answer(&reserved.answer, 1 + usize::from(!permits.is_empty()), reply);
    reply.text("reservation");
    match reserved.reservation {
        Some(id) => reply.text(&id.to_string()),
        None => reply.null(),
    }
    if !permits.is_empty() {
        reply.text("permits");
        reply.array(permits.len());
        for (rule, token) in permits {
            reply.map(2);
            reply.text("rule");
            reply.text(rule);
            reply.field("token", Some(token.as_micros()));
        }
    }
}

/// Settles a reservation, and answers how its limiters stand then.
pub(super) async fn settle(state: &ListenerState, args: &Args<'_>, reply: &mut RespReply<'_>) {
    let actual = integer(args.word(2)).and_then(|units| u64::try_from(units).ok());
    let Some(actual) = actual.filter(|units| *units <= MAX_COST) else {
        let shown = String::from_utf8_lossy(args.word(2).get(..32).unwrap_or(args.word(2)));
        return reply.error(&format!(
            "ERR the actual cost is {shown:?}: expected a whole number from 0 to {MAX_COST}"
        ));
    };
    let id = String::from_utf8_lossy(args.word(1));
    match state.limiters.settle(&id, &[actual]).await {
        Ok(settling) => match &settling.outcome.stand {
            Ok(settled) => {
                write_line(&settled.line(), settled.flags(), 2, reply);
                let [taken, cut] = settled.shares(0, actual);
                reply.field("settled", Some(taken));
                reply.field("cut", Some(cut));
            }
            Err(why) => reply
                .error(&format!("ERR {why}; it is unknown whether the reservation was settled")),
        },
        // It is done as soon as the store answers.
        Err(Unsettled::Pending(_)) => reply.simple("PENDING"),
        Err(why) => reply.error(&format!("ERR {why}")),
    }
}

/// Makes the permits of a reservation last their lives from now, and answers 1 if all were still out, else 0.
pub(super) async fn renew(state: &ListenerState, args: &Args<'_>, reply: &mut RespReply<'_>) {
    match state.limiters.renew(&String::from_utf8_lossy(args.word(1))).await {
        Ok(are_out) => reply.integer(i64::from(are_out)),
        Err(why) => reply.error(&format!("ERR {why}")),
    }
}
