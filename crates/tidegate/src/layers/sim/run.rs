//! A run: nodes that begin and end, and callers that ask them.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_core::Timestamp;
use tokio::task::JoinHandle;
use tokio::time::{sleep, sleep_until, timeout};

use super::history::{CallerAnswer, DecidedBy, LayersEventKind, LayersHistory, NodeCounts};
use super::link::StoreLink;
use super::plan::{End, LayersPlan, PlannedRequest, RequestKind, TIMEOUT_MS};
use super::world::{LayersWorld, NodeClock};
use crate::clock::Clock;
use crate::key::Seed;
use crate::layers::{
    DenialMemory, Handles, LayerParts, Local, Lost, Share, Tower, UntilDropped, tower_over,
};
use crate::request::Origin;
use crate::rules::Policy;
use crate::step::Standing;
use crate::store::{GaveUp, Host, KeyAsk, Layer, StepArgs, StepReply, Store, Verb};

/// The time that a run goes on when all nodes have ended, so that messages on their way arrive.
const REST: Duration = Duration::from_secs(8);

/// A node: the tower that ships, over a link to the store.
struct LayersNode {
    number: usize,
    tower: Tower<StoreLink>,
    link: StoreLink,
    until_dropped: Mutex<Option<UntilDropped>>,
}

impl LayersNode {
    fn begin(world: &Arc<LayersWorld>, number: usize) -> Self {
        let plan = &world.plan;
        let policy = Policy::new(plan.rules.clone()).expect("a policy of a plan is valid");
        let clock = NodeClock::new(world.began(), plan.nodes[number].clock);
        let host = Host::new(Duration::from_millis(TIMEOUT_MS)).with_clock(clock);
        let local = Local::new(policy, Share::of(Some(plan.most_nodes)), host.clone());
        let local = Arc::new(local);
        let generation = local.memory.newest().share();
        let memory = plan.repeats_denials.then(|| Arc::new(DenialMemory::with_seed(seed())));
        let (forgets, clock) = (memory.clone(), host.clone());
        let on_units_back = Arc::new(move |asks: &[KeyAsk]| {
            if let Some(memory) = &forgets {
                memory.forget(asks, clock.now());
            }
        });
        let handles =
            Handles { on_units_back: Arc::clone(&on_units_back) as _, report: Arc::new(|_| ()) };
        let on_denied = Arc::new(|| ());
        let parts = LayerParts { local, denials: memory, on_denied, nodes: 1, handles };
        let link =
            StoreLink::new(Arc::clone(world), number, host, Arc::clone(&generation), on_units_back);
        let tower = tower_over(link.clone(), &generation, parts);
        let until_dropped = Mutex::new(Some(tower.inner.inner.until_dropped()));
        Self { number, tower, link, until_dropped }
    }

