//! The store's thread: it receives requests and sends them to their shards.
//!
//! The thread serves no listener, so a busy listener delays no answer of the store and no check of
//! it. No other thread touches its state; they reach it through the [`Inbox`](super::inbox::Inbox)
//! only.

mod clock;
mod cluster;
mod fair_queue;
mod flush;
mod link;
mod look;
mod pending;
mod redirect;
mod shard;
mod slots;
mod window;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::Value;
use tokio::task::{spawn_local, yield_now};
use tokio::time::{Instant, sleep, timeout};

use super::error::of_client;
use super::inbox::Question;
use super::inbox::StoreState;
use super::keys::slot_of;
use super::link::NodeAddress;
use crate::store::{StoreError, StoreEvent};
use clock::ThreadClock;
use cluster::Cluster;
use fair_queue::KeyHashes;
pub(super) use link::Link;
use look::look_after;
pub(super) use look::{LOOK, run_id};
use pending::Pending;
use redirect::{Redirect, Redirected};
use shard::{FlushToSend, NoReplies, ShardHealth, StoreShard};

/// The pause between two readings of the clock while anything waits.
const TICK: Duration = Duration::from_millis(1);
/// The pause between two readings of the clock while nothing waits and there are shards to drop.
const REST: Duration = Duration::from_secs(1);
/// The longest wait for a late reply.
pub(super) const LATEST: Duration = Duration::from_secs(10);
/// Turns of the thread in which an end of a connection that lies in the socket is noticed.
const TURNS: usize = 3;
/// The maximum number of times that a request follows a slot that moves.
const MOST_MOVES: u8 = 16;

/// The state of the store's thread.
pub(super) struct Dispatcher {
    shared: Arc<StoreState>,
    clock: Rc<ThreadClock>,
    /// All shards; in a cluster, shards that hold no slot any more are dropped once they are idle.
    shards: RefCell<Vec<Rc<StoreShard>>>,
    /// The number of the next shard.
    number: Cell<usize>,
    cluster: Cluster,
    /// True if the store as a whole is reported as lost.
    is_lost: Cell<bool>,
}

/// Runs the store's thread until every client is gone.
pub(super) async fn run(shared: Arc<StoreState>) {
    let dispatcher = Rc::new(Dispatcher::new(shared));
    dispatcher.begin();
    dispatcher.until_closed().await;
}

impl Dispatcher {
    fn new(shared: Arc<StoreState>) -> Self {
        Self {
            shared,
            clock: Rc::new(ThreadClock::new()),
            shards: RefCell::default(),
            number: Cell::new(0),
            cluster: Cluster::default(),
            is_lost: Cell::new(false),
        }
    }

    fn is_cluster(&self) -> bool {
        self.shared.settings.url.is_cluster()
    }

    fn begin(self: &Rc<Self>) {
        if self.is_cluster() {
            self.look_for_nodes();
        } else {
            self.add(None);
        }
    }

    /// Adds a shard and starts to look after it.
    fn add(self: &Rc<Self>, node: Option<NodeAddress>) -> Rc<StoreShard> {
        let number = self.number.replace(self.number.get() + 1);
        let shard = Rc::new(StoreShard::new(
            number,
            node,
            Arc::clone(&self.shared),
            Rc::clone(&self.clock),
        ));
        self.shards.borrow_mut().push(Rc::clone(&shard));
        spawn_local(look_after(Rc::clone(self), Rc::clone(&shard), None));
        shard
    }

