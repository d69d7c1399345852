//! Steps on their way to the store, and replies that give back their units unless a caller hears them.
//!
//! The link sends one for each step; it runs the step where the limiters are, and notes in the history the fate of
//! its units.

use std::sync::Arc;

use tidegate_core::{Micros, Timestamp, Token};
use tokio::sync::oneshot::Sender;

use super::history::{LayersEventKind, LayersLossCause, PermitStep};
use super::link::{Carried, StoreLink};
use super::world::FIRST;
use crate::request::Origin;
use crate::store::fake::FakeLimiters;
use crate::store::{
    KeyAsk, KnownUse, LimiterReply, Receipt, StepArgs, StepReply, StoredData, Verb,
};

/// A step that is sent, with everything that belongs to it. The source of its origin is the number of its request.
pub(super) struct SentStep {
    asks: Vec<KeyAsk>,
    verb: Verb,
    request: u64,
    actual: Vec<u64>,
    costs: Vec<u64>,
    leased: Vec<Option<Micros>>,
    known: Vec<KnownUse>,
    /// The store that it is sent to.
    server: u64,
}

impl SentStep {
    pub(super) fn new(asks: &[KeyAsk], args: StepArgs<'_>, server: u64) -> Self {
        let (actual, costs) = (args.actual.to_vec(), args.costs.to_vec());
        let leased = args.leased.to_vec();
        let known = args.known.to_vec();
        let request = args.origin.source;
        Self { asks: asks.to_vec(), verb: args.verb, request, actual, costs, leased, known, server }
    }

    /// Runs the step in the store, and notes the units it takes.
    fn run(&self, link: &StoreLink, limiters: &mut FakeLimiters, now: Timestamp) -> StepReply {
        let Self { asks, verb, actual, costs, leased, known, .. } = self;
        // The deadline is the caller's: the store decides a message that comes late all the same.
        let args = StepArgs::new(*verb, Origin::default(), tokio::time::Instant::now());
        let data = carry_known(link, limiters, (asks, known), now);
        if data.is_lost {
            return StepReply { data, ..StepReply::nothing(asks.len(), now) };
        }
        let args = StepArgs { actual, costs, leased, ..args };
        let reply = StepReply { data, ..limiters.step(link.policy(), asks, args, now) };
        if *verb == Verb::Reset {
            asks.iter().for_each(|ask| link.world().note(ask, LayersEventKind::Reset));
        }
        for (place, one) in reply.replies.iter().enumerate() {
            let (Some(one), Some(ask)) = (one, asks.get(place)) else { continue };
            match verb {
                Verb::Settle => self.note_settled(link, place, one),
                Verb::Ask if reply.allowed && one.decided.decision.is_allowed() => {
                    let (request, units) = (self.request, ask.cost);
                    link.world().note(ask, LayersEventKind::Taken { request, units });
                }
                _ => {}
            }
            if let Some(step) = self.on_permits(ask, reply.allowed, one.decided.taken.token)
                && link.world().has_permits(ask)
            {
                link.world().note_permit(ask, step, limiters, now);
            }
        }
        if matches!(verb, Verb::Ask | Verb::Peek) {
            asks.iter().for_each(|ask| link.world().note_used(ask, limiters, now));
        }
        reply
    }

    /// The step on permits that the judge follows; `None` if nothing is to follow.
    fn on_permits(&self, ask: &KeyAsk, allowed: bool, taken: Option<Token>) -> Option<PermitStep> {
        let units = ask.cost;
        match self.verb {
            Verb::Ask => Some(PermitStep::Asked { units, token: taken.filter(|_| allowed) }),
            Verb::Renew => Some(PermitStep::Renewed { token: ask.taken.token?, is_out: allowed }),
            Verb::Settle => Some(PermitStep::Returned { units, token: ask.taken.token? }),
            Verb::Peek | Verb::Reset => None,
        }
    }

    fn note_settled(&self, link: &StoreLink, place: usize, one: &LimiterReply) {
        let (ask, actual) = (&self.asks[place], self.actual[place]);
        let settled = one.decided.settled;
        let (late, cut) = (settled.late_units(), settled.cut_units());
        let back = ask.cost.saturating_sub(actual) - late;
        let more = actual.saturating_sub(ask.cost) - cut;
        let earlier = self.leased.get(place).copied().flatten().unwrap_or_default();
        let since = ask.taken.since.map(|since| since.minus(earlier));
        let drained = link.world().drained(ask, back, since);
        let request = self.request;
        link.world()
            .note(ask, LayersEventKind::Settled { request, back, late, more, cut, drained });
    }

    /// Notes that the units of the step will neither reach a caller nor come back.
    fn note_gone(&self, link: &StoreLink, reply: &StepReply, why: LayersLossCause) {
        for (ask, one) in self.asks.iter().zip(&reply.replies) {
            let took = |one: &LimiterReply| one.decided.decision.is_allowed();
            if self.verb == Verb::Ask && reply.allowed && one.as_ref().is_some_and(took) {
                let (request, units) = (self.request, ask.cost);
                link.world()
                    .note(ask, LayersEventKind::Gone { request, units, why: link.lost_by(why) });
            }
        }
    }

