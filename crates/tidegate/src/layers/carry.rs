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

mod doubtful;
mod known;
mod limiter;
mod question;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::{Micros, Settled, Timestamp, UsedUnits};
use tokio::time::sleep;

use crate::store::{
    GaveUp, Generation, GivenBack, KeyAsk, KnownUse, LeaseAsk, LeaseReply, LeaseResult,
    LimiterPlaces, LimiterReply, LimiterReport, OnEvent, ReturnReply, StepArgs, StepReply, Store,
    StoreCounts, StoreError, StoreEvent, StoredData, Unspent, Verb, is_report,
};
use doubtful::DoubtfulReply;
use known::KnownLimiters;
use limiter::{DataOf, ReplyTimes, UseReport};
use question::CarryQuestion;

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

    /// Asks for a lease until a `reply` stands.
    ///
    /// # Errors
    /// The turn to carry units did not come by the deadline.
    async fn ask_for_lease(
        &self,
        ask: &KeyAsk,
        lease: LeaseAsk<'_>,
        reply: &mut LeaseReply,
    ) -> Result<(), StoreError> {
        let asks = std::slice::from_ref(ask);
        let mut question = CarryQuestion::new(self, asks, LEASED, self.inner.host().deadline());
        loop {
            question.begin().await?;
            let turns = Mutex::new(question.turns.take());
            let asked = LeaseAsk {
                known: &question.known()[0],
                on_late: &|| {
                    // A late reply is not noted, so no request has to wait for it.
                    drop(turns.lock().unwrap_or_else(PoisonError::into_inner).take());
                    (lease.on_late)();
                },
                ..lease
            };
            *reply = self.inner.lease(ask, asked).await;
            question.turns = turns.into_inner().unwrap_or_else(PoisonError::into_inner);
            let report = match reply.result {
                LeaseResult::Decided(report, _) => Some(report),
                LeaseResult::Undecided | LeaseResult::NotSent | LeaseResult::Unknown => None,
            };
            // The units of a late reply are given back.
            if !reply.is_in_time || report.is_none() && !reply.data.is_lost {
                question.end(reply.data);
                return Ok(());
            }
            let at = report.map_or(Timestamp::EPOCH, |report| report.at);
            while question.is_answered(at, reply.data, false).await? {
                let took_place = question.end(reply.data).has(0);
                let replied = ReplyTimes { took_place, ..question.reply(at, reply.data) };
                let known = &question.known()[0];
                let used = &mut reply.used;
                if report.is_none_or(|report| self.note_lease(ask, known, report, used, replied)) {
                    return Ok(());
                }
            }
        }
    }

    /// Notes what a reply says of the limiters of a step. Returns false if another request carries units of some by now.
    fn note_step(
        &self,
        asks: &[KeyAsk],
        verb: Verb,
        question: &CarryQuestion<'_, S>,
        reply: &mut StepReply,
    ) -> bool {
        let carried = question.end(reply.data);
        let replied = question.reply(reply.now, reply.data);
        let mut is_noted = true;
        let limiters = asks.iter().zip(question.known()).zip(&mut reply.replies).enumerate();
        for (place, ((ask, known), one)) in limiters {
            let Some(one) = one else { continue };
            let is_renewed = verb == Verb::Renew && one.decided.decision.is_allowed();
            if let Some(token) = ask.taken.token.filter(|_| is_renewed || verb == Verb::Settle) {
                self.known.moved(ask, token, is_renewed.then_some(replied.now), replied);
            }
            let took_place = carried.has(place);
            is_noted &= self.note(ask, known, one, ReplyTimes { took_place, ..replied });
        }
        is_noted
    }

    /// Notes what a reply says of a limiter, if its own limiter decided. Returns false if another request carries its
    /// units by now.
    fn note(
        &self,
        ask: &KeyAsk,
        known: &KnownUse,
        one: &mut LimiterReply,
        reply: ReplyTimes,
    ) -> bool {
        let Some(own) = ask.rule_in(&self.generation.policy) else { return true };
        if !one.by_store || one.decided.overflow {
            return true;
        }
        let rule = one.decided.values.as_ref().unwrap_or(own);
        let until = reply.sent.plus(one.decided.decision.reset_after);
        // The instant that counts is later where the clock has stepped back.
        let at = one.decided.taken.since.map_or(reply.now, |since| since.max(reply.now));
        self.known.note(ask, rule, known, UseReport { used: &mut one.used, at, until, reply })
    }

    /// Notes the units in use that a reply about a lease has. Returns false if another request carries them by now.
    fn note_lease(
        &self,
        ask: &KeyAsk,
        known: &KnownUse,
        report: LimiterReport,
        used: &mut Option<(Vec<UsedUnits>, Timestamp)>,
        reply: ReplyTimes,
    ) -> bool {
        let Some(rule) = ask.rule_in(&self.generation.policy) else { return true };
        let until = reply.sent.plus(report.idle_at.since(report.at));
        self.known.note(ask, rule, known, UseReport { used, at: reply.now, until, reply })
    }

    /// Counts `all` limiters whose units a server lacked, and notes what the last reply proves of each, by the data that
    /// `had` its units before: the server lost a state while it ran, or it lacks a state of the former server, because a
    /// newer state would have stayed. Where the state with more in use stays in any case, another node may have given units
    /// back. Units that two servers reported prove nothing: a former server may have taken them when it was the primary no
    /// more.
    fn note_carried(
        &self,
        all: LimiterPlaces,
        data: StoredData,
        had: &[Option<DataOf>],
        known: &[KnownUse],
    ) {
        if all.count() > 0 {
            self.count(all.count());
        }
        for (place, (known, had)) in known.iter().zip(had).enumerate() {
            let proves = data.server != 0 && data.carried.has(place);
            let Some(had) = had.filter(|_| proves) else { continue };
            let has_lost = if had.is_of(data.server) {
                // Otherwise it replaced its state although it was only smaller: units may have come back.
                known.is_own()
            } else {
                !matches!(known, KnownUse::Carried { last: None, .. })
            };
            if has_lost {
                self.known.note_loss(data.server, had);
            }
        }
    }
}

