//! Late replies, for which no caller waits any more: the units they took are given back as of the time of the
//! reply, over the connection that it came over, or not at all.

use std::iter;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate_core::{Micros, Timestamp};
use tokio::sync::oneshot::Receiver;
use tokio::time::{Instant, sleep};

use super::limiters::script_limiters;
use super::{MOST_CHANGES, OfStep, PendingStep, RedisStore, step_reply};
use crate::client::{Client, heard};
use crate::counts::RequestCounts;
use crate::error::is_of_other_layout;
use crate::inbox::{NoReply, Replied};
use crate::route::{Delivered, Route};
use crate::script::{
    Call, CallResult, DecidedStep, NewerValues, RedisReply, ScriptLimiter, ScriptStep, Values,
};
use crate::store::{KeyAsk, LimiterReply, Receipt, StepReply, StoreError};

/// The longest time that giving back may wait for the store.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause before giving back is tried again while the store is unavailable.
const AGAIN: Duration = Duration::from_millis(10);

/// The units that a step took.
#[derive(Clone, Debug)]
pub(super) struct Took {
    /// The indices of the limiters that it took from.
    places: Vec<usize>,
    /// These limiters, each with the token of its permit, and since when its units count as taken.
    asks: Vec<KeyAsk>,
    /// The values that decided in place of the node's own, for each of these limiters.
    newer: NewerValues,
    /// For each of these limiters with leases, the time that its units count as taken earlier.
    leased: Vec<Option<Micros>>,
    /// The time in a replay.
    at: Option<Timestamp>,
    /// The connection that the reply came over; `None` if any server may be asked to take the units back.
    route: Option<Route>,
}

/// Starts to wait for the reply, however late, and for the request to be decided: its units are then given back unless
/// `kept` is sent anything.
pub(super) fn conclude(
    store: RedisStore,
    call: &Arc<Call>,
    pending: PendingStep<'_>,
    newer: &NewerValues,
    replied: impl Future<Output = Replied> + Send + 'static,
    kept: Receiver<()>,
) {
    let runtime = store.client.runtime().clone();
    let call = Arc::clone(call);
    let asks = pending.asks.to_vec();
    let newer = newer.clone();
    let leased = pending.args.leased.to_vec();
    runtime.spawn(async move {
        let replied = at_last(replied.await).await;
        // The reply may come before the request is decided without the store. Its units come back only when that
        // is known. A sender that is dropped without a word means that the units come back.
        let is_kept = kept.await.is_ok();
        let Delivered { reply, route } = match replied {
            Ok(delivered) => delivered,
            Err(error) => return store.count_unanswered(&asks, &error),
        };
        let limiters =
            newer.limiters(&script_limiters(&store, &asks, &[], &leased, (&[], &[]), &[]));
        let Ok(CallResult::Decided(done)) = call.answer(&limiters, &reply) else { return };
        let reply = step_reply((done.decided_by(newer.clone()), Some(route)));
        let Some(took) = took(&asks, &reply, &leased, None) else { return };
        let counts = store.client.counts();
        if is_kept {
            counts.late_units_admitted.fetch_add(units(&took.asks), Relaxed);
        } else if store.give_back(asks.len(), &took).await.replies.iter().any(Option::is_some) {
            RequestCounts::add(&counts.undone, 1);
        }
    });
}

/// Returns the reply, however late it comes.
async fn at_last(replied: Replied) -> Result<Delivered, StoreError> {
    match replied {
        Ok(delivered) => Ok(delivered),
        // The thread has given up the wait before: the reply comes over a channel of its own.
        Err(NoReply { late: Some(late), .. }) => late.await.unwrap_or(Err(StoreError::Away)),
        Err(NoReply { error, late: None }) => Err(error),
    }
}

/// Returns the units of these limiters.
fn units(asks: &[KeyAsk]) -> u64 {
    asks.iter().map(|ask| ask.cost).sum()
}

/// Returns the units that a step took from its limiters; `None` if it took nothing.
pub(super) fn took(
    asks: &[KeyAsk],
    reply: &StepReply,
    leased: &[Option<Micros>],
    at: Option<Timestamp>,
) -> Option<Took> {
    if !reply.allowed || reply.repeated {
        return None;
    }
    let of_step = reply.receipt.as_ref().and_then(Receipt::get).cloned();
    let OfStep { route, newer } = of_step.unwrap_or_default();
    let mut took =
        Took { places: Vec::new(), asks: Vec::new(), newer, leased: Vec::new(), at, route };
    for (place, (ask, one)) in asks.iter().zip(&reply.replies).enumerate() {
        let Some(LimiterReply { decided, by_store: true, .. }) = one else { continue };
        let decision = decided.decision;
        // A key that is open because there is no memory for its limiter took nothing.
        if ask.cost == 0 || !decision.is_allowed() || decision.is_unlimited() {
            continue;
        }
        // A limiter counts them at its own time, which is later than the clock's where that has stepped back.
        if decided.taken.since.is_none() {
            continue;
        }
        took.places.push(place);
        took.asks.push(KeyAsk { taken: decided.taken, ..ask.clone() });
        took.leased.push(leased.get(place).copied().flatten());
    }
    took.newer = took.newer.at(&took.places);
    (!took.places.is_empty()).then_some(took)
}

