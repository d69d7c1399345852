//! `TG.RESERVE`, `TG.SETTLE` and `TG.RENEW`: units for work whose cost is known only afterwards, and permits for as
//! long as work runs. They always wait, so `pending_reply.rs` calls them.

use tidegate::MAX_COST;

use super::args::{Args, integer};
use super::check::write_answer;
use super::line::write_line;
use super::question::{RespEntries, RespQuestion};
use super::reply::RespReply;
use crate::audit::Changer;
use crate::decide::{RequestDecider, SettleAnswer};
use crate::limiters::RequestVerb;

/// Decides as a check, and adds the id of the reservation: null if there is none.
pub(super) async fn reserve(decider: &RequestDecider, args: &Args<'_>, reply: &mut RespReply<'_>) {
    let mut entries = RespEntries::default();
    let reserved = async {
        let question = RespQuestion::read_reserve(args, &mut entries)
            .map_err(|mistake| mistake.refusal("tg.reserve"))?;
        let descriptors = [question.descriptor()];
        decider.reserve(&question.request(&descriptors), question.options.life, "LIFE").await
    };
    let reserved = match reserved.await {
        Ok(reserved) => reserved,
        Err(why) => {
            decider.refused(RequestVerb::Check, &why);
            return reply.refuse(&why);
        }
    };
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
pub(super) async fn settle(decider: &RequestDecider, args: &Args<'_>, reply: &mut RespReply<'_>) {
    let actual = integer(args.word(2)).and_then(|units| u64::try_from(units).ok());
    let Some(actual) = actual.filter(|units| *units <= MAX_COST) else {
        let shown = String::from_utf8_lossy(args.word(2).get(..32).unwrap_or(args.word(2)));
        return reply.error(&format!(
            "ERR the actual cost is {shown:?}: expected a whole number from 0 to {MAX_COST}"
        ));
    };
    let id = String::from_utf8_lossy(args.word(1));
    let by = Changer::unnamed();
    let actual = [actual];
    let settled = decider.settle(&by, &id, &actual, |settlement| match settlement {
        SettleAnswer::Settled(settled) => {
            write_line(&settled.line(), settled.flags(), 2, reply);
            let [taken, cut] = settled.shares(0, actual[0]);
            reply.field("settled", Some(taken));
            reply.field("cut", Some(cut));
        }
        // It is done as soon as the store answers.
        SettleAnswer::Waits { .. } => reply.simple("PENDING"),
    });
    if let Err(why) = settled.await {
        reply.refuse(&why);
    }
}

/// Makes the permits of a reservation last their lives from now, and answers 1 if all were still out, else 0.
pub(super) async fn renew(decider: &RequestDecider, args: &Args<'_>, reply: &mut RespReply<'_>) {
    match decider.renew(&Changer::unnamed(), &String::from_utf8_lossy(args.word(1))).await {
        Ok(are_out) => reply.integer(i64::from(are_out)),
        Err(why) => reply.refuse(&why),
    }
}
