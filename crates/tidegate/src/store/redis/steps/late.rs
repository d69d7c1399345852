//! Late replies, for which no caller waits any more: the units they took are given back as of the time of the
//! reply, over the connection that it came over, or not at all.

use std::pin::Pin;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::{Micros, Timestamp, Token};
use tokio::sync::oneshot::{self, Receiver};
use tokio::time::{Instant, sleep};

use super::reply::{OfStep, reply_of};
use super::{MOST_CHANGES, PendingStep, RedisStore};
use crate::store::redis::script::{
    Call, CallResult, DecidedStep, NewerValues, RedisReply, ScriptLimiter, Values,
};
use crate::store::redis::{
    Client, Delivered, LateReply, NoReply, Replied, RequestCounts, Route, heard,
};
use crate::store::{
    GaveUp, KeyAsk, Late, LimiterReply, Receipt, StepReply, StoreError, Verb, is_report,
};

/// The longest time that giving back may wait for the store.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause before giving back is tried again while the store is unavailable.
const AGAIN: Duration = Duration::from_millis(10);

/// The units that a step took.
#[derive(Clone, Debug, Default)]
pub(super) struct Took {
    /// The indices of the limiters that it took from.
    places: Vec<usize>,
    /// The tokens of their permits.
    tokens: Vec<Option<Token>>,
    /// The values that decided in place of the node's own, for each of these limiters.
    newer: NewerValues,
    /// For each of these limiters with leases, the time that its units count as taken earlier.
    leased: Vec<Option<Micros>>,
    /// For each of these limiters, since when its units count as taken.
    since: Vec<Timestamp>,
    /// The time in a replay.
    at: Option<Timestamp>,
    /// The connection that the reply came over; `None` if any server may be asked to take the units back.
    route: Option<Route>,
}

impl Took {
    /// Returns the units that were taken from these limiters.
    fn units(&self, asks: &[KeyAsk]) -> u64 {
        self.places.iter().filter_map(|place| asks.get(*place)).map(|ask| ask.cost).sum()
    }
}

/// The reply of limiters that got units back, after their indices.
type GivenBackReply = (Vec<usize>, DecidedStep);

/// A call that was handed to the store. If it is dropped before the reply, the units it took are given back if
/// possible.
pub(super) struct SentCall<'a> {
    store: &'a RedisStore,
    call: &'a Arc<Call>,
    pending: PendingStep<'a>,
    /// `None` after the reply.
    replied: Option<Receiver<Replied>>,
}

impl<'a> SentCall<'a> {
    pub(super) const fn new(
        store: &'a RedisStore,
        call: &'a Arc<Call>,
        pending: PendingStep<'a>,
        replied: Receiver<Replied>,
    ) -> Self {
        Self { store, call, pending, replied: Some(replied) }
    }

    /// Returns whether units of an undelivered reply can be given back. Units of a report cannot, because they were
    /// used, nor units under a remembered id, because asking again returns the first reply.
    fn can_be_undone(&self) -> bool {
        let PendingStep { asks, args, undoes, .. } = self.pending;
        undoes
            && args.verb == Verb::Ask
            && !is_report(asks)
            && self.store.answer_key(asks, args.origin.id).is_none()
            && asks.iter().any(|ask| ask.cost > 0)
    }

    /// The error of a call that was sent. A call that gives units back is not undone when its reply comes late, so an
    /// error that says that nothing was done would be wrong: units would come back twice if the caller tried again.
    fn sent(&self, error: StoreError) -> StoreError {
        match (self.pending.args.verb, error) {
            (Verb::Settle, StoreError::Away | StoreError::Overloaded { .. }) => StoreError::Timeout,
            (_, error) => error,
        }
    }

    /// Starts to wait for a late reply, to give back its units unless its request was admitted by then.
    fn undo_late(&self, late: LateReply) -> Late {
        if !self.can_be_undone() {
            return Late::default();
        }
        let (keep, kept) = oneshot::channel();
        let store = self.store.clone();
        let asked = self.asked();
        // The reply may come before the request is decided without the store. Its units come back only when that is known.
        self.store.client.runtime().spawn(async move {
            let replied = late.await.unwrap_or(Err(StoreError::Away));
            // A sender that is dropped without a word means that the units come back.
            let is_kept = kept.await.is_ok();
            store.conclude(&asked, replied, is_kept).await;
        });
        Late::unless_sent(keep)
    }

    fn asked(&self) -> AskedLate {
        AskedLate {
            call: Arc::clone(self.call),
            asks: self.pending.asks.to_vec(),
            newer: self.pending.newer.cloned().unwrap_or_default(),
            leased: self.pending.args.leased.to_vec(),
        }
    }

