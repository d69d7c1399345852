//! The verbs of a store over a node's link: messages, deadlines, and errors where no reply came.
//!
//! The layers of a node call them as they call the store that ships.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Timestamp;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use super::history::LayersEventKind;
use super::link::{Carried, StoreLink};
use super::plan::Trouble;
use super::sent::{SentStep, carry_known};
use crate::clock::Clock;
use crate::store::fake::FakeLimiters;
use crate::store::{
    GaveUp, Generation, GivenBack, Host, KeyAsk, KnownUse, Late, LeaseAsk, LeaseReply, LeaseResult,
    ReturnReply, StepArgs, StepReply, Store, StoreError, Unspent,
};

impl StoreLink {
    /// Asks the store in a task of its own, and waits until the deadline. Returns the channel of a reply after that.
    async fn ask_by<T: Send + 'static>(
        &self,
        ask: &KeyAsk,
        deadline: Instant,
        act: impl FnOnce(&Self, &mut FakeLimiters, Timestamp) -> T + Send + 'static,
    ) -> Result<Result<T, StoreError>, oneshot::Receiver<T>> {
        let (tell, mut replied) = oneshot::channel();
        let (link, ask) = (self.clone(), ask.clone());
        let server = self.world().server();
        // In a task, so that the message goes on when its caller gives up.
        drop(tokio::spawn(async move {
            let act = |limiters: &mut FakeLimiters, now: Timestamp| act(&link, limiters, now);
            if let Carried::Came(result) = link.carry(&ask, server, act).await {
                // An error means that no caller waits for it any more.
                let _ = tell.send(result);
            }
        }));
        match timeout_at(deadline, &mut replied).await {
            Ok(Ok(result)) => Ok(Ok(result)),
            Ok(Err(_)) => Ok(Err(unreachable())),
            Err(_) => Err(replied),
        }
    }
}

fn unreachable() -> StoreError {
    StoreError::Unreachable("the connection was lost".to_owned())
}

impl Store for StoreLink {
    async fn step(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Result<StepReply, GaveUp> {
        let Some(first) = asks.first() else { return Ok(StepReply::nothing(0, self.host().now())) };
        if self.knows_away(first) {
            return Err(StoreError::Away.into());
        }
        let (tell, mut replied) = oneshot::channel();
        let step = SentStep::new(asks, args, self.world().server());
        drop(tokio::spawn(step.send(self.clone(), tell)));
        match timeout_at(args.deadline, &mut replied).await {
            Ok(Ok(delivered)) => delivered.take().ok_or_else(|| unreachable().into()),
            Ok(Err(_)) => Err(unreachable().into()),
            Err(_) => {
                // Kept units are taken from the reply when it comes. Else `replied` is dropped, and the reply gives
                // them back.
                let late = Late::new(move |is_kept| {
                    if is_kept {
                        tokio::spawn(
                            async move { replied.await.map(|delivered| delivered.take()) },
                        );
                    }
                });
                Err(GaveUp { late, ..GaveUp::from(StoreError::Timeout) })
            }
        }
    }

    async fn undo(&self, asks: &[KeyAsk], args: StepArgs<'_>, reply: &StepReply) -> StepReply {
        let Some(sent) = reply.receipt().and_then(|receipt| receipt.get::<Arc<SentStep>>()) else {
            return StepReply::nothing(asks.len(), args.at.unwrap_or_default());
        };
        sent.undo(self, reply).await
    }

    async fn lease(&self, ask: &KeyAsk, lease: LeaseAsk<'_>) -> LeaseReply {
        if self.knows_away(ask) {
            return LeaseReply::new(false, LeaseResult::NotSent);
        }
        let LeaseAsk { wanted, node, on_late, known } = lease;
        let (wanted, of, known) = (*wanted, ask.clone(), known.clone());
        let take = move |link: &Self, limiters: &mut FakeLimiters, now: Timestamp| {
            let data = carry_known(link, limiters, (from_ref(&of), from_ref(&known)), now);
            if data.is_lost {
                return LeaseReply { data, ..LeaseReply::new(true, LeaseResult::Undecided) };
            }
            let known = &KnownUse::Nothing;
            let asked = LeaseAsk { wanted: &wanted, node, on_late: &|| (), known };
            let reply = limiters.lease(link.policy(), &of, asked, now);
            let reply = LeaseReply { data, ..reply };
            if let LeaseResult::Decided(_, Some([since, end])) = reply.result {
                let (node, ticket, units) = (link.wire.node, wanted.ticket, wanted.units);
                let ends = link.world().passed_us() + end.since(since).as_micros();
                let revision = limiters.revision(&of);
                let granted = LayersEventKind::Granted { node, ticket, units, ends, revision };
                link.world().note(&of, granted);
            }
            reply
        };
        match self.ask_by(ask, self.host().deadline(), take).await {
            Ok(replied) => replied.unwrap_or_else(|_| LeaseReply::new(true, LeaseResult::Unknown)),
            Err(late) => {
                on_late();
                let unknown = |_| LeaseReply::new(true, LeaseResult::Unknown);
                LeaseReply { is_in_time: false, ..late.await.unwrap_or_else(unknown) }
            }
        }
    }

    async fn give_back_lease(
        &self,
        rest: &Unspent<KeyAsk>,
        node: u64,
    ) -> Result<Option<ReturnReply>, StoreError> {
        if self.knows_away(&rest.key) {
            return Err(StoreError::Away);
        }
        let of = rest.clone();
        let give = move |link: &Self, limiters: &mut FakeLimiters, now: Timestamp| {
            let had = limiters.leased(&of, node);
            let reply = limiters.give_back_lease(link.policy(), &of, node, now);
            if let Some((units, at)) = had
                && limiters.leased(&of, node).is_some_and(|(left, _)| left < units)
            {
                let (node, ticket, units) = (link.wire.node, of.ticket, of.units);
                let is_late = reply.given_back == GivenBack::TooLate;
                let drained = link.world().drained(&of.key, units, Some(at.minus(of.earlier)));
                let returned = LayersEventKind::Returned { node, ticket, units, is_late, drained };
                link.world().note(&of.key, returned);
            }
            reply
        };
        let given_back = self.ask_by(&rest.key, self.host().deadline(), give).await;
        given_back.unwrap_or(Err(StoreError::Timeout)).map(Some)
    }

    fn under(&self, generation: &Arc<Generation>) -> Self {
        self.with(generation)
    }

    fn host(&self) -> &Host {
        &self.wire.host
    }

    /// Waits while no message about any slot comes through.
    async fn fit(&self) {
        let (world, node) = (self.world(), self.wire.node);
        let kinds = [Trouble::Away, Trouble::Frozen];
        while let Some(trouble) = kinds.iter().find_map(|kind| world.trouble(*kind, node, None)) {
            let left_ms = trouble.to - world.passed_us() / 1_000;
            sleep(Duration::from_millis(left_ms)).await;
        }
    }

    fn slot(&self, ask: &KeyAsk) -> Option<u16> {
        self.slot_of(ask)
    }
}
