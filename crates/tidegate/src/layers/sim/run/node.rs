//! A node, and the callers that ask it: the tower of layers as a gate builds it, with clocks and a link of the
//! simulator.

mod holder;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate_rules::shared::Share;
use tokio::time::{sleep, timeout};

use super::super::clock::{MachineClocks, MachineSleep};
use super::super::history::{CallerAnswer, DecidedBy, LayersEventKind, NodeCounts};
use super::super::link::{StoreLink, revision_of};
use super::super::plan::{End, PlannedRequest, RequestKind, TIMEOUT_MS};
use super::super::world::{LayersWorld, NodeClock, locked};
use crate::clock::Clock;
use crate::key::Seed;
use crate::layers::{
    DenialMemory, Handles, Layer, LayerParts, Local, Lost, Tower, UntilDropped, tower_over,
};
use crate::request::Origin;
use crate::rules::PolicyErrors;
use crate::step::Standing;
use crate::store::memory::Newest;
use crate::store::{GaveUp, Host, KeyAsk, StepArgs, StepReply, Store, Verb};

/// A node: the tower that ships, over a link to the store.
pub(super) struct LayersNode {
    number: usize,
    /// Under the newest policy.
    newest: Newest<Tower<StoreLink>>,
    local: Arc<Local>,
    pub(super) clocks: Arc<Mutex<MachineClocks>>,
    pub(super) sleep: MachineSleep,
    link: StoreLink,
    until_dropped: Mutex<Option<UntilDropped>>,
}

impl LayersNode {
    pub(super) fn begin(world: &Arc<LayersWorld>, number: usize, is_changed: bool) -> Self {
        let plan = &world.plan;
        let policy = plan.policy(is_changed);
        let clocks = NodeClock::machine(plan.nodes[number].clock);
        // No clock that layers read is ever set.
        let read = MachineClocks::boot;
        let clock = NodeClock { began: world.began(), clocks: Arc::clone(&clocks), read };
        let sleep = MachineSleep::default();
        let host = Host::new(Duration::from_millis(TIMEOUT_MS)).with_clock(clock);
        let host = sleep.of_host(host);
        let local = Arc::new(Local::new(policy, Share::of(Some(plan.most_nodes)), host.clone()));
        let generation = local.memory.newest().without_tables();
        let denials = plan.repeats_denials.then(|| Arc::new(DenialMemory::with_seed(seed())));
        let on_units_back = {
            let denials = denials.clone();
            let host = host.clone();
            Arc::new(move |asks: &[KeyAsk]| {
                if let Some(denials) = &denials {
                    // Units came back, so a denial from before may be untrue.
                    denials.forget(asks, host.now());
                }
            })
        };
        let handles =
            Handles { on_units_back: Arc::clone(&on_units_back) as _, report: Arc::new(|_| ()) };
        let on_denied = Arc::new(|| ());
        // The number of nodes comes later, as from a store.
        let parts = LayerParts { local: Arc::clone(&local), denials, on_denied, nodes: 1, handles };
        let link =
            StoreLink::new(Arc::clone(world), number, host, Arc::clone(&generation), on_units_back);
        let tower = tower_over(link.clone(), &generation, parts);
        let until_dropped = Mutex::new(Some(tower.inner.inner.until_dropped()));
        Self { number, newest: Newest::new(tower), local, clocks, sleep, link, until_dropped }
    }

    /// Ends the node: it gives back the units that it holds, or no message of it comes through any more.
    pub(super) async fn end(&self, end: End) {
        match end {
            End::Leaves => self.sleep.clone().stand_still(self.tower().end()).await,
            End::Crashes => self.link.cut(),
        }
        locked(&self.until_dropped).take();
    }

    pub(super) fn tower(&self) -> Arc<Tower<StoreLink>> {
        self.newest.read().share()
    }

    /// Returns the callback for the number of nodes.
    pub(super) fn know_nodes(&self) -> impl Fn(u64) + use<> {
        let tower = self.tower();
        move |nodes| tower.inner.inner.nodes()(nodes)
    }

    /// Puts the second policy in force, as a gate does.
    pub(super) fn change(&self) {
        let changed = self.local.change(
            |_| -> Result<_, PolicyErrors> { Ok(self.link.world().plan.policy(true)) },
            |changed| {
                let before = self.tower();
                let generation = self.local.memory.newest().without_tables();
                self.newest.publish(|| before.under(&generation));
                before.superseded(changed);
            },
        );
        changed.expect("a policy of a plan is valid");
    }

    pub(super) fn account(&self) -> NodeCounts {
        let tower = self.tower();
        let leases = &tower.inner.inner;
        let (counts, calls) = (leases.counts(), leases.calls());
        NodeCounts {
            crashed: self.link.is_cut(),
            taken: counts.taken,
            spent: counts.spent,
            unspent: counts.unspent,
            returned: calls.returned.load(Relaxed),
            lost: calls.all_lost(),
            too_late: calls.lost(Lost::TooLate),
            not_taken: calls.lost(Lost::NotTaken),
            no_reply: calls.lost(Lost::NoReply),
            late: calls.units_late.load(Relaxed),
        }
    }

    /// Decides a request as a gate does: at once, if the store need not be asked.
    async fn ask(
        tower: &Tower<StoreLink>,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
    ) -> Result<StepReply, GaveUp> {
        let is_now = args.verb == Verb::Ask && !args.is_queued && tower.decides_now();
        let now = if is_now { tower.step_now(asks, args) } else { None };
        match now {
            Some(reply) => Ok(reply),
            None => tower.step(asks, args).await,
        }
    }

