//! The shaping queue against the naive model of the limiter and a list of slots, on random walks.
//!
//! `TIDEGATE_LONG=1` walks twenty times as many.

use std::time::Duration;
use testkit::model::{self, Model, Policy};
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Departure, MAX_WINDOW, Micros, Next, Refusal, ShapingQueue, Spec, Timestamp,
};

const STEPS: u64 = 300;

/// A shaping queue written down from its definition: the model decides, a sorted list holds.
struct Naive {
    model: Model,
    /// When the last unit was taken, if the model knows of any.
    last_us: Option<u64>,
    /// When the pace was last changed.
    since_us: u64,
    /// Slot, number and cost of each item, in the order in which they leave.
    line: Vec<(u64, u64, u64)>,
}

impl Naive {
    fn new(policy: Policy) -> Self {
        Self { model: Model::new(policy), last_us: None, since_us: 0, line: Vec::new() }
    }

    /// The longest step back of a clock: without a window, as long as the longest window.
    fn window_us(&self) -> u64 {
        let policy = self.model.policy();
        if policy.window_us > 0 { policy.window_us } else { Micros::from(MAX_WINDOW).as_micros() }
    }

    /// The instant that counts; a clock that is back by more than W takes the slots along.
    fn at(&mut self, now: u64) -> u64 {
        let known = self.last_us.unwrap_or(self.since_us);
        if now + self.window_us() >= known {
            return now.max(self.last_us.unwrap_or(0));
        }
        let back = known - now;
        self.line.iter_mut().for_each(|(slot, ..)| *slot -= back);
        (self.last_us, self.since_us) = (self.last_us.map(|_| now), now);
        now
    }

    /// An item that is not due yet leaves when all units have drained at the new rate, except its own and the units
    /// after it.
    fn amend(&mut self, now: u64, policy: Policy) {
        let (at, used) = (self.at(now), self.model.used(now));
        let old = self.model.policy();
        if old.window_us != policy.window_us || old.limit == 0 && used == 0 {
            self.last_us = (used > 0).then_some(at);
        }
        self.since_us = at;
        self.model.amend(now, policy);
        let mut behind = 0;
        for (slot, _, cost) in self.line.iter_mut().rev().take_while(|(slot, ..)| *slot > at) {
            behind += *cost;
            let mut without = self.model.clone();
            without.refund(at, behind);
            let wait_us = without.peek(at, 0).reset_after_us;
            *slot = at.saturating_add(wait_us).min(Timestamp::MAX.as_micros());
        }
    }

    /// The wait for its slot, or why there is none.
    fn push(&mut self, now: u64, number: u64, cost: u64) -> Result<u64, Refusal> {
        let at = self.at(now);
        let said = self.model.peek(now, cost);
        match said.retry_after_us {
            Some(0) if said.allowed => {}
            Some(us) => return Err(Refusal::Full { retry_after: Duration::from_micros(us) }),
            None => return Err(Refusal::Never),
        }
        let weight = |cost: u64| cost.max(1);
        let held: u64 = self.line.iter().map(|(.., cost)| weight(*cost)).sum();
        if held + weight(cost) > (2 * said.limit).max(1) {
            return Err(Refusal::Behind);
        }
        let slot = at + self.model.step(now, cost).delay_us;
        let place = self.line.partition_point(|(ahead, ..)| *ahead <= slot);
        self.line.insert(place, (slot, number, cost));
        self.last_us = if cost > 0 { Some(at) } else { self.last_us };
        Ok(slot - at)
    }

    fn poll(&mut self, now: u64) -> Next<u64> {
        let at = self.at(now);
        self.model.peek(now, 1);
        match self.line.first().copied() {
            None => Next::Empty,
            Some((slot, ..)) if slot > at => Next::At(Timestamp::from_micros(slot)),
            Some((slot, item, _)) => {
                self.line.remove(0);
                Next::Item(Departure { item, slot: Timestamp::from_micros(slot) })
            }
        }
    }
}

fn policy(limit: u64, window_us: u64, capacity: u64) -> Policy {
    let mut policy = Policy::new(model::AlgorithmKind::LeakyQueue, limit, window_us);
    policy.capacity = Some(capacity);
    policy
}

fn spec(policy: &Policy) -> Spec {
    let window = Duration::from_micros(policy.window_us);
    let mut spec = Spec::new(AlgorithmKind::LeakyQueue, policy.limit, window);
    spec.window = (policy.window_us > 0).then_some(window);
    spec.capacity = policy.capacity;
    spec
}

