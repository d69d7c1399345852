//! Units of leases are given back in the background: once, and as soon as the store can be asked.

use std::future::poll_fn;
use std::pin::pin;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use tidegate_core::{Limit, Spec};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use super::KeyAsk;
use super::leases::Lost;
use super::store::Store;
use super::take_leases::report;
use crate::lease::Unspent;
use crate::step::Lineage;
use crate::store::redis::script::{Answer, Call, GivenBack, LeaseRecord, NewerValues, Reply};
use crate::store::redis::{heard, lease_key};

/// How long the end of a gate may wait for its leases to be given back, beside the deadline of the store.
const AT_THE_END: Duration = Duration::from_millis(500);
/// How long units are still given back when the gate was dropped: the store's thread ends after that.
const AFTER_THE_END: Duration = Duration::from_secs(1);
/// How often other values may decide while units are given back.
pub(super) const MOST_CHANGES: u32 = 16;
/// The first pause before giving back is tried again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

impl Store {
    /// Gives back what is left of a lease, and ends it.
    pub(super) async fn end_lease(&self, rest: &Unspent<KeyAsk>) {
        if rest.units > 0 {
            self.give_back_lease(rest).await;
        }
        self.finish(rest);
    }

    /// Ends a lease of which no reply says whether it was granted. If it was, the store gets its units back.
    pub(super) async fn end_unknown_lease(&self, rest: &Unspent<KeyAsk>) {
        if let Ok(()) = self.given_back(rest).await {
            let calls = self.leases.calls();
            calls.units_late.fetch_add(rest.units, Relaxed);
            calls.given_back(rest.units, Ok(()));
        }
        self.finish(rest);
    }

    fn finish(&self, rest: &Unspent<KeyAsk>) {
        let leases = &self.leases;
        leases.book().finished(leases.clock.now(), &rest.key, rest.ticket);
    }

    /// Gives units of a lease back, and counts what became of them.
    pub(super) async fn give_back_lease(&self, rest: &Unspent<KeyAsk>) {
        let result = self.given_back(rest).await;
        self.leases.calls().given_back(rest.units, result);
        if result.is_ok() {
            self.wake(from_ref(&rest.key));
        }
    }

    /// Gives units of a lease back, as soon as the store can be asked and as long as they count. It is asked again until
    /// it replies, because the record of the lease makes that safe.
    async fn given_back(&self, rest: &Unspent<KeyAsk>) -> Result<(), Lost> {
        let _under_way = self.leases.under_way();
        let rule = rest.key.rule_in(self.policy()).ok_or(Lost::Changed)?;
        let until = Instant::now() + counts_for(rule.spec());
        let mut back = pin!(self.ask_until_back(rest));
        let mut ended = pin!(async {
            self.leases.dropped().await;
            sleep(AFTER_THE_END).await;
        });
        let back = poll_fn(|context| match back.as_mut().poll(context) {
            Poll::Pending if ended.as_mut().poll(context).is_ready() => {
                Poll::Ready(Err(Lost::NoReply))
            }
            polled => polled,
        });
        let result = timeout_at(until, back).await.unwrap_or(Err(Lost::NoReply));
        self.forget_denials(from_ref(&rest.key));
        result
    }

    async fn ask_until_back(&self, rest: &Unspent<KeyAsk>) -> Result<(), Lost> {
        let ask = rest.key.costing(rest.units);
        let limiters = self.limiters(from_ref(&ask), &[], &[]);
        let (record, kept) = (self.lease_record(&ask, rest.ticket), (rest.kept, rest.earlier));
        let (mut newer, mut pause) = (NewerValues::default(), PAUSES.0);
        let mut changes = 0;
        loop {
            self.client.fit().await;
            let limiters = newer.limiters(&limiters);
            let limiter = limiters.first().ok_or(Lost::Changed)?;
            let call = Arc::new(Call::give_back_lease(limiter, &record, kept, None));
            let turn = self.leases.turn_to_give_back().await;
            let replied = heard(self.client.ask(&call, 0, self.client.deadline()).await);
            drop(turn);
            let reply = match replied {
                Ok(delivered) => delivered.reply,
                Err(no_reply) if no_reply.error.is_of_other_layout() => Reply::Nil,
                Err(_) => {
                    sleep(pause).await;
                    pause = (pause * 2).min(PAUSES.1);
                    continue;
                }
            };
            match call.answer(&limiters, &reply) {
                Ok(Answer::Decided(done)) => {
                    if let Some(report) = report(&done) {
                        let leases = &self.leases;
                        leases.book().reported(leases.clock.now(), &ask, report);
                    }
                    return match done.lease_given_back() {
                        GivenBack::Back => Ok(()),
                        GivenBack::TooLate => Err(Lost::TooLate),
                        GivenBack::NotTaken => Err(Lost::NotTaken),
                    };
                }
                // A changed limit alone changes nothing of what was taken. Values that go on changing stop it.
                Ok(Answer::Superseded(found))
                    if found.count_as(&limiters) && changes < MOST_CHANGES =>
                {
                    changes += 1;
                    newer = newer.and(found);
                }
                _ => return Err(Lost::Changed),
            }
        }
    }

    /// The lease of this node with this ticket, in the record of the limiter.
    pub(super) fn lease_record(&self, ask: &KeyAsk, ticket: u64) -> LeaseRecord {
        let key = lease_key(&self.client.settings().key_prefix, &ask.fingerprint);
        LeaseRecord::new(key, self.leases.node(), ticket)
    }

    /// Gives back the leases of these rules in the background, because others were put in force.
    pub(super) fn give_back_leases(&self, of: &[Lineage]) {
        let is_of = |key: &KeyAsk| of.iter().any(|rule| rule.is_of_rule(key.lineage));
        drop(self.end_all(self.leases.close(is_of)));
    }

    /// Gives back the leases of limiters that are reset, in the background: before the reset, and those that were granted
    /// since. The reset forgets what was taken before, so nothing of that comes back.
    pub(super) fn reset_leases(&self, asks: &[KeyAsk]) {
        drop(self.end_all(self.leases.close(|key| asks.contains(key))));
    }

    /// Takes no more leases, and gives back all there are, as far as the store does that soon.
    pub(super) async fn end_leases(&self) {
        let deadline = self.client.deadline() + AT_THE_END;
        for returned in self.end_all(self.leases.end()) {
            let _ = timeout_at(deadline, returned).await;
        }
        let _ = timeout_at(deadline, self.leases.none_under_way()).await;
    }

    fn end_all(&self, all: Vec<Unspent<KeyAsk>>) -> Vec<JoinHandle<()>> {
        let end = |mut rest: Unspent<KeyAsk>| {
            let (store, key) = (self.clone(), &mut rest.key);
            // The leases may be of a policy in which the rule has another number.
            key.rule = self.generation.number_of(key).unwrap_or(key.rule);
            self.client.runtime().spawn(async move { store.end_lease(&rest).await })
        };
        all.into_iter().map(end).collect()
    }
}

/// Returns how long units of a rule count at most.
fn counts_for(spec: &Spec) -> Duration {
    let window = spec.window.unwrap_or_default();
    let Limit::Units(limit @ 1..) = spec.limit else { return window };
    let fills = spec.capacity.unwrap_or(limit).div_ceil(limit).max(2);
    window.saturating_mul(u32::try_from(fills).unwrap_or(u32::MAX))
}