    /// One caller: asks, and settles its reservation.
    pub(super) async fn serve(&self, number: u64, request: &PlannedRequest) {
        let world = self.link.world();
        if let (RequestKind::Hold(job), [(limiter, cost)]) = (request.kind, &request.parts[..]) {
            return self.work(number, &world.ask(*limiter, *cost), job).await;
        }
        let asked = world.passed_us();
        let tower = &self.tower();
        let revision = revision_of(&self.local.memory.newest().policy);
        let is_reservation = matches!(request.kind, RequestKind::Reserve { .. });
        let of_part = |(limiter, cost): &(usize, u64)| KeyAsk {
            reserves: is_reservation,
            ..world.ask(*limiter, *cost)
        };
        let asks: Vec<_> = request.parts.iter().map(of_part).collect();
        let origin = Origin { id: None, source: number };
        let verb = if request.kind == RequestKind::Peek { Verb::Peek } else { Verb::Ask };
        let args = StepArgs::new(verb, origin, tower.host().deadline());
        let args = StepArgs { is_queued: request.kind == RequestKind::Queued, ..args };
        let reply = match request.kind {
            RequestKind::Reset => {
                // If no reply came, it is not known if it was done.
                let reset = StepArgs { verb: Verb::Reset, ..args };
                let _ = tower.step(&asks, reset).await;
                self.note_back(&asks, true);
                return;
            }
            RequestKind::Abandoned { after } => {
                let after = Duration::from_millis(after);
                let Ok(reply) = timeout(after, Self::ask(tower, &asks, args)).await else { return };
                reply
            }
            _ => Self::ask(tower, &asks, args).await,
        };
        // A caller of a crashed node hears nothing.
        if self.link.is_cut() {
            return;
        }
        let unavailable = |gave_up: GaveUp| StepReply::unavailable(asks.len(), &gave_up.error);
        let reply = reply.unwrap_or_else(unavailable);
        if verb == Verb::Peek {
            world.history().answers.insert(number, CallerAnswer::Nothing);
            return;
        }
        self.tell(tower, (number, asked, revision), &asks, &reply);
        if let RequestKind::Reserve { after, percent } = request.kind
            && reply.allowed
        {
            sleep(Duration::from_millis(after)).await;
            self.settle(tower, number, &asks, &reply, percent).await;
        }
    }

    fn note_back(&self, asks: &[KeyAsk], is_reset: bool) {
        let back = LayersEventKind::Back { node: self.number, is_reset };
        asks.iter().for_each(|ask| self.link.world().note(ask, back));
    }

    /// Notes which limiters denied a request that the store decided, or has decided before.
    fn note_denials(&self, asked: u64, asks: &[KeyAsk], reply: &StepReply) {
        for (ask, one) in asks.iter().zip(&reply.replies) {
            let Some(one) = one else { continue };
            if !one.decided.decision.is_allowed() && reply.standing == Standing::Exact {
                let (node, cost, is_repeated) = (self.number, ask.cost, !one.by_store);
                self.link
                    .world()
                    .note(ask, LayersEventKind::Denied { node, cost, asked, is_repeated });
            }
        }
    }

    /// Notes the answer to a caller.
    fn tell(
        &self,
        tower: &Tower<StoreLink>,
        (request, asked, revision): (u64, u64, u32),
        asks: &[KeyAsk],
        reply: &StepReply,
    ) {
        let world = self.link.world();
        let answered = match (reply.allowed, reply.standing) {
            (true, standing) => CallerAnswer::Admitted { is_degraded: standing != Standing::Exact },
            (false, _) => CallerAnswer::Refused,
        };
        world.history().answers.insert(request, answered);
        self.note_denials(asked, asks, reply);
        for (ask, one) in asks.iter().zip(&reply.replies).filter(|_| reply.allowed) {
            // A rule in shadow mode, whose denial does not refuse the request.
            if one.as_ref().is_some_and(|one| !one.decided.decision.is_allowed()) {
                continue;
            }
            let by = match one {
                None => DecidedBy::Open,
                Some(one) if one.by_store => DecidedBy::Store,
                // Limiters of the node are asked under a share of their values.
                Some(one) if one.decided.values.is_some() => {
                    DecidedBy::Here { held: tower.inner.inner.held(ask) }
                }
                Some(_) => DecidedBy::Lease,
            };
            let (node, units) = (self.number, ask.cost);
            let admitted = LayersEventKind::Admitted { request, node, units, by, asked, revision };
            world.note(ask, admitted);
        }
    }

    /// Settles a reservation as a gate does, with the limiters that gave units.
    async fn settle(
        &self,
        tower: &Tower<StoreLink>,
        number: u64,
        asks: &[KeyAsk],
        reply: &StepReply,
        percent: u64,
    ) {
        if self.link.is_cut() {
            return;
        }
        let mut taken = Vec::new();
        for (ask, one) in asks.iter().zip(&reply.replies) {
            let Some(decided) = one.as_ref().map(|one| &one.decided) else { continue };
            if decided.decision.is_allowed() {
                let reserves = !tower.has_leases(ask);
                taken.push(KeyAsk { taken: decided.taken, reserves, ..ask.clone() });
            }
        }
        let actual: Vec<_> = taken.iter().map(|ask| ask.cost * percent / 100).collect();
        let under = vec![None; taken.len()];
        let settle = StepArgs::settle(&actual, &under, tower.host().deadline());
        let origin = Origin { id: None, source: number };
        let settle = StepArgs { lack: reply.standing.lack(), origin, ..settle };
        // If no reply came, it is not known if it was done.
        let _ = tower.step(&taken, settle).await;
        if settle.lack.is_none() {
            self.note_back(&taken, false);
        }
    }
}

/// A seed of fingerprints that is the same in every run.
fn seed() -> Seed {
    let words = Seed::random().words().len();
    Seed::from_words(&vec![7; words]).expect("as many words")
}
