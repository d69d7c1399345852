//! Carrying the units in use to a store that lost them: a store that comes back without its data, or without the last
//! writes, mints nothing.
//!
//! The layer notes what each reply says of the units in use. A question about a limiter with units that count names the
//! server that has them. If that server has no state of it, or another server decides about it by now, the store does
//! nothing, and the question is repeated with the units: the store decides from them or from its own state, whichever
//! admits less, and keeps that. So nothing is carried while the server keeps its data.
//!
//! It is the innermost layer: it sees what the store decided, each step is of one slot, and no other layer sees a
//! reply that counts for nothing.

mod known;

use std::iter;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate_core::{Micros, Settled, Timestamp, UsedUnits};
use tokio::sync::MutexGuard;
use tokio::time::{sleep, timeout_at};

use crate::clock::Clock;
use crate::inline_list::InlineList;
use crate::store::{
    GaveUp, Generation, GivenBack, KeyAsk, KnownUse, LeaseAsk, LeaseReply, LeaseResult,
    LimiterReply, LimiterReport, OnEvent, ReturnReply, StepArgs, StepReply, Store, StoreCounts,
    StoreError, StoreEvent, StoredData, Unspent, Verb,
};
use known::{DataOf, KnownLimiters, KnownThen, UseReport};

/// After the first limiter is carried, so much time passes until the number is reported.
const REPORTED_AFTER: Duration = Duration::from_secs(5);

/// Carries units in use to the store `inner`, if it lost them.
#[derive(Clone)]
pub(crate) struct Carry<S> {
    pub(crate) inner: S,
    generation: Arc<Generation>,
    known: Arc<KnownLimiters>,
    count: Arc<CarriedCount>,
}

/// The limiters that were carried.
struct CarriedCount {
    all: AtomicU64,
    /// True until the number is reported.
    is_counting: AtomicBool,
    report: OnEvent,
}

impl<S: Store> Carry<S> {
    pub(crate) fn new(inner: S, generation: Arc<Generation>, report: OnEvent) -> Self {
        let count =
            CarriedCount { all: AtomicU64::new(0), is_counting: AtomicBool::new(false), report };
        Self { inner, generation, known: Arc::new(KnownLimiters::new()), count: Arc::new(count) }
    }

