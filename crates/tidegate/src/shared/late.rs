//! Late replies, for which no caller waits any more: the units they took are given back as of the time of the
//! reply.

use std::pin::Pin;
use std::slice::from_ref;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tidegate_core::{Timestamp, Token};
use tokio::sync::oneshot::{self, Receiver};
use tokio::time::{Instant, sleep};

use super::KeyAsk;
use super::store::{PendingStep, Store, is_report};
use crate::store::redis::script::{Answer, Call, Decided, Limiter, NewerValues, Reply, Step};
use crate::store::redis::{Client, Counts, LateReply, NoReply, StoreError, heard};

/// The longest time that giving back may wait for the store.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause before giving back is tried again while the store is unavailable.
const AGAIN: Duration = Duration::from_millis(10);

/// The units that a step took.
#[derive(Clone, Debug)]
pub(super) struct Took {
    /// The indices of the limiters that it took from.
    places: Vec<usize>,
    /// The tokens of their permits.
    tokens: Vec<Option<Token>>,
    /// The values that decided in place of the node's own, for each of these limiters.
    newer: NewerValues,
    /// For each of these limiters, since when its units count as taken.
    since: Vec<Timestamp>,
    /// The time in a replay.
    at: Option<Timestamp>,
}

impl Took {
    /// The units of one limiter, taken at `since`.
    pub(super) fn of_one(since: Timestamp) -> Self {
        Self {
            places: vec![0],
            tokens: vec![None],
            newer: NewerValues::default(),
            since: vec![since],
            at: None,
        }
    }
}

/// The reply of limiters that got units back, after their indices.
pub(super) type GivenBack = (Vec<usize>, Decided);

/// A call that was handed to the store. If it is dropped before the reply, the units it took are given back if
/// possible.
pub(super) struct Attempt<'a> {
    store: &'a Store,
    call: &'a Arc<Call>,
    pending: PendingStep<'a>,
    /// `None` after the reply.
    replied: Option<Receiver<Result<Reply, NoReply>>>,
}

impl<'a> Attempt<'a> {
    pub(super) const fn new(
        store: &'a Store,
        call: &'a Arc<Call>,
        pending: PendingStep<'a>,
        replied: Receiver<Result<Reply, NoReply>>,
    ) -> Self {
        Self { store, call, pending, replied: Some(replied) }
    }

    /// Returns whether units of an undelivered reply can be given back. Units of a report cannot, because they were
    /// used, nor units under a remembered id, because asking again returns the first reply.
    fn can_be_undone(&self) -> bool {
        let PendingStep { met, args, undoes, .. } = self.pending;
        undoes
            && args.step == Step::Ask
            && !is_report(met)
            && self.store.answer_key(met, args.origin.id).is_none()
            && met.iter().any(|met| met.cost > 0)
    }

    fn undo_late(&self, late: LateReply) {
        if !self.can_be_undone() {
            return;
        }
        let (keep, kept) = oneshot::channel();
        if let Some(late) = self.pending.args.late {
            late.note(keep);
        }
        let (store, call) = (self.store.clone(), Arc::clone(self.call));
        let (met, newer) =
            (self.pending.met.to_vec(), self.pending.newer.cloned().unwrap_or_default());
        self.store.client.runtime().spawn(async move {
            if let Ok(Ok(reply)) = late.await
                && kept.await.is_err()
            {
                store.undo(&met, newer, &call, &reply).await;
            }
        });
    }
}

impl Future for Attempt<'_> {
    type Output = Result<Reply, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(replied) = &mut self.replied else { return Poll::Ready(Err(StoreError::Away)) };
        let Poll::Ready(replied) = Pin::new(replied).poll(context) else { return Poll::Pending };
        self.replied = None;
        Poll::Ready(heard(replied).map_err(|NoReply { error, late }| {
            if let Some(late) = late {
                self.undo_late(late);
            }
            error
        }))
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let Some(replied) = self.replied.take().filter(|_| self.can_be_undone()) else { return };
        let (store, call) = (self.store.clone(), Arc::clone(self.call));
        let (met, newer) =
            (self.pending.met.to_vec(), self.pending.newer.cloned().unwrap_or_default());
        self.store.client.runtime().spawn(async move {
            let reply = match heard(replied.await) {
                Ok(reply) => Ok(reply),
                Err(NoReply { late: Some(late), .. }) => {
                    late.await.unwrap_or(Err(StoreError::Away))
                }
                Err(NoReply { error, late: None }) => Err(error),
            };
            if let Ok(reply) = reply {
                store.undo(&met, newer, &call, &reply).await;
            }
        });
    }
}