    /// Takes a reply in time, or the reason for none.
    fn take(&self, replied: Replied) -> Result<Delivered, GaveUp> {
        let NoReply { error, late } = match replied {
            Ok(delivered) => return Ok(delivered),
            Err(no_reply) => no_reply,
        };
        if let Some(late) = late {
            let late = self.undo_late(late);
            return Err(GaveUp { late, ..GaveUp::from(self.sent(error)) });
        }
        if self.can_be_undone() {
            self.store.count_unanswered(self.pending.asks, &error);
        }
        Err(error.into())
    }
}

/// A call that no caller waits for any more.
struct AskedLate {
    call: Arc<Call>,
    asks: Vec<KeyAsk>,
    /// The values that decide in place of the node's own.
    newer: NewerValues,
    /// For each limiter with leases, the time that its units count as taken earlier if they are given back.
    leased: Vec<Option<Micros>>,
}

impl Future for SentCall<'_> {
    type Output = Result<Delivered, GaveUp>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(replied) = &mut self.replied else {
            return Poll::Ready(Err(StoreError::Away.into()));
        };
        let Poll::Ready(replied) = Pin::new(replied).poll(context) else { return Poll::Pending };
        self.replied = None;
        Poll::Ready(self.take(heard(replied)))
    }
}

impl Drop for SentCall<'_> {
    fn drop(&mut self) {
        let Some(replied) = self.replied.take().filter(|_| self.can_be_undone()) else { return };
        let store = self.store.clone();
        let asked = self.asked();
        self.store.client.runtime().spawn(async move {
            let replied = match heard(replied.await) {
                // The thread has given up the wait before: the reply comes over a channel of its own.
                Err(NoReply { late: Some(late), .. }) => {
                    late.await.unwrap_or(Err(StoreError::Away))
                }
                replied => replied.map_err(|NoReply { error, .. }| error),
            };
            store.conclude(&asked, replied, false).await;
        });
    }
}

impl RedisStore {
    /// Gives back the units that a call took without telling a caller; keeps them if the request was admitted without
    /// the store.
    async fn conclude(
        &self,
        asked: &AskedLate,
        replied: Result<Delivered, StoreError>,
        is_kept: bool,
    ) {
        let AskedLate { call, asks, newer, leased } = asked;
        let Delivered { reply, route } = match replied {
            Ok(delivered) => delivered,
            Err(error) => return self.count_unanswered(asks, &error),
        };
        let limiters = self.limiters(asks, &[], &[], leased);
        let answer = call.answer(&newer.limiters(&limiters), &reply);
        let Ok(CallResult::Decided(done)) = answer else { return };
        let reply = reply_of((done.decided_by(newer.clone()), Some(route)));
        let Some(took) = self.took(asks, &reply, leased, None) else { return };
        if is_kept {
            self.client.counts().late_units_admitted.fetch_add(took.units(asks), Relaxed);
            return;
        }
        if self.give_back(asks, &took).await.replies.iter().any(Option::is_some) {
            RequestCounts::add(&self.client.counts().undone, 1);
        }
    }

    /// Counts the units of a request that was sent and got no reply: the store may have taken them.
    fn count_unanswered(&self, asks: &[KeyAsk], error: &StoreError) {
        if matches!(error, StoreError::Timeout | StoreError::Unreachable(_)) {
            let units: u64 = asks.iter().map(|ask| ask.cost).sum();
            self.client.counts().unanswered_units.fetch_add(units, Relaxed);
        }
    }

    /// Returns the units that a step took from its limiters; `None` if it took nothing.
    pub(super) fn took(
        &self,
        asks: &[KeyAsk],
        reply: &StepReply,
        leased: &[Option<Micros>],
        at: Option<Timestamp>,
    ) -> Option<Took> {
        if !reply.allowed || reply.repeated {
            return None;
        }
        let OfStep { route, newer } =
            reply.receipt.as_ref().and_then(Receipt::get).cloned().unwrap_or_default();
        let mut took = Took { at, route, ..Took::default() };
        for (place, (ask, one)) in asks.iter().zip(&reply.replies).enumerate() {
            let Some(LimiterReply { decided, by_store: true, .. }) = one else { continue };
            let Some(since) = decided.since else { continue };
            let decision = decided.decision;
            // A key that is open because there is no memory for its limiter took nothing.
            if ask.cost == 0 || !decision.is_allowed() || decision.is_unlimited() {
                continue;
            }
            let earlier = leased.get(place).copied().flatten();
            took.leased.push(earlier);
            took.places.push(place);
            took.tokens.push(decided.token);
            // A limiter counts them at its own time, which is later than the clock's where that has stepped back.
            took.since.push(since.minus(earlier.unwrap_or_default()));
        }
        took.newer = newer.at(&took.places);
        (!took.places.is_empty()).then_some(took)
    }