    /// Ends the node: it gives back the units that it holds, or no message of it comes through any more.
    async fn end(&self, end: End) {
        match end {
            End::Leaves => self.tower.end().await,
            End::Crashes => self.link.cut(),
        }
        self.until_dropped.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn account(&self) -> NodeCounts {
        let leases = &self.tower.inner.inner;
        let (counts, calls) = (leases.counts(), leases.calls());
        NodeCounts {
            crashed: self.link.is_cut(),
            taken: counts.taken,
            spent: counts.spent,
            unspent: counts.unspent,
            returned: calls.returned.load(Relaxed),
            lost: calls.all_lost(),
            too_late: calls.lost(Lost::TooLate),
            no_reply: calls.lost(Lost::NoReply),
            late: calls.units_late.load(Relaxed),
        }
    }

    /// Decides a request as a gate does: at once, if the store need not be asked.
    async fn ask(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Result<StepReply, GaveUp> {
        let is_now = args.verb == Verb::Ask && !args.is_queued && self.tower.decides_now();
        let now = if is_now { self.tower.step_now(asks, args) } else { None };
        match now {
            Some(reply) => Ok(reply),
            None => self.tower.step(asks, args).await,
        }
    }

    /// One caller: asks, and settles its reservation.
    async fn serve(&self, number: u64, request: &PlannedRequest) {
        let world = self.link.world();
        let asked = world.passed_us();
        let is_reservation = matches!(request.kind, RequestKind::Reserve { .. });
        let of_part = |(limiter, cost): &(usize, u64)| KeyAsk {
            reserves: is_reservation,
            ..world.ask(*limiter, *cost)
        };
        let asks: Vec<_> = request.parts.iter().map(of_part).collect();
        let origin = Origin { id: None, source: number };
        let verb = if request.kind == RequestKind::Peek { Verb::Peek } else { Verb::Ask };
        let args = StepArgs::new(verb, origin, self.tower.host().deadline());
        let args = StepArgs { is_queued: request.kind == RequestKind::Queued, ..args };
        let reply = match request.kind {
            RequestKind::Reset => {
                // If no reply came, it is not known if it was done.
                let reset = StepArgs { verb: Verb::Reset, ..args };
                let _ = self.tower.step(&asks, reset).await;
                self.note_back(&asks, true);
                return;
            }
            RequestKind::Abandoned { after } => {
                let after = Duration::from_millis(after);
                let Ok(reply) = timeout(after, self.ask(&asks, args)).await else { return };
                reply
            }
            _ => self.ask(&asks, args).await,
        };
        if self.link.is_cut() {
            return;
        }
        let unavailable =
            |gave_up: GaveUp| StepReply::unavailable(asks.len(), gave_up.error.lack());
        let reply = reply.unwrap_or_else(unavailable);
        if verb == Verb::Peek {
            world.history().answers.insert(number, CallerAnswer::Nothing);
            return;
        }
        self.tell(number, asked, &asks, &reply);
        if let RequestKind::Reserve { after, percent } = request.kind
            && reply.allowed
        {
            sleep(Duration::from_millis(after)).await;
            self.settle(number, &asks, &reply, percent).await;
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
    fn tell(&self, request: u64, asked: u64, asks: &[KeyAsk], reply: &StepReply) {
        let world = self.link.world();
        let answered = match (reply.allowed, reply.standing) {
            (true, standing) => CallerAnswer::Admitted { is_degraded: standing != Standing::Exact },
            (false, _) => CallerAnswer::Refused,
        };
        world.history().answers.insert(request, answered);
        self.note_denials(asked, asks, reply);
        for (ask, one) in asks.iter().zip(&reply.replies).filter(|_| reply.allowed) {
            if one.as_ref().is_some_and(|one| !one.decided.decision.is_allowed()) {
                continue;
            }
            let by = match one {
                None => DecidedBy::Open,
                Some(one) if one.by_store => DecidedBy::Store,
                // Limiters of the node are asked under a share of their values.
                Some(one) if one.decided.values.is_some() => {
                    let lasts = self.tower.lasts(ask);
                    DecidedBy::Here { lasts_us: lasts.map_or(0, |lasts| lasts.as_micros().max(1)) }
                }
                Some(_) => DecidedBy::Lease,
            };
            let (node, units) = (self.number, ask.cost);
            world.note(ask, LayersEventKind::Admitted { request, node, units, by, asked });
        }
    }

    /// Settles a reservation as a gate does, with the limiters that gave units.
    async fn settle(&self, number: u64, asks: &[KeyAsk], reply: &StepReply, percent: u64) {
        if self.link.is_cut() {
            return;
        }
        let mut taken = Vec::new();
        for (ask, one) in asks.iter().zip(&reply.replies) {
            let Some(decided) = one.as_ref().map(|one| &one.decided) else { continue };
            if decided.decision.is_allowed() {
                let reserves = !self.tower.has_leases(ask);
                taken.push(KeyAsk { since: decided.since, reserves, ..ask.clone() });
            }
        }
        let actual: Vec<_> = taken.iter().map(|ask| ask.cost * percent / 100).collect();
        let under = vec![None; taken.len()];
        let settle = StepArgs::settle(&actual, &under, self.tower.host().deadline());
        let origin = Origin { id: None, source: number };
        let settle = StepArgs { lack: reply.standing.lack(), origin, ..settle };
        // If no reply came, it is not known if it was done.
        let _ = self.tower.step(&taken, settle).await;
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

/// All nodes of a run.
struct LayersRun {
    world: Arc<LayersWorld>,
    nodes: Vec<Option<Arc<LayersNode>>>,
    is_up: Vec<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// Something that the plan says.
#[derive(Clone, Copy)]
enum LayersNext {
    Begin(usize),
    End(usize, End),
    Request(usize),
}

/// Runs a plan in virtual time.
pub(super) fn run(plan: &LayersPlan) -> LayersHistory {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let world = Arc::new(LayersWorld::new(plan.clone()));
        let nodes = plan.nodes.iter().map(|_| None).collect();
        let is_up = vec![false; plan.nodes.len()];
        LayersRun { world, nodes, is_up, tasks: Vec::new() }.until_the_end().await
    })
}

impl LayersRun {
    async fn until_the_end(mut self) -> LayersHistory {
        let world = Arc::clone(&self.world);
        let plan = &world.plan;
        let mut all = Vec::new();
        for (number, node) in plan.nodes.iter().enumerate() {
            all.push((node.joins, LayersNext::Begin(number)));
            all.extend(node.end.map(|(at, end)| (at, LayersNext::End(number, end))));
        }
        let requests = plan.requests.iter().enumerate();
        all.extend(requests.map(|(number, request)| (request.at, LayersNext::Request(number))));
        all.sort_by_key(|(at, _)| *at);
        for (at, next) in all {
            sleep_until(world.began() + Duration::from_millis(at)).await;
            self.happen(next);
        }
        for task in std::mem::take(&mut self.tasks) {
            task.await.expect("no caller panics");
        }
        for (node, is_up) in self.nodes.iter().zip(&self.is_up) {
            if let (Some(node), true) = (node, is_up) {
                node.end(End::Leaves).await;
            }
        }
        sleep(REST).await;
        let accounts = self.nodes.iter().flatten().map(|node| node.account()).collect();
        let now: Timestamp = world.store_now();
        let used = |limiter| world.limiters().used(&world.ask(limiter, 0), now);
        let used = (0..plan.limiters.len()).map(used).collect();
        let mut history = std::mem::take(&mut *world.history());
        // At one time, limiters are asked in any order.
        history.events.sort_by_key(|event| (event.at, event.limiter));
        LayersHistory { accounts, used, ended: world.passed_us(), ..history }
    }

    fn happen(&mut self, next: LayersNext) {
        match next {
            LayersNext::Begin(number) => {
                self.nodes[number] = Some(Arc::new(LayersNode::begin(&self.world, number)));
                self.is_up[number] = true;
                self.count();
            }
            LayersNext::End(number, end) => {
                self.is_up[number] = false;
                if let Some(node) = self.nodes[number].clone() {
                    self.tasks.push(tokio::spawn(async move { node.end(end).await }));
                }
                self.count();
            }
            LayersNext::Request(number) => {
                let request = self.world.plan.requests[number].clone();
                let Some(node) = self.nodes[request.node].clone() else { return };
                if self.is_up[request.node] {
                    let serve = async move { node.serve(number as u64, &request).await };
                    self.tasks.push(tokio::spawn(serve));
                }
            }
        }
    }

    /// Tells the nodes their number, a while later.
    fn count(&self) {
        let nodes = self.is_up.iter().filter(|is_up| **is_up).count() as u64;
        let up = self.nodes.iter().zip(&self.is_up).filter(|(_, is_up)| **is_up);
        let hear: Vec<_> =
            up.filter_map(|(node, _)| Some(node.as_ref()?.tower.inner.inner.nodes())).collect();
        let beat = Duration::from_millis(self.world.plan.beat);
        tokio::spawn(async move {
            sleep(beat).await;
            hear.iter().for_each(|hear| hear(nodes));
        });
    }
}
