//! One server of a store: requests that wait for it, calls under way, and whether it answers.
//!
//! A shard is *unavailable* when it was asked and answered nothing for a few deadlines, or when its connection
//! breaks. Then nothing is sent until a check finds it fit. A shard that answers, but not every request in
//! time, is *overloaded*: requests that it cannot decide in time are reported as such, and it decides the
//! others. A shard that was silent for three quarters of a deadline is a *suspect*: if few requests wait for it, those whose time is
//! over are reported as though it were unavailable, and if more wait as under overload.

mod closed;
mod expiry;
mod health;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::{Arc, atomic::Ordering::Relaxed};

use redis::Value;
use redis::aio::MultiplexedConnection;
use tidegate_core::Micros;
use tidegate_rules::shared::is_of_server;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::TICK;
use super::clock::ThreadClock;
use super::fair_queue::{FairQueue, KeyHashes};
use super::flush::{CallKeys, Flush, MOST_REQUESTS, Sent};
use super::link::Link;
use super::pending::Pending;
use super::redirect::{Redirect, Redirected};
use super::slots::part_of;
use super::window::Window;
use crate::counts::RequestCounts;
use crate::error::of_client;
use crate::inbox::StoreState;
use crate::link::NodeAddress;
use crate::route::Route;
use crate::store::StoreError;
pub(super) use closed::{Answered, NoReplies};
use expiry::LATELY;

/// Most calls sent as one write.
const MOST_CALLS: usize = 64;
/// A shard with this many requests within a deadline may be silent for longer.
const MANY_REQUESTS: usize = 64;
/// The maximum number of requests that may wait for each call that may be under way.
const WAITING_PER_CALL: usize = 16;

/// A server of the store, as the store's thread sees it.
pub(super) struct StoreShard {
    /// Its number among all shards.
    pub(super) number: usize,
    /// The node of a cluster; `None` for the server that the URL or a Sentinel names.
    pub(super) node: Option<NodeAddress>,
    pub(super) shared: Arc<StoreState>,
    clock: Rc<ThreadClock>,
    /// Notified when a shard that was given up answers after all.
    pub(super) heard: Notify,
    /// When it was last asked.
    pub(super) asked_at: Cell<Instant>,
    /// True if it is no longer looked after.
    pub(super) is_retired: Cell<bool>,
    state: RefCell<ShardState>,
}

/// Requests that wait to be sent.
type CallQueue = FairQueue<Rc<Pending>>;

struct ShardState {
    queue: CallQueue,
    window: Window,
    link: Option<Link>,
    links: u64,
    health: ShardHealth,
    /// The slots that it serves; empty if it is no node of a cluster, or holds none yet.
    ranges: Vec<(u16, u16)>,
    /// The slots as an argument of scripts that count keys.
    part: Arc<[u8]>,
    /// Requests, each with the time of its next check, earliest first.
    due: VecDeque<(Instant, Rc<Pending>)>,
    heard_at: Instant,
    /// When there last were [`MANY_REQUESTS`].
    busy_at: Option<Instant>,
    /// True if more than a few requests have waited for it since it is a suspect.
    is_crowded: bool,
}

/// The health of a shard, which says if requests are sent to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShardHealth {
    /// Not yet found fit, or its connection is being opened again.
    New,
    Fit,
    Lost(StoreError),
}

/// A write to be sent.
pub(super) struct FlushToSend {
    pub(super) flush: Flush,
    pub(super) pipeline: redis::Pipeline,
    pub(super) route: Route,
    /// True if the connection was silent before, so that its end may lie unread in the socket.
    pub(super) is_rested: bool,
    link: u64,
    sent_at: Instant,
    was_full: bool,
}

impl StoreShard {
    pub(super) fn new(
        number: usize,
        node: Option<NodeAddress>,
        shared: Arc<StoreState>,
        clock: Rc<ThreadClock>,
    ) -> Self {
        let now = clock.now();
        let most = shared.settings.max_in_flight.saturating_sub(shared.direct_limiters);
        let window = Window::new(most, shared.deadline, now);
        let state = RefCell::new(ShardState {
            queue: FairQueue::new(),
            window,
            link: None,
            links: 0,
            health: ShardHealth::New,
            ranges: Vec::new(),
            part: Arc::default(),
            due: VecDeque::new(),
            heard_at: now,
            busy_at: None,
            is_crowded: false,
        });
        Self {
            number,
            node,
            shared,
            clock,
            heard: Notify::new(),
            asked_at: Cell::new(now),
            is_retired: Cell::new(false),
            state,
        }
    }

