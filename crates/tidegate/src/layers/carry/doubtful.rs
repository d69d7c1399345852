//! A reply that may count for nothing: then its units are given back.

use std::mem;

use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::Carry;
use super::limiter::ReplyTimes;
use crate::request::Origin;
use crate::store::{KeyAsk, Late, StepArgs, StepReply, Store, Verb};

/// A reply that may stand or count for nothing. If it is dropped before that is known, because its caller is gone, its
/// units are given back as well.
pub(super) struct DoubtfulReply<'a, S: Store> {
    pub(super) layer: &'a Carry<S>,
    pub(super) asks: &'a [KeyAsk],
    pub(super) args: StepArgs<'a>,
    pub(super) replied: ReplyTimes,
    pub(super) reply: &'a mut StepReply,
    /// True if its units are given back when it does not stand.
    pub(super) comes_back: bool,
}

impl<S: Store> DoubtfulReply<'_, S> {
    /// Leaves the units to the caller.
    pub(super) fn keep(mut self) {
        self.comes_back = false;
    }

    /// Gives the units back, and waits for it until the deadline; it goes on after that.
    pub(super) async fn give_back_and_wait(mut self) {
        let host = self.layer.inner.host();
        let deadline = self.args.deadline;
        if let Some(undo) = self.undo() {
            let undone = host.spawn(undo);
            drop(host.spawn(async move { timeout_at(deadline, undone).await }).await);
        }
    }

    /// Leaves the units to an error: they are given back if it is dropped.
    pub(super) fn late(mut self) -> Late {
        let Some(undo) = self.undo() else { return Late::default() };
        let (keep, kept) = oneshot::channel();
        drop(self.layer.inner.host().spawn(async move {
            if kept.await.is_err() {
                undo.await;
            }
        }));
        Late::unless_sent(keep)
    }

    /// Returns the work that gives the units back at the limiters that still have them, if any do.
    fn undo(&mut self) -> Option<impl Future<Output = StepReply> + Send + use<S>> {
        if !mem::take(&mut self.comes_back) {
            return None;
        }
        for (ask, one) in self.asks.iter().zip(&mut self.reply.replies) {
            let is_overflow = one.as_ref().is_some_and(|one| one.decided.overflow);
            if is_overflow || self.layer.known.lacks(ask, &self.replied) {
                *one = None;
            }
        }
        if self.reply.replies.iter().all(Option::is_none) {
            return None;
        }
        let reply = mem::replace(self.reply, StepReply::nothing(0, self.replied.now));
        let inner = self.layer.inner.clone();
        let asks = self.asks.to_vec();
        let leased = self.args.leased.to_vec();
        let taken = StepArgs::new(Verb::Ask, Origin::default(), self.args.deadline);
        Some(async move { inner.undo(&asks, StepArgs { leased: &leased, ..taken }, &reply).await })
    }
}

impl<S: Store> Drop for DoubtfulReply<'_, S> {
    fn drop(&mut self) {
        if let Some(undo) = self.undo() {
            drop(self.layer.inner.host().spawn(undo));
        }
    }
}