    /// Takes requests from the inbox, and reads the time while anything waits.
    async fn until_closed(self: &Rc<Self>) {
        let mut taken = Vec::new();
        let mut last_tick = Instant::now();
        loop {
            let take = self.shared.inbox.take(&mut taken);
            let is_open = if self.is_idle() {
                let is_open = if self.has_retiring() {
                    // Otherwise the time would not be read again before the next request.
                    timeout(REST, take).await.unwrap_or(true)
                } else {
                    take.await
                };
                self.drop_retired();
                self.clock.rested();
                last_tick = Instant::now();
                is_open
            } else {
                let left = (last_tick + TICK).saturating_duration_since(Instant::now());
                // An inbox without a request in this time is still open.
                timeout(left, take).await.unwrap_or(true)
            };
            if !is_open {
                return;
            }
            // A stall of this thread is not charged to requests that were handed over during it: the store did not have
            // them yet.
            let stalled = self.clock.stalled();
            let now = self.clock.now();
            taken.drain(..).for_each(|question| self.ask(question, stalled, now));
            let shards = self.shards.borrow().clone();
            shards.iter().for_each(|shard| self.send(shard));
            // Under a steady stream of requests the inbox never rests, and the time is read all the same.
            if last_tick.elapsed() >= TICK {
                self.tick().await;
                last_tick = Instant::now();
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.is_looked_at()
            && !self.shared.counts.is_overloaded()
            && self.shards.borrow().iter().all(|shard| shard.is_idle())
    }

    /// Reads the time after reading everything in the sockets, so that replies that have arrived are not late.
    async fn tick(self: &Rc<Self>) {
        self.clock.now();
        read_sockets(TURNS).await;
        let shards = self.shards.borrow().clone();
        for shard in &shards {
            if let Some(error) = shard.tick() {
                self.lost(shard, error);
            }
        }
        if let Some(undecided) = self.shared.counts.overload_ended(Instant::now()) {
            (self.shared.observer)(StoreEvent::OverloadEnded { undecided });
        }
        self.drop_retired();
    }

    /// Returns whether every shard was checked for the first time, or none was found.
    fn is_looked_at(&self) -> bool {
        self.shared.found.borrow().is_some()
    }

    /// Hands a question to its shard; before the nodes of a cluster are known, as soon as they are.
    fn ask(self: &Rc<Self>, question: Question, stalled: Duration, now: Instant) {
        if let Some(shard) = self.shard_of(&question.asked.keys) {
            let keys = shard.hashes(&question.asked.keys);
            return shard.push(Rc::new(Pending::new(question, keys, stalled, now)));
        }
        // The map of slots has a hole, or there is none yet.
        if self.is_cluster() {
            self.look_for_nodes();
        }
        if self.is_looked_at() || now >= question.deadline - stalled {
            return Pending::new(question, KeyHashes::new(), stalled, now)
                .give_up(StoreError::Away);
        }
        spawn_local(Rc::clone(self).ask_when_known(question, stalled));
    }

    async fn ask_when_known(self: Rc<Self>, question: Question, stalled: Duration) {
        sleep(TICK).await;
        let now = self.clock.now();
        self.ask(question, stalled, now);
        let shards = self.shards.borrow().clone();
        shards.iter().for_each(|shard| self.send(shard));
    }

    fn shard_of(&self, keys: &[Vec<u8>]) -> Option<Rc<StoreShard>> {
        if !self.is_cluster() {
            return self.shards.borrow().first().cloned();
        }
        self.cluster.shard_of(slot_of(keys.first()?))
    }

    /// Sends the requests that may be sent to a shard now.
    fn send(self: &Rc<Self>, shard: &Rc<StoreShard>) {
        while let Some(sending) = shard.next() {
            spawn_local(Rc::clone(self).until_answered(Rc::clone(shard), sending));
        }
    }

    async fn until_answered(self: Rc<Self>, shard: Rc<StoreShard>, mut sending: FlushToSend) {
        if sending.is_rested {
            read_sockets(TURNS).await;
            shard.lets_writes_follow(&sending);
            // Calls that waited for it follow in tasks of their own, which run later.
            self.send(&shard);
        }
        let values = self.replies(&mut sending).await;
        let mut answered = shard.answered(sending, values);
        if let Some(error) = answered.lost.clone() {
            self.lost(&shard, error);
        }
        let redirected = std::mem::take(&mut answered.redirected);
        // Calls that failed with a closed connection are answered when it is known whether this is an outage.
        match answered.closed.take() {
            Some(error) => self.reopen(&shard, error, answered),
            None => answered.fail(),
        }
        redirected.into_iter().for_each(|redirected| self.redirect(redirected));
        self.send(&shard);
    }

    /// Sends a write and waits for the replies to it.
    async fn replies(&self, sending: &mut FlushToSend) -> Result<Vec<Value>, NoReplies> {
        let pipeline = std::mem::replace(&mut sending.pipeline, redis::Pipeline::new());
        let mut connection = sending.route.connection();
        let mut replies = pin!(connection.send_packed_commands(&pipeline, 0, pipeline.len()));
        // The task that writes to the socket has not run since: a write that fails at once was never sent.
        let at_once = poll_fn(|context| Poll::Ready(replies.as_mut().poll(context))).await;
        if let Poll::Ready(replied) = at_once {
            return replied.map_err(|error| NoReplies { error: of_client(error), was_sent: false });
        }
        let latest = self.clock.now() + LATEST;
        let mut left = LATEST;
        loop {
            if let Ok(replied) = timeout(left, replies.as_mut()).await {
                return replied
                    .map_err(|error| NoReplies { error: of_client(error), was_sent: true });
            }
            // If the thread stood still, the replies may lie unread in the socket.
            left = latest.saturating_duration_since(self.clock.now());
            if left.is_zero() {
                return Err(NoReplies { error: StoreError::Timeout, was_sent: true });
            }
        }
    }

    /// Gives a shard up if it is fit.
    fn lost(self: &Rc<Self>, shard: &Rc<StoreShard>, error: StoreError) {
        if shard.is_fit() {
            self.give_up(shard, error);
        }
    }

    /// Gives a shard up, and looks after it until it is fit again.
    fn give_up(self: &Rc<Self>, shard: &Rc<StoreShard>, error: StoreError) {
        // An outage is reported before its requests are answered, so that no caller sees an error first.
        let unanswered = shard.lose(&error);
        self.report(shard, Some(&error));
        self.looked();
        unanswered.into_iter().for_each(|(request, error)| request.give_up(error));
        spawn_local(look_after(Rc::clone(self), Rc::clone(shard), Some(error)));
        if self.is_cluster() {
            self.look_for_nodes();
        }
    }

    /// Sends a call that was not run to the node that has its keys.
    fn redirect(self: &Rc<Self>, redirected: Redirected) {
        let Redirected { call, redirect } = redirected;
        if self.is_cluster() {
            self.look_for_nodes();
        }
        for request in call.requests().filter(|request| !request.is_done()) {
            let request = Rc::clone(request);
            request.unsent();
            request.moves.set(request.moves.get() + 1);
            // The shard that it leaves no longer answers for it when its time is over.
            request.home.set(usize::MAX);
            let is_ask = matches!(redirect, Redirect::Ask(_));
            request.asking.set(is_ask);
            if request.moves.get() > MOST_MOVES {
                let message = format!("its slot moved {MOST_MOVES} times");
                request.give_up(StoreError::ClusterDown(message));
                continue;
            }
            match &redirect {
                Redirect::Moved { slot, node } => {
                    let shard = self.shard_at(node);
                    self.cluster.set(*slot, &shard);
                    shard.push(request);
                }
                Redirect::Ask(node) => {
                    // `ASKING` holds for one command, so the request needs a call of its own.
                    request.alone.set(true);
                    self.shard_at(node).push(request);
                }
                Redirect::Soon | Redirect::NoScript => {
                    // In a call of its own it can fail again by its own keys only.
                    request.alone.set(true);
                    spawn_local(Rc::clone(self).ask_soon(request));
                }
            }
        }
        let shards = self.shards.borrow().clone();
        shards.iter().for_each(|shard| self.send(shard));
    }

    async fn ask_soon(self: Rc<Self>, request: Rc<Pending>) {
        sleep(TICK).await;
        match self.shard_of(&request.asked.keys) {
            Some(shard) => {
                shard.push(request);
                self.send(&shard);
            }
            None => request.give_up(StoreError::Away),
        }
    }

    /// Reports each outage of a shard once, and its end once.
    fn report(&self, shard: &StoreShard, error: Option<&StoreError>) {
        let observer = &self.shared.observer;
        if !self.is_cluster() {
            return match error {
                Some(error) => observer(StoreEvent::Lost(error)),
                None => observer(StoreEvent::Back),
            };
        }
        let shards = self.cluster.shards(&self.shards.borrow());
        // Once all parts are lost, the store is reported as a whole.
        let all_lost = shards.iter().all(|shard| matches!(shard.health(), ShardHealth::Lost(_)));
        match error {
            Some(error) if all_lost => {
                if !self.is_lost.replace(true) {
                    observer(StoreEvent::Lost(error));
                }
            }
            Some(error) => self.report_parts(&shard.ranges(), error),
            None if self.is_lost.replace(false) => {
                observer(StoreEvent::Back);
                // The store as a whole was lost, so its parts were not reported since. Those still lost are reported now.
                self.cluster.all_back();
                for other in shards {
                    if let ShardHealth::Lost(error) = other.health() {
                        self.report_parts(&other.ranges(), &error);
                    }
                }
            }
            None => {
                for (first_slot, last_slot) in self.cluster.back(&shard.ranges()) {
                    observer(StoreEvent::PartBack { first_slot, last_slot });
                }
            }
        }
    }

    fn report_parts(&self, ranges: &[(u16, u16)], error: &StoreError) {
        for (first_slot, last_slot) in self.cluster.lost(ranges) {
            (self.shared.observer)(StoreEvent::PartLost { first_slot, last_slot, error });
        }
    }
}

/// Lets the tasks of connections read everything that lies in their sockets.
pub(super) async fn read_sockets(turns: usize) {
    for _ in 0..turns {
        yield_now().await;
    }
}