    /// Gives back the units of the step in the store.
    fn undo_in(
        &self,
        link: &StoreLink,
        reply: &StepReply,
        limiters: &mut FakeLimiters,
        now: Timestamp,
    ) -> StepReply {
        let undone = limiters.undo(link.policy(), &self.asks, &self.leased, reply, now);
        for (place, one) in undone.replies.iter().enumerate() {
            let Some(one) = one else { continue };
            let (ask, request) = (&self.asks[place], self.request);
            let earlier = self.leased.get(place).copied().flatten().unwrap_or_default();
            let taken = reply.replies.get(place).and_then(Option::as_ref);
            let since =
                taken.and_then(|one| one.decided.taken.since).map(|since| since.minus(earlier));
            let late = one.decided.settled.late_units();
            let drained = link.world().drained(ask, ask.cost - late, since);
            let units = ask.cost - late;
            link.world().note(ask, LayersEventKind::Undone { request, units, drained });
            if let Some(token) = taken.and_then(|one| one.decided.taken.token) {
                let returned = PermitStep::Returned { units: ask.cost, token };
                link.world().note_permit(ask, returned, limiters, now);
            }
            if late > 0 {
                let gone =
                    LayersEventKind::Gone { request, units: late, why: LayersLossCause::TooLate };
                link.world().note(ask, gone);
            }
        }
        undone
    }

    /// Gives back the units of the step, if the message comes through.
    pub(super) async fn undo(&self, link: &StoreLink, reply: &StepReply) -> StepReply {
        let nothing = StepReply::nothing(self.asks.len(), reply.now);
        let Some(first) = self.asks.first().filter(|_| reply.allowed) else { return nothing };
        let act =
            |limiters: &mut FakeLimiters, now: Timestamp| self.undo_in(link, reply, limiters, now);
        // A replica that took the place of the store counts the units that the store took before.
        if self.server < link.world().server() {
            self.note_gone(link, reply, LayersLossCause::NotUndone);
            return nothing;
        }
        let undone = match link.carry(first, self.server, act).await {
            Carried::Came(undone) => undone,
            Carried::Unheard(_) => nothing,
            Carried::NotThere => {
                self.note_gone(link, reply, LayersLossCause::NotUndone);
                nothing
            }
        };
        // In any case, because the node cannot know if they are back.
        link.units_are_back(&self.asks);
        undone
    }

    /// Sends the step, and passes its reply on. A caller hears an error if there is none.
    pub(super) async fn send(self, link: StoreLink, tell: Sender<ReplyAtNode>) {
        let Some(first) = self.asks.first() else { return };
        let act = |limiters: &mut FakeLimiters, now: Timestamp| self.run(&link, limiters, now);
        match link.carry(first, self.server, act).await {
            Carried::Came(reply) => {
                let step = Arc::new(self);
                let reply = reply.with_receipt(Receipt::new(Arc::clone(&step)));
                // If no caller waits for it any more, it gives back its units.
                let _ = tell.send(ReplyAtNode { link, step, reply: Some(reply) });
            }
            Carried::Unheard(reply) => self.note_gone(&link, &reply, LayersLossCause::Unanswered),
            // The caller hears an error, because `tell` is dropped.
            Carried::NotThere => {}
        }
    }
}

/// Lets the store take over the units that are carried, and notes them.
pub(super) fn carry_known(
    link: &StoreLink,
    limiters: &mut FakeLimiters,
    (asks, known): (&[KeyAsk], &[KnownUse]),
    now: Timestamp,
) -> StoredData {
    let states = asks.iter().map(|ask| (limiters.used(ask, now), limiters.last(ask, now)));
    let before: Vec<_> = states.collect();
    let data = limiters.carry(link.policy(), asks, known, now);
    for (ask, (used, last_before)) in asks.iter().zip(before) {
        let units = limiters.used(ask, now).saturating_sub(used);
        let last = limiters.last(ask, now);
        if units > 0 || last != last_before {
            let last = last.since(FIRST).as_micros();
            link.world().note(ask, LayersEventKind::Carried { units, last });
        }
    }
    data
}

/// A reply at the node. If it is dropped, the units that it granted are given back.
pub(super) struct ReplyAtNode {
    link: StoreLink,
    step: Arc<SentStep>,
    reply: Option<StepReply>,
}

impl ReplyAtNode {
    /// The reply, for a caller who hears it.
    pub(super) fn take(mut self) -> Option<StepReply> {
        // Nothing is left for `drop` to give back.
        self.reply.take()
    }
}

impl Drop for ReplyAtNode {
    fn drop(&mut self) {
        // Only such a step has taken units that a caller would have had.
        let Some(reply) = self.reply.take().filter(|_| self.step.verb == Verb::Ask) else { return };
        let (link, step) = (self.link.clone(), Arc::clone(&self.step));
        tokio::spawn(async move { step.undo(&link, &reply).await });
    }
}