struct Walk {
    rng: Rng,
    queue: ShapingQueue<u64>,
    naive: Naive,
    now: u64,
    answered: String,
    window_us: u64,
    capacity: u64,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let (limit, capacity) = (rng.skewed(5_000) - 1, rng.skewed(60) - 1);
        let window_us = rng.between(1_000, 3_000_000);
        let policy = policy(limit, window_us, capacity);
        Self {
            rng,
            queue: ShapingQueue::new(spec(&policy)).unwrap(),
            naive: Naive::new(policy),
            now: 1_000_000_000,
            answered: format!("seed {seed}: {limit} per {window_us} us, capacity {capacity}"),
            window_us,
            capacity,
        }
    }

    /// Another pace and bound, sometimes in the same window; now and then nothing leaves any more.
    fn amend(&mut self) {
        self.capacity = self.rng.skewed(60) - 1;
        if self.rng.chance(50) {
            self.window_us = self.rng.between(1_000, 3_000_000);
        }
        let other = match self.rng.below(10) {
            0 => policy(0, 0, self.capacity),
            1 => policy(0, self.window_us, self.capacity),
            _ => policy(self.rng.skewed(5_000), self.window_us, self.capacity),
        };
        self.answered += &format!(
            "; at {} {} per {} us, {}",
            self.now, other.limit, other.window_us, self.capacity
        );
        self.queue.amend(Timestamp::from_micros(self.now), spec(&other)).unwrap();
        self.naive.amend(self.now, other);
    }

    fn push(&mut self, number: u64) {
        let cost = if self.rng.chance(70) { 1 } else { self.rng.below(self.capacity + 3) };
        let said = self.naive.push(self.now, number, cost);
        let answer = self.queue.push(Timestamp::from_micros(self.now), number, cost);
        let answer =
            answer.map(|wait| Micros::from(wait).as_micros()).map_err(|refused| refused.refusal);
        assert_eq!(answer, said, "{}: item {number} of {cost} at {}", self.answered, self.now);
    }

    /// Takes out all items that are due; returns when the next will be.
    fn take(&mut self) -> Option<u64> {
        loop {
            let next = self.queue.poll(Timestamp::from_micros(self.now));
            assert_eq!(next, self.naive.poll(self.now), "{} at {}", self.answered, self.now);
            match next {
                Next::Item(_) => {}
                Next::At(slot) => return Some(slot.as_micros()),
                Next::Empty | Next::Ended => return None,
            }
        }
    }

    /// Goes to `to`, and takes at each slot on the way, like a receiver that is never late.
    fn go_to(&mut self, to: u64) {
        while let Some(slot) = self.take().filter(|slot| (self.now..=to).contains(slot)) {
            self.now = slot;
        }
        self.now = to;
        self.take();
    }
}

/// Walks in which each push is followed by other steps.
fn for_each_push(then: impl Fn(&mut Walk, u64)) {
    for seed in 0..if testkit::threads::long() { 8_000 } else { 400 } {
        let mut walk = Walk::new(seed);
        for number in 0..STEPS {
            walk.push(number);
            then(&mut walk, seed);
        }
    }
}

#[test]
fn every_answer_and_every_slot_is_the_models() {
    for_each_push(|walk, _| {
        walk.take();
        if walk.rng.chance(60) {
            let ahead = walk.rng.skewed(walk.window_us);
            walk.go_to(walk.now + ahead);
        }
    });
}

#[test]
fn every_answer_and_every_slot_is_the_models_by_a_clock_that_steps() {
    for_each_push(|walk, _| {
        walk.take();
        let step = walk.rng.skewed(3 * walk.window_us);
        match walk.rng.below(10) {
            0 => walk.now -= step,
            1..7 => walk.go_to(walk.now + step),
            _ => {}
        }
        walk.take();
    });
}

/// The pace is changed while items wait, and while they are late.
#[test]
fn every_answer_and_every_slot_is_the_models_while_the_pace_changes() {
    for_each_push(|walk, seed| {
        if walk.rng.chance(80) {
            walk.take();
        }
        if walk.rng.chance(20) {
            walk.amend();
        }
        let step = walk.rng.skewed(2 * walk.window_us);
        match walk.rng.below(10) {
            0 if seed % 2 == 0 => walk.now -= walk.rng.skewed(3 * walk.window_us),
            1..4 => walk.go_to(walk.now + step),
            4 => walk.now += step,
            _ => {}
        }
    });
}
