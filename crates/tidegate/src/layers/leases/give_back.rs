//! Units of leases are given back in the background: once, and as soon as the store can be asked.

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
use crate::lease::{GivenBack, Unspent};
use crate::step::Lineage;
use crate::store::{GaveUp, KeyAsk, StepArgs, StepReply, Store};

/// The time for which the end of a gate may wait for its leases to be given back, in addition to the deadline of the store.
const AT_THE_END: Duration = Duration::from_millis(500);
/// The time for which units are still given back when the gate was dropped: the store's thread ends after that.
const AFTER_THE_END: Duration = Duration::from_secs(1);
/// The first pause before giving back is tried again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

impl<S: Store> Leases<S> {
    /// Gives back the unspent units of a lease, and ends it.
    pub(super) async fn end_lease(&self, rest: &Unspent<KeyAsk>) {
        if rest.units > 0 {
            self.give_back_lease(rest).await;
        }
        self.finish(rest);
    }

    /// Ends a lease whose grant is unknown, because no reply came. If it was granted, the store gets its units back.
    pub(super) async fn end_unknown_lease(&self, rest: &Unspent<KeyAsk>) {
        if let Ok(()) = self.given_back(rest).await {
            let calls = self.state.calls();
            calls.units_late.fetch_add(rest.units, Relaxed);
            calls.given_back(rest.units, Ok(()));
        }
        self.finish(rest);
    }

    fn finish(&self, rest: &Unspent<KeyAsk>) {
        let state = &self.state;
        state.book().finished(self.inner.host().uptime(), &rest.key, rest.ticket);
    }

    /// Gives units of a lease back, and counts their fate.
    pub(super) async fn give_back_lease(&self, rest: &Unspent<KeyAsk>) {
        let result = self.given_back(rest).await;
        self.state.calls().given_back(rest.units, result);
    }

    /// Gives units of a lease back, as soon as the store can be asked and as long as they count. It is asked again until
    /// it replies, because the record of the lease makes that safe.
    async fn given_back(&self, rest: &Unspent<KeyAsk>) -> Result<(), Lost> {
        let _under_way = self.state.under_way();
        let rule = rest.key.rule_in(&self.generation.policy).ok_or(Lost::Changed)?;
        let until = Instant::now() + counts_for(rule.spec());
        let mut back = pin!(self.ask_until_back(rest));
        let mut ended = pin!(async {
            self.state.dropped().await;
            sleep(AFTER_THE_END).await;
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

    async fn ask_until_back(&self, rest: &Unspent<KeyAsk>) -> Result<(), Lost> {
        let mut pause = PAUSES.0;
        loop {
            self.inner.fit().await;
            let turn = self.state.turn_to_give_back().await;
            let given_back = self.inner.give_back_lease(rest, self.state.node()).await;
            drop(turn);
            match given_back {
                Ok(Some((given_back, report))) => {
                    self.state.book().reported(self.inner.host().uptime(), &rest.key, report);
                    return match given_back {
                        GivenBack::Back => Ok(()),
                        GivenBack::TooLate => Err(Lost::TooLate),
                        GivenBack::NotTaken => Err(Lost::NotTaken),
                    };
                }
                Ok(None) => return Err(Lost::Changed),
                Err(_) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                }
            }
        }
    }

    /// Gives back the leases of these rules in the background, because others were put in force.
    pub(super) fn give_back_leases(&self, of: &[Lineage]) {
        let closed = self.state.close(|key| of.iter().any(|rule| rule.is_of_rule(key.lineage)));
        drop(self.end_all(closed));
    }

    /// Resets limiters, and gives back their leases in the background: before the reset, and after it, because the store
    /// may grant other leases until then. The reset forgets units taken before, so none of them comes back.
    pub(super) async fn reset(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
    ) -> Result<StepReply, GaveUp> {
        drop(self.end_all(self.state.close(|key| asks.contains(key))));
        let done = self.inner.step(asks, args).await;
        drop(self.end_all(self.state.close(|key| asks.contains(key))));
        done
    }

    /// Takes no more leases, and gives back all there are, as far as the store does that soon.
    pub(super) async fn end_leases(&self) {
        let deadline = self.inner.host().deadline() + AT_THE_END;
        for returned in self.end_all(self.state.end()) {
            let _ = timeout_at(deadline, returned).await;
        }
        let _ = timeout_at(deadline, self.state.none_under_way()).await;
    }

    fn end_all(&self, all: Vec<Unspent<KeyAsk>>) -> Vec<JoinHandle<()>> {
        let mut tasks = Vec::with_capacity(all.len());
        for mut rest in all {
            // The leases may be of a policy in which the rule has another number.
            rest.key.rule = self.generation.number_of(&rest.key).unwrap_or(rest.key.rule);
            let layer = self.clone();
            tasks.push(self.inner.host().spawn(async move { layer.end_lease(&rest).await }));
        }
        tasks
    }
}

/// Returns how long units of a rule count at most.
fn counts_for(spec: &Spec) -> Duration {
    let window = spec.window.unwrap_or_default();
    let Limit::Units(limit @ 1..) = spec.limit else { return window };
    let fills = spec.capacity.unwrap_or(limit).div_ceil(limit).max(2);
    window.saturating_mul(u32::try_from(fills).unwrap_or(u32::MAX))
}