    /// Each limiter, and whether a stored state stays if its last unit is newer than the known units. Such a state may
    /// have lost units all the same. But units of leases come back all the time, and no node hears when another gives
    /// them back; and where each unit has a time of its own, older units would take the place of newer.
    fn with_newer<'a>(
        &'a self,
        asks: &'a [KeyAsk],
        leased: &'a [Option<Micros>],
    ) -> impl Iterator<Item = (&'a KeyAsk, bool)> {
        let leased = leased.iter().map(Option::is_some).chain(iter::repeat(false));
        asks.iter().zip(leased).map(|(ask, has_leases)| {
            let rule = ask.rule_in(&self.generation.policy);
            let have_times = rule.is_some_and(|rule| rule.spec().algorithm.units_have_times());
            (ask, has_leases || have_times)
        })
    }

    /// The knowledge of each limiter.
    fn known_of(
        &self,
        asks: &[KeyAsk],
        leased: &[Option<Micros>],
        now: Timestamp,
    ) -> InlineList<KnownThen> {
        let with_newer = self.with_newer(asks, leased);
        with_newer.map(|(ask, keeps_newer)| self.known.known(ask, keeps_newer, now)).collect()
    }

    /// Waits until no other request carries units of these limiters, because units that it knew of may have come back
    /// since, and would be taken once more. Then brings what is `known` up to date, and returns also whether it has
    /// changed.
    async fn turns(
        &self,
        asks: &[KeyAsk],
        leased: &[Option<Micros>],
        known: &mut InlineList<KnownThen>,
        sent: Timestamp,
    ) -> (Vec<MutexGuard<'_, ()>>, bool) {
        let turns = self.known.turns(asks).await;
        let before = std::mem::replace(known, self.known_of(asks, leased, sent));
        let has_changed = before.iter().zip(&*known).any(|(before, now)| before.1 != now.1);
        (turns, has_changed)
    }

    /// Waits as [`Carry::turns`], until the deadline of a request.
    async fn turns_in_time(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
        known: &mut InlineList<KnownThen>,
        sent: Timestamp,
    ) -> Result<(Vec<MutexGuard<'_, ()>>, bool), StoreError> {
        let turns = timeout_at(args.deadline, self.turns(asks, args.leased, known, sent)).await;
        turns.map_err(|_| StoreError::Overloaded { together: true })
    }

    /// Counts limiters, and reports their number a while after the first.
    fn count(&self, limiters: u64) {
        let before = self.count.all.fetch_add(limiters, Relaxed);
        if self.count.is_counting.swap(true, Relaxed) {
            return;
        }
        let count = Arc::clone(&self.count);
        drop(self.inner.host().spawn(async move {
            sleep(REPORTED_AFTER).await;
            count.is_counting.store(false, Relaxed);
            let limiters = count.all.load(Relaxed) - before;
            (count.report)(StoreEvent::DataLost { limiters });
        }));
    }

    /// Notes what a reply says of a limiter, if its own limiter decided.
    fn note(&self, ask: &KeyAsk, known: &KnownThen, one: &mut LimiterReply, reply: ReplyTimes) {
        let Some((used, last)) = one.used.take() else { return };
        let Some(own) = ask.rule_in(&self.generation.policy) else { return };
        if !one.by_store || one.decided.overflow {
            return;
        }
        let rule = one.decided.values.as_ref().unwrap_or(own);
        let ReplyTimes { sent, now, server } = reply;
        let data = self.known.data_of(server);
        let until = sent.plus(one.decided.decision.reset_after);
        // The instant that counts is later where the clock has stepped back.
        let at = one.decided.taken.since.map_or(now, |since| since.max(now));
        self.known.note(ask, rule, known, UseReport { used, at, last, sent, until, data });
    }

    /// Notes what a reply about a lease says of its limiter.
    fn note_lease(
        &self,
        ask: &KeyAsk,
        known: &KnownThen,
        report: LimiterReport,
        (used, last): (Vec<UsedUnits>, Timestamp),
        ReplyTimes { sent, now, server }: ReplyTimes,
    ) {
        let Some(rule) = ask.rule_in(&self.generation.policy) else { return };
        let until = sent.plus(report.idle_at.since(report.at));
        let data = self.known.data_of(server);
        self.known.note(ask, rule, known, UseReport { used, at: now, last, sent, until, data });
    }

    /// Counts the limiters whose units a server lacked, and notes what that proves, by the data that `had` them before.
    /// The server lost a state while it ran, or it lacks a state of the former server, because a newer state would have
    /// stayed. Where the state with more in use stays in any case, another node may have given units back. Units that two
    /// servers reported prove nothing: a former server may have taken them when it was the primary no more.
    fn carried(&self, data: StoredData, had: Option<DataOf>, then: &[KnownThen]) {
        if data.carried == 0 {
            return;
        }
        self.count(data.carried);
        let Some(had) = had else { return };
        let mut known = then.iter().map(|(known, _)| known);
        if had.is_of(data.server)
            || !known.any(|one| matches!(one, KnownUse::Carried { last: None, .. }))
        {
            self.known.lost(data.server, had);
        }
    }

    /// Notes what is to be carried with the limiters of a request, and returns the data that had their units. All of
    /// them are carried, also if the server lacks only some, so that it is asked once more and not again for each.
    fn lost(
        &self,
        asks: &[KeyAsk],
        leased: &[Option<Micros>],
        known: &mut [KnownThen],
        data: StoredData,
        now: Timestamp,
    ) -> Option<DataOf> {
        let mut of = None;
        for ((ask, keeps_newer), known) in self.with_newer(asks, leased).zip(known) {
            let (carried, had) = self.known.is_lost(ask, keeps_newer, data.server, now);
            *known = carried;
            of = had.or(of);
        }
        of
    }
}

/// The knowledge of a limiter next to units that come back, with which nothing is carried.
const NOT_ASKED: KnownThen = (KnownUse::Nothing, 0);

/// The only limiter of a question for a lease has leases.
const LEASED: &[Option<Micros>] = &[Some(Micros::ZERO)];

/// A reply: when it was asked for, by the clock of this process, and when and by which server it was decided.
#[derive(Clone, Copy)]
struct ReplyTimes {
    sent: Timestamp,
    now: Timestamp,
    server: u64,
}

