//! `CL.THROTTLE`: the call carries its limit, as in redis-cell. `dispatch.rs` calls [`answer`], and `pending_reply.rs`
//! calls [`later`] if a store has to decide.
//!
//! The keys have a namespace of their own, separate from every configured rule. A key that is used
//! under another limit is amended: used units stay used.

use tidegate::{Decision, Micros, Under};

use super::args::Args;
use super::call_limits::Throttle;
use super::reply::RespReply;
use super::session::{CommandOutcome, Session};
use super::state::ListenerState;
use super::throttle_call::ThrottleCall;
use crate::counts;

/// The namespace of the keys of all calls in a store.
const NAMESPACE: &str = "cl.throttle";
const MICROS: u64 = 1_000_000;

/// Answers immediately, unless the store has to decide.
pub(super) fn answer(
    session: &mut Session,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) -> CommandOutcome {
    let decided = match &session.state.throttle {
        Throttle::InStore => return CommandOutcome::Later,
        Throttle::Here(limiter) => ThrottleCall::read(args).and_then(|call| {
            // Most calls of a connection repeat its limit, whose rule is kept.
            let rule = session.plans.rule(call.limit)?;
            Ok(limiter.check(Under(rule, call.key), call.cost))
        }),
    };
    session.decided += u64::from(decided.is_ok());
    write_decision(&session.state, decided, reply);
    CommandOutcome::Answered
}

/// Answers once the store has decided.
pub(super) async fn later(state: &ListenerState, args: &Args<'_>, reply: &mut RespReply<'_>) {
    let read = state.decider.counts.now();
    let decided = in_store(state, args).await;
    state.decider.counts.took(read, u64::from(decided.is_ok()));
    write_decision(state, decided, reply);
}

async fn in_store(state: &ListenerState, args: &Args<'_>) -> Result<Decision, String> {
    let Some(gate) = state.decider.limiters.shared() else {
        return Err("there is no store".to_owned());
    };
    let call = ThrottleCall::read(args)?;
    let rule = call.limit.rule()?;
    let decided = gate.store().check_under(NAMESPACE, call.key, &rule, call.cost).await;
    decided.map_err(|error| error.to_string())
}

/// Five integers: 1 if the call is limited and else 0, the limit, the remaining units, the seconds until the same
/// quantity fits (-1 if it fits now, or never will), and the seconds until the limiter is idle. Seconds are rounded up.
fn write_decision(
    state: &ListenerState,
    decided: Result<Decision, String>,
    reply: &mut RespReply<'_>,
) {
    let decision = match decided {
        Ok(decision) => decision,
        Err(message) => {
            state.decider.counts.count(counts::RequestOutcome::Error);
            // The words of redis-cell for every error, of the arguments too.
            return reply.error(&format!("Cell error: Store error: {message}"));
        }
    };
    let outcome = counts::RequestOutcome::of_decision(&decision);
    state.decider.counts.count(outcome);
    tracing::debug!(verb = "check", domain = NAMESPACE, outcome = outcome.name(), "decided");
    // redis-cell answers -1 for an allowed call; a wait that never ends has no number either.
    let wait = decision.retry_after_micros().filter(|_| !decision.is_allowed());
    reply.array(5);
    reply.integer(u8::from(!decision.is_allowed()));
    reply.integer(decision.limit);
    reply.integer(decision.remaining);
    reply.integer(wait.map_or(-1, |wait| seconds(wait).cast_signed()));
    reply.integer(seconds(decision.reset_after));
}

/// Whole seconds, rounded up, so that no client comes back too early.
const fn seconds(wait: Micros) -> u64 {
    wait.as_micros().div_ceil(MICROS)
}