impl Store {
    /// Gives back the units a call took, as of the time of its reply. `by` are the values that decided in place
    /// of the node's own.
    async fn undo(&self, met: &[KeyAsk], newer: NewerValues, call: &Call, reply: &Reply) {
        let answer = call.answer(&newer.limiters(&self.limiters(met, &[], &[])), reply);
        let Ok(Answer::Decided(done)) = answer else { return };
        let done = done.decided_by(newer);
        let places: Vec<_> = (0..met.len()).collect();
        let Some(took) = self.took(met, &places, &done, None) else { return };
        if !self.give_back(met, &took).await.is_empty() {
            Counts::add(&self.client.counts().undone, 1);
            // The first waiter may have been refused these units.
            self.queues.wake_those(|queue| met.iter().any(|met| queue.is_of(met.lineage)));
        }
    }

    /// Returns what a step over the limiters at `places` took from them; `None` if it took nothing.
    pub(super) fn took(
        &self,
        met: &[KeyAsk],
        places: &[usize],
        done: &Decided,
        at: Option<Timestamp>,
    ) -> Option<Took> {
        if !done.allowed || done.repeated {
            return None;
        }
        let decided = places.iter().zip(&done.decisions).zip(&done.seen);
        let costs = |place: &usize| met.get(*place).is_some_and(|one| one.cost > 0);
        let took = decided.filter(|((place, one), _)| one.is_allowed() && costs(place));
        let (places, seen): (Vec<_>, Vec<_>) =
            took.map(|((place, _), seen)| (*place, seen)).unzip();
        let tokens = seen.iter().map(|seen| seen.token).collect();
        let newer = NewerValues::seen(seen.into_iter());
        let terms = |place: &usize| self.terms(met.get(*place)?);
        let since = |place| terms(place).map_or(done.now, |terms| terms.exact_from(done.now));
        let since = places.iter().map(since).collect();
        (!places.is_empty()).then_some(Took { places, tokens, newer, since, at })
    }

    /// Gives back what a step took. If the values of one of several limiters have changed since, that one keeps its
    /// units, and the others get theirs one by one; so do limiters whose units count since different times.
    pub(super) async fn give_back(&self, met: &[KeyAsk], took: &Took) -> Vec<GivenBack> {
        let of = |(place, token): (&usize, &Option<Token>)| {
            Some(KeyAsk { token: *token, ..met.get(*place)?.clone() })
        };
        let here: Vec<_> = took.places.iter().zip(&took.tokens).filter_map(of).collect();
        let given_back = self.give_back_here(&here, took).await;
        self.forget_denials(&here);
        given_back
    }

    async fn give_back_here(&self, here: &[KeyAsk], took: &Took) -> Vec<GivenBack> {
        let limiters = took.newer.limiters(&self.limiters(here, &[], &[]));
        let Some((since, others)) = took.since.split_first() else { return Vec::new() };
        if others.iter().all(|other| other == since) {
            match self.undone(&limiters, *since, took.at).await {
                Some(Answer::Decided(done)) => return vec![(took.places.clone(), done)],
                Some(_) if limiters.len() > 1 => {}
                _ => return Vec::new(),
            }
        }
        let mut all = Vec::new();
        for ((place, since), one) in took.places.iter().zip(&took.since).zip(&limiters) {
            if let Some(Answer::Decided(done)) = self.undone(from_ref(one), *since, took.at).await {
                all.push((vec![*place], done));
            }
        }
        all
    }

    /// Gives back to these limiters, all or none; `None` if the store did not reply.
    async fn undone(
        &self,
        limiters: &[Limiter<'_>],
        since: Timestamp,
        at: Option<Timestamp>,
    ) -> Option<Answer> {
        let call = Arc::new(Call::undo(limiters, since, at));
        let reply = match send_undo(&self.client, &call).await {
            Err(error) if error.is_of_other_layout() => Reply::Nil,
            reply => reply.ok()?,
        };
        call.answer(limiters, &reply).ok()
    }
}

/// Gives units back as soon as the store can be asked: a late reply may be the first sign of life of a store
/// that was unavailable.
///
/// # Errors
/// The store did not do it in time.
async fn send_undo(client: &Client, undo: &Arc<Call>) -> Result<Reply, StoreError> {
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
                return late.await.unwrap_or(Err(StoreError::Away));
            }
            replied => return replied.map_err(|NoReply { error, .. }| error),
        }
    }
}