    /// Returns whether no request waits and nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        let mut state = self.state.borrow_mut();
        while state.due.pop_front_if(|(_, request)| request.is_done()).is_some() {}
        state.due.is_empty() && state.link.as_ref().is_none_or(|link| link.limiters == 0)
    }

    pub(super) fn ranges(&self) -> Vec<(u16, u16)> {
        self.state.borrow().ranges.clone()
    }

    pub(super) fn set_ranges(&self, ranges: Vec<(u16, u16)>) {
        let mut state = self.state.borrow_mut();
        state.part = part_of(&ranges).into();
        state.ranges = ranges;
    }

    /// A connection to it, if there is one.
    pub(super) fn connection(&self) -> Option<MultiplexedConnection> {
        self.state.borrow().link.as_ref().map(|link| link.route.connection())
    }

    /// The hashes of keys that a request names.
    pub(super) fn hashes(&self, keys: &[Vec<u8>]) -> KeyHashes {
        let state = self.state.borrow();
        keys.iter().map(|key| state.queue.hash(key)).collect()
    }

    /// Queues a request, or reports immediately why it cannot be queued. A request for a shard that has not been
    /// checked yet waits for the check, until its time is over.
    pub(super) fn push(&self, request: Rc<Pending>) {
        let mut state = self.state.borrow_mut();
        let most = self.shared.settings.max_in_flight.saturating_mul(WAITING_PER_CALL);
        let is_full = state.queue.len() >= most;
        match &state.health {
            ShardHealth::Fit if is_full => return self.overloaded(&state.queue, &request),
            ShardHealth::New if is_full => return request.give_up(StoreError::Away),
            ShardHealth::Lost(_) => return request.give_up(StoreError::Away),
            ShardHealth::Fit | ShardHealth::New => {}
        }
        let (now, real) = self.clock.both();
        let looked_at = if state.is_hurried(&request, now) {
            request.send_by.min(now + TICK)
        } else {
            request.send_by
        };
        request.home.set(self.number);
        self.asked_at.set(real);
        state.queue.push(request.keys.clone(), request.source, Rc::clone(&request));
        state.add_due(looked_at, request);
        if state.due.len() >= MANY_REQUESTS {
            state.busy_at = Some(now);
            self.shared.rest_direct_calls_until(real + LATELY);
        }
    }

    /// Takes the calls that may be sent now, as one write; `None` if there are none.
    pub(super) fn next(&self) -> Option<FlushToSend> {
        let (now, real) = self.clock.both();
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let link = state
            .link
            .as_mut()
            .filter(|link| state.health == ShardHealth::Fit && !link.holds_writes)?;
        let mut flush = Flush::default();
        // Few requests wait for a shard that is late for long; they find out when it no longer is.
        let most = if state.window.is_too_slow(now) { 1 } else { MOST_REQUESTS };
        while link.limiters + flush.limiters < state.window.size() && flush.calls.len() < MOST_CALLS
        {
            let mut space = CallKeys::default();
            let taken = state.queue.take(most, |_, keys| space.fits(keys));
            let Some((mut requests, taken)) = taken else { break };
            // Counted first: a request that ends here never counted as dropped.
            let dropped = requests.iter().filter(|request| request.is_done()).count();
            state.queue.took_dropped(dropped);
            requests.retain(|request| self.is_wanted(&state.queue, request, now, real));
            requests.retain(|request| link.may_run(request));
            // Otherwise the turn would count as a call under way for good.
            if requests.is_empty() {
                state.queue.answered(&taken);
                continue;
            }
            requests.iter().for_each(|request| request.sent());
            flush.add(requests, taken);
        }
        if flush.calls.is_empty() {
            return None;
        }
        flush.join(self.node.is_some());
        // The window may grow only if requests are left over.
        let was_full = state.queue.is_ready();
        let pipeline = flush.pipeline(link, &state.part);
        let route = link.route.of_part(&state.part);
        let merged = flush.calls.iter().filter(|call| !matches!(call, Sent::One(..)));
        let merged = merged.map(|call| call.requests().count()).sum();
        RequestCounts::add(&self.shared.counts.merged, merged);
        let is_rested = link.sent_at.is_empty() && link.heard_at.elapsed() >= closed::QUIET;
        link.holds_writes = is_rested;
        link.limiters += flush.limiters;
        link.sent_at.push_back(now);
        self.shared.counts.under_way.fetch_add(flush.calls.len() as u64, Relaxed);
        let link = link.number;
        Some(FlushToSend { flush, pipeline, route, is_rested, link, sent_at: now, was_full })
    }

    /// Returns whether a request that waited should still be sent.
    fn is_wanted(&self, queue: &CallQueue, request: &Pending, now: Instant, real: Instant) -> bool {
        if !request.is_done() && request.is_abandoned() {
            request.reply(Err(StoreError::Away));
            return false;
        }
        let is_over = now > request.send_by && !request.waits_on.get();
        if !request.is_done() && (is_over || real >= request.latest) {
            self.overloaded(queue, request);
        }
        !request.is_done()
    }

    /// Reports that the shard cannot decide a request in time.
    fn overloaded(&self, queue: &CallQueue, request: &Pending) {
        let together = queue.is_shared(&request.keys);
        request.give_up(StoreError::Overloaded { together });
        if !request.asked.is_background() {
            self.shared.note_overloaded();
        }
    }

    /// Hands out the replies to a write.
    pub(super) fn answered(
        &self,
        sending: FlushToSend,
        values: Result<Vec<Value>, NoReplies>,
    ) -> Answered {
        let now = self.clock.now();
        let FlushToSend { flush, route, link, sent_at, was_full, .. } = sending;
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let limiters = flush.limiters;
        self.shared.counts.under_way.fetch_sub(flush.calls.len() as u64, Relaxed);
        flush.taken.iter().for_each(|taken| state.queue.answered(taken));
        // The shard may have a new connection since the write. Replies over an old connection say nothing about its health,
        // and the new connection does not count their limiters.
        let latest = state.link.as_mut().filter(|latest| latest.number == link);
        let is_latest = latest.is_some();
        if let Some(link) = latest {
            link.sent_at.pop_front();
            link.heard_at = Instant::now();
            link.limiters -= limiters;
        }
        let values = match values {
            Ok(values) => values,
            Err(why) => return self.without_replies(state, flush.calls, why, is_latest),
        };
        let mut answered = Answered::default();
        let took = now.duration_since(sent_at);
        self.shared.counts.calls.add(Micros::from(took).as_micros(), flush.calls.len() as u64);
        if is_latest {
            state.heard_at = now;
            state.window.answered(limiters, took, was_full, now);
            // A shard that was given up answers after all: its next check need not wait for the pause.
            if state.health != ShardHealth::Fit {
                self.heard.notify_one();
            }
        }
        for (call, value) in flush.with_replies(values) {
            let Value::ServerError(error) = value else {
                let handed = call.reply(value, &route);
                RequestCounts::add(&self.shared.counts.late, handed.late);
                if is_latest && state.health == ShardHealth::Fit {
                    answered.lost = handed.gone.or(answered.lost);
                }
                continue;
            };
            match Redirect::of(&error, self.node.as_ref()) {
                Some(Redirect::NoScript) => {
                    if let Some(link) = &mut state.link {
                        link.forget_scripts();
                    }
                    state.again(&call);
                }
                Some(redirect) => answered.redirected.push(Redirected { call, redirect }),
                None => {
                    RequestCounts::add(&self.shared.counts.failed, 1);
                    let error = self.named(of_client(error.into()));
                    if is_of_server(&error) && is_latest && state.health == ShardHealth::Fit {
                        answered.lost = Some(error.clone());
                    }
                    answered.failed.push((call, error));
                }
            }
        }
        answered
    }

    /// Removes and returns the requests that wait, because other shards serve their slots now.
    pub(super) fn take_all(&self) -> Vec<Rc<Pending>> {
        self.state.borrow_mut().queue.clear()
    }
}

impl ShardState {
    /// Returns whether a request is decided without the shard unless it is sent immediately: no answer has
    /// been in time for long.
    fn is_hurried(&self, request: &Pending, now: Instant) -> bool {
        request.asked.only_asks() && self.window.is_too_slow(now)
    }

    /// Queues a call that was not run again.
    fn again(&mut self, call: &Sent) {
        for request in call.requests().filter(|request| !request.is_done()) {
            request.unsent();
            self.queue.push(request.keys.clone(), 0, Rc::clone(request));
        }
    }

    fn add_due(&mut self, at: Instant, request: Rc<Pending>) {
        // From the back, because most requests are due after all others.
        let later = self.due.iter().rev().take_while(|(due, _)| *due > at).count();
        self.due.insert(self.due.len() - later, (at, request));
    }
}