impl<S: Store> Store for Carry<S> {
    async fn step(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Result<StepReply, GaveUp> {
        // A replay has a store of its own.
        if args.at.is_some() {
            return self.inner.step(asks, args).await;
        }
        if args.verb == Verb::Reset {
            let reset = self.inner.step(asks, args).await;
            // After an error it is not known if it was done.
            asks.iter().for_each(|ask| self.known.forget(ask));
            return reset;
        }
        let sent = self.inner.host().now();
        let mut then = self.known_of(asks, args.leased, sent);
        let mut had = None;
        let mut turns = None;
        let mut reply = loop {
            if turns.is_none() && then.iter().any(|(known, _)| known.carried().is_some()) {
                turns = Some(self.turns_in_time(asks, args, &mut then, sent).await?.0);
            }
            let known: InlineList<KnownUse> = then.iter().map(|(known, _)| known.clone()).collect();
            let reply = self.inner.step(asks, StepArgs { known: &known, ..args }).await?;
            if !reply.data.is_lost {
                break reply;
            }
            if turns.is_none() {
                let (taken, has_changed) = self.turns_in_time(asks, args, &mut then, sent).await?;
                turns = Some(taken);
                if has_changed {
                    // Another request has carried the units.
                    continue;
                }
            }
            had = self.lost(asks, args.leased, &mut then, reply.data, sent).or(had);
        };
        // A remembered answer says how the limiters stood then.
        if reply.data.server == 0 || reply.repeated {
            return Ok(reply);
        }
        self.carried(reply.data, had, &then);
        let replied = ReplyTimes { sent, now: reply.now, server: reply.data.server };
        for ((ask, known), one) in asks.iter().zip(&then).zip(&mut reply.replies) {
            let Some(one) = one else { continue };
            let is_renewed = args.verb == Verb::Renew && one.decided.decision.is_allowed();
            if let Some(token) = ask.taken.token.filter(|_| is_renewed || args.verb == Verb::Settle)
            {
                self.known.moved(ask, token, is_renewed.then_some(replied.now), replied);
            }
            self.note(ask, known, one, replied);
        }
        Ok(reply)
    }

    async fn lease(&self, ask: &KeyAsk, lease: LeaseAsk<'_>) -> LeaseReply {
        let sent = self.inner.host().now();
        let asks = std::slice::from_ref(ask);
        let mut then = self.known_of(asks, LEASED, sent);
        let mut had = None;
        let mut turns = None;
        let mut reply = loop {
            if turns.is_none() && then[0].0.carried().is_some() {
                turns = Some(self.turns(asks, LEASED, &mut then, sent).await.0);
            }
            let reply = self.inner.lease(ask, LeaseAsk { known: &then[0].0, ..lease }).await;
            // Units of a late reply would only be given back.
            if !reply.data.is_lost || !reply.is_in_time {
                break reply;
            }
            if turns.is_none() {
                let (taken, has_changed) = self.turns(asks, LEASED, &mut then, sent).await;
                turns = Some(taken);
                if has_changed {
                    continue;
                }
            }
            had = self.lost(asks, LEASED, &mut then, reply.data, sent).or(had);
        };
        self.carried(reply.data, had, &then);
        let used = reply.used.take().filter(|_| reply.is_in_time);
        if let (LeaseResult::Decided(report, _), Some(used)) = (reply.result, used) {
            let replied = ReplyTimes { sent, now: report.at, server: reply.data.server };
            self.note_lease(ask, &then[0], report, used, replied);
        }
        reply
    }

    async fn give_back_lease(
        &self,
        rest: &Unspent<KeyAsk>,
        node: u64,
    ) -> Result<Option<ReturnReply>, StoreError> {
        let sent = self.inner.host().now();
        let mut reply = self.inner.give_back_lease(rest, node).await?;
        if let Some(reply) = &mut reply
            && let Some(used) = reply.used.take()
            // If nothing came back, the store may have lost the lease, and other units as well.
            && reply.given_back == GivenBack::Back
        {
            let replied = ReplyTimes { sent, now: reply.report.at, server: reply.data.server };
            self.note_lease(&rest.key, &NOT_ASKED, reply.report, used, replied);
        }
        Ok(reply)
    }

    async fn undo(&self, asks: &[KeyAsk], args: StepArgs<'_>, reply: &StepReply) -> StepReply {
        let sent = self.inner.host().now();
        let mut undone = self.inner.undo(asks, args, reply).await;
        if undone.data.server != 0 && args.at.is_none() {
            let replied = ReplyTimes { sent, now: undone.now, server: undone.data.server };
            let taken = reply.replies.iter().map(|one| one.as_ref().map(|one| one.decided.taken));
            for ((ask, taken), one) in asks.iter().zip(taken).zip(&mut undone.replies) {
                let Some(one) = one else { continue };
                if let Some(token) = taken.and_then(|taken| taken.token) {
                    self.known.moved(ask, token, None, replied);
                } else if one.decided.settled != Settled::Late(ask.cost) {
                    // A store that has none of the units may have lost others as well.
                    self.note(ask, &NOT_ASKED, one, replied);
                }
            }
        }
        undone
    }

    fn under(&self, generation: &Arc<Generation>) -> Self {
        let inner = self.inner.under(generation);
        Self { inner, generation: Arc::clone(generation), ..self.clone() }
    }

    fn counts(&self) -> StoreCounts {
        let mut counts = self.inner.counts();
        counts.carried = self.count.all.load(Relaxed);
        counts
    }

    pass_inward!(store);
}

impl<S: std::fmt::Debug> std::fmt::Debug for Carry<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { inner, known, .. } = self;
        f.debug_struct("Carry").field("inner", inner).field("known", known).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