/// The only limiter of a question for a lease has leases.
const LEASED: &[Option<Micros>] = &[Some(Micros::ZERO)];

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
        let mut question = CarryQuestion::new(self, asks, args.leased, args.deadline);
        loop {
            question.begin().await?;
            let asked = StepArgs { known: question.known(), ..args };
            let mut reply = self.inner.step(asks, asked).await?;
            // A remembered answer says how the limiters stood then.
            if (reply.data.server == 0 || reply.repeated) && !reply.data.is_lost {
                question.end(reply.data);
                return Ok(reply);
            }
            // Units that came back from data that was not lost after all would come back again.
            let stands = args.verb == Verb::Settle;
            // A remembered answer says that its units are taken, and units that are reported were used.
            let comes_back = args.verb == Verb::Ask
                && args.origin.id.is_none()
                && !is_report(asks)
                && !reply.data.is_lost;
            let replied = question.reply(reply.now, reply.data);
            let doubtful =
                DoubtfulReply { layer: self, asks, args, replied, reply: &mut reply, comes_back };
            loop {
                match question.is_answered(doubtful.reply.now, doubtful.reply.data, stands).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => return Err(GaveUp::from(error).with_late(doubtful.late())),
                }
                if self.note_step(asks, args.verb, &question, doubtful.reply) || stands {
                    doubtful.keep();
                    return Ok(reply);
                }
            }
            doubtful.give_back_and_wait().await;
        }
    }

    async fn lease(&self, ask: &KeyAsk, lease: LeaseAsk<'_>) -> LeaseReply {
        let mut reply = LeaseReply::new(false, LeaseResult::NotSent);
        if self.ask_for_lease(ask, lease, &mut reply).await.is_err() {
            // A lease that it has granted by then is given back.
            (lease.on_late)();
            reply.is_in_time = false;
        }
        reply
    }

    async fn give_back_lease(
        &self,
        rest: &Unspent<KeyAsk>,
        node: u64,
    ) -> Result<Option<ReturnReply>, StoreError> {
        let asks = std::slice::from_ref(&rest.key);
        let mut question = CarryQuestion::of_units_that_come_back(self, asks);
        let mut reply = self.inner.give_back_lease(rest, node).await?;
        if let Some(reply) = &mut reply
            // If nothing came back, the store may have lost the lease, and other units as well.
            && reply.given_back == GivenBack::Back
            && question.waits_for_others().await.is_ok()
        {
            let replied = question.reply(reply.report.at, reply.data);
            let used = &mut reply.used;
            self.note_lease(&rest.key, &KnownUse::Nothing, reply.report, used, replied);
        }
        Ok(reply)
    }

    async fn undo(&self, asks: &[KeyAsk], args: StepArgs<'_>, reply: &StepReply) -> StepReply {
        let mut question = CarryQuestion::of_units_that_come_back(self, asks);
        let mut undone = self.inner.undo(asks, args, reply).await;
        if undone.data.server != 0 && args.at.is_none() && question.waits_for_others().await.is_ok()
        {
            let replied = question.reply(undone.now, undone.data);
            let taken = reply.replies.iter().map(|one| one.as_ref().map(|one| one.decided.taken));
            for ((ask, taken), one) in asks.iter().zip(taken).zip(&mut undone.replies) {
                let Some(one) = one else { continue };
                if let Some(token) = taken.and_then(|taken| taken.token) {
                    self.known.moved(ask, token, None, replied);
                } else if one.decided.settled != Settled::Late(ask.cost) {
                    // A store that has none of the units may have lost others as well.
                    self.note(ask, &KnownUse::Nothing, one, replied);
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