impl RedisStore {
    /// Counts the units of a request that was sent and got no reply: the store may have taken them.
    pub(super) fn count_unanswered(&self, asks: &[KeyAsk], error: &StoreError) {
        if matches!(error, StoreError::Timeout | StoreError::Unreachable(_)) {
            self.client.counts().unanswered_units.fetch_add(units(asks), Relaxed);
        }
    }

    /// Gives back the units of a step over so many limiters. If the values of one of several limiters have another
    /// meaning since, that limiter keeps its units, and the others get theirs one by one.
    pub(super) async fn give_back(&self, limiters: usize, took: &Took) -> StepReply {
        let mut reply = StepReply::nothing(limiters, Timestamp::EPOCH);
        let own = script_limiters(self, &took.asks, &[], &took.leased, (&[], &[]), &[]);
        let mut limiters = took.newer.limiters(&own);
        // An undo that any server may run says nothing of the server that took the units.
        reply.data.server = took.route.as_ref().map_or(0, Route::server);
        // Noted before newer values replace the rules: what comes back depends on both.
        limiters.iter_mut().for_each(|one| one.taken_under = Values::of(one.rule));
        let mut back = 0;
        let mut parts: Vec<_> = iter::once(0..limiters.len()).collect();
        while let Some(part) = parts.pop() {
            let is_several = part.len() > 1;
            match self.undone(limiters.get(part.clone()).unwrap_or_default(), took).await {
                Some(CallResult::Decided(done)) => {
                    let asks = took.asks.get(part.clone()).unwrap_or_default();
                    back += self.units_back_of(asks, &done);
                    reply.now = reply.now.max(done.now);
                    let places = took.places.get(part).unwrap_or_default();
                    reply.put_all(places.iter().copied(), done.replies.into_iter().map(Some));
                }
                Some(_) if is_several => parts.extend(part.rev().map(|one| one..one + 1)),
                _ => {}
            }
        }
        // Even if the store did not reply: units may be free, so waiters of these limiters ask again.
        self.units_back(&took.asks);
        if took.route.is_some() {
            let counts = self.client.counts();
            counts.undone_units.fetch_add(back, Relaxed);
            counts.not_undone_units.fetch_add(units(&took.asks).saturating_sub(back), Relaxed);
        }
        reply
    }

    /// Returns how many units these limiters got back. Only the last slot of a queue comes back.
    fn units_back_of(&self, asks: &[KeyAsk], done: &DecidedStep) -> u64 {
        let units = asks.iter().zip(done.settled()).map(|(one, settled)| {
            let rule = one.rule_in(self.policy());
            let is_queue = rule.is_some_and(|rule| rule.spec().algorithm.is_queue());
            // Units of other limiters are back, or count no more: none of them stays taken.
            if is_queue { settled.returned.min(one.cost) } else { one.cost }
        });
        units.sum()
    }

    /// Gives back to these limiters, all or none; `None` if the store did not reply. Under newer values it is done again
    /// for a while: a changed limit alone is no reason to lose units.
    async fn undone(&self, limiters: &[ScriptLimiter<'_>], took: &Took) -> Option<CallResult> {
        let mut newer = NewerValues::default();
        let until = Instant::now() + PATIENCE;
        let mut changes = 0;
        loop {
            let now = newer.limiters(limiters);
            let call = Arc::new(Call::new(&now, ScriptStep::Undo, took.at));
            let replied = match &took.route {
                Some(route) => route.run(&call).await,
                None => send_undo(&self.client, &call).await,
            };
            let reply = match replied {
                // The script did nothing, as after nil.
                Err(error) if is_of_other_layout(&error) => RedisReply::Nil,
                reply => reply.ok()?,
            };
            match call.answer(&now, &reply).ok()? {
                CallResult::Superseded(found)
                    // Under values with another meaning nothing may come back.
                    if found.count_as(limiters)
                        && changes < MOST_CHANGES
                        && Instant::now() < until =>
                {
                    changes += 1;
                    newer = newer.and(found);
                }
                answer => return Some(answer),
            }
        }
    }
}

/// Gives units back that have a record in the store, as soon as the store can be asked.
///
/// # Errors
/// The store did not do it in time.
async fn send_undo(client: &Client, undo: &Arc<Call>) -> Result<RedisReply, StoreError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match heard(client.inbox().ask(undo, 0, deadline).await) {
            // It was not sent.
            Err(NoReply {
                error: StoreError::Away | StoreError::Overloaded { .. },
                late: None,
            }) if Instant::now() + AGAIN < deadline => {
                sleep(AGAIN).await;
            }
            replied => return at_last(replied).await.map(|delivered| delivered.reply),
        }
    }
}
