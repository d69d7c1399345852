//! Units of leases are given back in the background: once, and as soon as the store can be asked.
//!
//! There are four ways in, and all go through one loop, `ask_until_answered`:
//! - `end_lease`: one lease has ended. `give_back_units` does the same for a part of a lease that goes on.
//! - `end_unknown_lease`: one lease has ended, and no reply has said whether it was granted.
//! - `close_leases_of_rules` and `reset`: rules were replaced, or limiters are reset.
//! - `shut_down`: the gate closes.

use std::future::poll_fn;
use std::pin::pin;
use std::slice::from_ref;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::{Limit, Spec};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::Leases;
use super::state::Lost;
use crate::step::Lineage;
use crate::store::{GaveUp, GivenBack, KeyAsk, StepArgs, StepReply, Store, Unspent};

/// The time for which a gate that closes may wait for its leases to be given back, in addition to the deadline of the
/// store.
const WAIT_OF_A_CLOSING_GATE: Duration = Duration::from_millis(500);
/// The time for which units are still given back after the gate was dropped: the store's thread ends after that.
const TIME_AFTER_THE_GATE: Duration = Duration::from_secs(1);
/// The pause before the store is asked for the second time. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl<S: Store> Leases<S> {
    /// Gives back the unspent units of a lease, and ends it.
    pub(super) async fn end_lease(&self, rest: &Unspent<KeyAsk>) {
        if rest.units > 0 {
            self.give_back_units(rest).await;
        }
        self.state.book().finished(self.inner.host().uptime(), &rest.key, rest.ticket);
    }

    /// Ends a lease whose grant is unknown, because no reply came. If it was granted, the store gets its units back.
    /// A failure is not counted, because the units of a lease that was never granted are not lost.
    pub(super) async fn end_unknown_lease(&self, rest: &Unspent<KeyAsk>) {
        if let Ok(()) = self.try_while_units_count(rest).await {
            let calls = &self.state.held.calls;
            calls.units_late.fetch_add(rest.units, Relaxed);
            calls.given_back(rest.units, Ok(()));
        }
        self.state.book().finished(self.inner.host().uptime(), &rest.key, rest.ticket);
    }

    /// Gives units of a lease back, and counts their fate.
    pub(super) async fn give_back_units(&self, rest: &Unspent<KeyAsk>) {
        let result = self.try_while_units_count(rest).await;
        self.state.held.calls.given_back(rest.units, result);
    }

    /// Gives units of a lease back, as long as they count, and for a short time after the gate was dropped.
    async fn try_while_units_count(&self, rest: &Unspent<KeyAsk>) -> Result<(), Lost> {
        let _under_way = self.state.under_way();
        let rule = rest.key.rule_in(&self.generation.policy).ok_or(Lost::Changed)?;
        let until = Instant::now() + counts_for(rule.spec());
        let mut back = pin!(self.ask_until_answered(rest));
        let mut ended = pin!(async {
            let mut is_dropped = self.state.held.is_dropped.subscribe();
            // The sender lives as long as this future.
            let _ = is_dropped.wait_for(|is_dropped| *is_dropped).await;
            sleep(TIME_AFTER_THE_GATE).await;
        });
        // A result that is there counts, even if the gate was dropped in the same moment.
        let back = poll_fn(|context| match back.as_mut().poll(context) {
            Poll::Pending if ended.as_mut().poll(context).is_ready() => {
                Poll::Ready(Err(Lost::NoReply))
            }
            polled => polled,
        });
        let result = timeout_at(until, back).await.unwrap_or(Err(Lost::NoReply));
        // After an error it is not known if units came back.
        (self.handles.on_units_back)(from_ref(&rest.key));
        result
    }

    /// Asks the store as soon as it can be asked, and again until it replies: the record of the lease makes that safe.
    async fn ask_until_answered(&self, rest: &Unspent<KeyAsk>) -> Result<(), Lost> {
        let mut pause = FIRST_PAUSE;
        loop {
            self.inner.fit().await;
            let turn = self.state.held.giving_back.acquire().await;
            let given_back = self.inner.give_back_lease(rest, self.state.held.node).await;
            drop(turn);
            match given_back {
                Ok(Some(reply)) => {
                    self.state.book().reported(self.inner.host().uptime(), &rest.key, reply.report);
                    return match reply.given_back {
                        GivenBack::Back => Ok(()),
                        GivenBack::TooLate => Err(Lost::TooLate),
                        GivenBack::NotTaken => Err(Lost::NotTaken),
                    };
                }
                Ok(None) => return Err(Lost::Changed),
                Err(_) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Gives back the leases of these rules in the background, because other rules were put in force.
    pub(super) fn close_leases_of_rules(&self, rules: &[Lineage]) {
        let closed = self.state.close(|key| rules.iter().any(|rule| rule.is_of_rule(key.lineage)));
        drop(self.spawn_end_of_each(closed));
    }

    /// Resets limiters, and gives back their leases in the background: before the reset, and after it, because the store
    /// may grant other leases until then. The reset forgets units taken before, so none of them comes back.
    pub(super) async fn reset(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
    ) -> Result<StepReply, GaveUp> {
        drop(self.spawn_end_of_each(self.state.close(|key| asks.contains(key))));
        let done = self.inner.step(asks, args).await;
        drop(self.spawn_end_of_each(self.state.close(|key| asks.contains(key))));
        done
    }

    /// Takes no more leases, and gives back all leases, as far as the store replies in time.
    pub(super) async fn shut_down(&self) {
        let deadline = self.inner.host().deadline() + WAIT_OF_A_CLOSING_GATE;
        for returned in self.spawn_end_of_each(self.state.end()) {
            let _ = timeout_at(deadline, returned).await;
        }
        let mut under_way = self.state.held.under_way.subscribe();
        let _ = timeout_at(deadline, under_way.wait_for(|count| *count == 0)).await;
    }

    /// Ends each of these leases in a task.
    fn spawn_end_of_each(&self, all: Vec<Unspent<KeyAsk>>) -> Vec<JoinHandle<()>> {
        let mut tasks = Vec::with_capacity(all.len());
        for mut rest in all {
            // The leases may be of a policy in which the rule has another number.
            rest.key.rule = self.generation.number_of(rest.key.lineage).unwrap_or(rest.key.rule);
            let layer = self.clone();
            tasks.push(self.inner.host().spawn(async move { layer.end_lease(&rest).await }));
        }
        tasks
    }
}

/// Returns how long units of a rule count at most: until a full level has drained. It is at least two windows, because a
/// sliding counter also weighs the units of the window before.
fn counts_for(spec: &Spec) -> Duration {
    let window = spec.window.unwrap_or_default();
    let Limit::Units(limit @ 1..) = spec.limit else { return window };
    let fills = spec.capacity.unwrap_or(limit).div_ceil(limit).max(2);
    window.saturating_mul(u32::try_from(fills).unwrap_or(u32::MAX))
}