    /// Gives back the units of a step. If the values of one of several limiters have another meaning since, that
    /// limiter keeps its units, and the others get theirs one by one.
    pub(super) async fn give_back(&self, asks: &[KeyAsk], took: &Took) -> StepReply {
        let places = took.places.iter().zip(&took.tokens);
        let here: Vec<_> = places
            .filter_map(|(place, token)| {
                Some(KeyAsk { token: *token, ..asks.get(*place)?.clone() })
            })
            .collect();
        let given_back = self.give_back_here(&here, took).await;
        // Even if the store did not reply: units may be free, so waiters of these limiters ask again.
        self.units_back(&here);
        if took.route.is_some() {
            self.count_undone(asks, took, &given_back);
        }
        let mut reply = StepReply::nothing(asks.len(), Timestamp::EPOCH);
        for (places, done) in given_back {
            reply.now = reply.now.max(done.now);
            reply.put_all(places, reply_of((done, None)).replies);
        }
        reply
    }

    /// Counts the units of a step that were given back, and the units that were not. Only the last slot of a queue
    /// comes back.
    fn count_undone(&self, asks: &[KeyAsk], took: &Took, given_back: &[GivenBackReply]) {
        let mut back = 0;
        for (place, settled) in
            given_back.iter().flat_map(|(places, done)| places.iter().zip(done.settled()))
        {
            let Some(one) = asks.get(*place) else { continue };
            let rule = one.rule_in(self.policy());
            let is_queue = rule.is_some_and(|rule| rule.spec().algorithm.is_queue());
            // Units of other limiters are back, or count no more: none of them stays taken.
            back += if is_queue { settled.returned.min(one.cost) } else { one.cost };
        }
        let counts = self.client.counts();
        counts.undone_units.fetch_add(back, Relaxed);
        counts.not_undone_units.fetch_add(took.units(asks).saturating_sub(back), Relaxed);
    }

    async fn give_back_here(&self, here: &[KeyAsk], took: &Took) -> Vec<GivenBackReply> {
        let own = self.limiters(here, &[], &[], &took.leased);
        let mut limiters = took.newer.limiters(&own);
        // Noted before newer values replace the rules: what comes back depends on both.
        limiters.iter_mut().for_each(|one| one.note_values(Values::of(one.rule)));
        match self.undone(&limiters, &took.since, took).await {
            Some(CallResult::Decided(done)) => return vec![(took.places.clone(), done)],
            Some(_) if limiters.len() > 1 => {}
            _ => return Vec::new(),
        }
        let mut all = Vec::new();
        for ((place, since), one) in took.places.iter().zip(&took.since).zip(&limiters) {
            let undone = self.undone(from_ref(one), from_ref(since), took).await;
            if let Some(CallResult::Decided(done)) = undone {
                all.push((vec![*place], done));
            }
        }
        all
    }

    /// Gives back to these limiters, all or none; `None` if the store did not reply. Under newer values it is done again
    /// for a while: a changed limit alone is no reason to lose units.
    async fn undone(
        &self,
        limiters: &[ScriptLimiter<'_>],
        since: &[Timestamp],
        took: &Took,
    ) -> Option<CallResult> {
        let mut newer = NewerValues::default();
        let until = Instant::now() + PATIENCE;
        let mut changes = 0;
        loop {
            let now = newer.limiters(limiters);
            let call = Arc::new(Call::undo(&now, since, took.at));
            let replied = match &took.route {
                Some(route) => route.run(&call).await,
                None => send_undo(&self.client, &call).await,
            };
            let reply = match replied {
                // The script did nothing, as after nil.
                Err(error) if error.is_of_other_layout() => RedisReply::Nil,
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
        match heard(client.ask(undo, 0, deadline).await) {
            // It was not sent.
            Err(NoReply {
                error: StoreError::Away | StoreError::Overloaded { .. },
                late: None,
            }) if Instant::now() + AGAIN < deadline => {
                sleep(AGAIN).await;
            }
            Err(NoReply { late: Some(late), .. }) => {
                let replied = late.await.unwrap_or(Err(StoreError::Away));
                return replied.map(|delivered| delivered.reply);
            }
            Err(NoReply { error, .. }) => return Err(error),
            Ok(delivered) => return Ok(delivered.reply),
        }
    }
}
