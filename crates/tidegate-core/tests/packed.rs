//! States packed into a few words: packing loses nothing, and a reading of the clock that
//! others overtook admits no request that a later reading would refuse.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use testkit::model::{self, Model};
use testkit::traffic::{self, Rng};
use tidegate_core::{Algorithm, MAX_LIMIT, Packing, Timestamp, Verdict, Visitor};

/// A limiter that is packed after every step, as a store keeps it.
trait Packed {
    /// Decides and takes; returns whether the cost was admitted.
    fn ask(&mut self, at_us: u64, cost: u64) -> bool;
    fn refund(&mut self, at_us: u64, units: u64);
    /// Unit costs that fit, and the wait until it is idle.
    fn values(&self, at_us: u64) -> (u64, u64);
    /// The wait until a denied cost fits; `None` if it is not denied.
    fn retry_after(&self, at_us: u64, cost: u64) -> Option<u64>;
    /// Returns whether a cost would be admitted.
    fn would_admit(&self, at_us: u64, cost: u64) -> bool;
}

struct Of<R: Algorithm> {
    algorithm: R,
    base: Timestamp,
    words: [u64; 6],
}

impl<R: Algorithm> Of<R> {
    fn state(&self) -> R::State {
        self.algorithm.unpack(self.base, self.words)
    }

    /// The state, and the instant that counts for a reading of a clock that never steps back.
    fn at(&self, read: Timestamp) -> (R::State, Timestamp) {
        let mut state = self.state();
        let now = self.algorithm.overtaken(Some(&state), read);
        let at = self.algorithm.advance(&mut state, now);
        (state, at)
    }

    /// Checks that a state packed into fewer words is the same.
    fn fits<const WORDS: usize>(&self, state: &R::State) {
        let words: [u64; WORDS] = self.algorithm.pack(self.base, state);
        assert_eq!(self.algorithm.unpack(self.base, words), self.state());
        assert!(words[0] < 1 << 63, "the highest bit is the store's");
    }

    /// Checks that a decision on the words of the state `before` leaves the words of the present state.
    fn asked<const WORDS: usize>(&self, before: [u64; 6], at: Timestamp, cost: u64) {
        let mut words: [u64; WORDS] =
            self.algorithm.pack(self.base, &self.algorithm.unpack(self.base, before));
        assert!(self.algorithm.ask_packed(self.base, &mut words, at, cost).is_allowed());
        assert_eq!(words, self.algorithm.pack(self.base, &self.state()), "asked as packed");
    }

    /// Packs the state, and checks the promises about the words.
    fn store(&mut self, state: &R::State) {
        self.words = self.algorithm.pack(self.base, state);
        assert!(self.words[0] < 1 << 63, "the highest bit is the store's");
        match self.algorithm.packing() {
            Packing::One => self.fits::<1>(state),
            Packing::Two => self.fits::<2>(state),
            Packing::Six | Packing::Unpacked => {}
        }
        assert_eq!(self.algorithm.pack(self.base, &self.state()), self.words, "packed again");
    }
}

impl<R: Algorithm> Packed for Of<R> {
    fn ask(&mut self, at_us: u64, cost: u64) -> bool {
        let (before, at) = (self.words, Timestamp::from_micros(at_us));
        let (mut state, counts) = self.at(at);
        let verdict = self.algorithm.ask(&mut state, counts, cost);
        if verdict == Verdict::Allow && cost > 0 {
            self.store(&state);
        }
        assert_eq!(self.algorithm.ask_packed(self.base, &mut before.clone(), at, cost), verdict);
        match self.algorithm.packing() {
            _ if verdict != Verdict::Allow => {}
            Packing::One => self.asked::<1>(before, at, cost),
            Packing::Two => self.asked::<2>(before, at, cost),
            Packing::Six | Packing::Unpacked => self.asked::<6>(before, at, cost),
        }
        verdict.is_allowed()
    }

    fn refund(&mut self, at_us: u64, units: u64) {
        let (mut state, at) = self.at(Timestamp::from_micros(at_us));
        self.algorithm.give_back(&mut state, at, units);
        self.store(&state);
    }

    fn values(&self, at_us: u64) -> (u64, u64) {
        let read = Timestamp::from_micros(at_us);
        let (state, at) = self.at(read);
        let reset_after = self.algorithm.reset_after(&state, at);
        assert_eq!(self.algorithm.is_idle(&state, at), reset_after.is_zero());
        let wait =
            if reset_after.is_zero() { 0 } else { at.plus(reset_after).since(read).as_micros() };
        (self.algorithm.remaining(&state, at), wait)
    }

    fn retry_after(&self, at_us: u64, cost: u64) -> Option<u64> {
        let read = Timestamp::from_micros(at_us);
        let (state, at) = self.at(read);
        let denied = self.algorithm.decide(&state, at, cost) == Verdict::Deny;
        let wait = || at.plus(self.algorithm.retry_after(&state, at, cost)).since(read);
        denied.then(|| wait().as_micros())
    }

    fn would_admit(&self, at_us: u64, cost: u64) -> bool {
        let (state, at) = self.at(Timestamp::from_micros(at_us));
        self.algorithm.decide(&state, at, cost).is_allowed()
    }
}

/// A packed limiter whose words count from the first reading; `None` if it cannot be packed.
struct New(Timestamp);

impl Visitor for New {
    type Out = Option<Box<dyn Packed>>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
        let packed = Of { algorithm: algorithm.clone(), base: self.0, words: [0; 6] };
        (algorithm.packing() != Packing::Unpacked).then(|| Box::new(packed) as Box<dyn Packed>)
    }
}

/// No store of packed states runs for longer than this.
const HORIZON_US: u64 = 1 << 48;

/// Walks random policies that can be packed, each with a trace of its own.
fn walk(mut step: impl FnMut(&mut Rng, &mut Walker, u64, u64)) {
    let policies = if testkit::threads::long() { 3_000 } else { 300 };
    let (mut steps, mut packed) = (0, 0);
    for algorithm in model::AlgorithmKind::ALL {
        for seed in 0..policies {
            let rng = &mut Rng::new(seed);
            let policy = traffic::policy(rng, algorithm);
            let trace = traffic::trace(rng, &policy, 300);
            let base_us = trace[0].0;
            let new = New(Timestamp::from_micros(base_us));
            let Some(limiter) = common::rule(&policy).unwrap().visit(new).flatten() else {
                continue;
            };
            packed += 1;
            let model = Model::new(policy.clone());
            let mut walker = Walker { limiter, model, base_us, last_us: 0, policy, seed };
            for (at_us, cost) in trace.into_iter().take_while(|(at, _)| at - base_us < HORIZON_US) {
                steps += 1;
                step(rng, &mut walker, at_us, cost);
            }
        }
    }
    assert!(steps > 200_000 && packed > 3 * policies, "{steps} steps of {packed} policies");
}

/// A packed limiter next to its model.
struct Walker {
    limiter: Box<dyn Packed>,
    model: Model,
    /// The base of the words: no reading is older.
    base_us: u64,
    /// When the last unit was taken.
    last_us: u64,
    policy: model::Policy,
    seed: u64,
}

impl Walker {
    /// Compares the limiter with its model at `at_us`.
    fn compare(&mut self, at_us: u64) {
        let (seen, want) = (self.limiter.values(at_us), self.model.peek(at_us, 1));
        let want = (want.remaining, want.reset_after_us);
        assert_eq!(seen, want, "seed {}, at {at_us}: {:?}", self.seed, self.policy);
    }
}

#[test]
fn what_is_packed_after_every_step_decides_as_the_models() {
    walk(|rng, walker, at_us, cost| {
        if rng.chance(15) {
            walker.limiter.refund(at_us, cost);
            walker.model.refund(at_us, cost);
        } else {
            let allowed = walker.limiter.ask(at_us, cost);
            let said = walker.model.step(at_us, cost).allowed;
            assert_eq!(allowed, said, "seed {}, at {at_us}: {:?}", walker.seed, walker.policy);
        }
        walker.compare(at_us);
    });
}

/// A thread reads the clock, is delayed, and gets the state only after others took units of it at
/// later times. Units that it is admitted count as of the last of those times, at the earliest: the
/// model, asked at that time, must admit them too. The other way round a late reader may be refused
/// too much.
#[test]
fn a_reading_that_was_overtaken_admits_nothing_that_a_later_one_would_refuse() {
    walk(|rng, walker, at_us, cost| {
        let late = rng.chance(40);
        let by = rng.pick([1, walker.policy.window_us / 3, walker.policy.window_us]);
        let by = if late { by.max(1) } else { 0 };
        let read_us = at_us.saturating_sub(by).max(walker.base_us);
        let counts_us = read_us.max(walker.last_us);
        if walker.limiter.ask(read_us, cost) {
            let said = walker.model.step(counts_us, cost).allowed;
            assert!(said, "seed {}, read {read_us}, counts {counts_us}", walker.seed);
            walker.last_us = if cost > 0 { counts_us } else { walker.last_us };
        } else {
            assert!(late || !walker.model.peek(counts_us, cost).allowed, "refused at {at_us}");
        }
        walker.compare(at_us.max(walker.last_us));
    });
}

/// A thread whose reading was overtaken waits from that reading on: its wait is long enough, and
/// not a microsecond longer; and after the wait until the limiter is idle nothing is used.
#[test]
fn who_waits_from_a_reading_that_was_overtaken_is_admitted_after_what_was_answered() {
    let (mut waits, mut overtaken) = (0, 0);
    walk(|rng, walker, at_us, cost| {
        walker.limiter.ask(at_us, cost);
        let window_us = walker.policy.window_us;
        let into_us = at_us % window_us;
        let by = rng.pick([0, 1, into_us, into_us + 1, into_us + 7, window_us / 3]);
        let read_us = at_us.saturating_sub(by).max(walker.base_us);
        if let Some(wait_us) = walker.limiter.retry_after(read_us, cost) {
            let then_us = read_us + wait_us;
            let case = format!("seed {}, read {read_us}: {:?}", walker.seed, walker.policy);
            assert!(wait_us > 0 && walker.limiter.would_admit(then_us, cost), "{case}");
            assert!(!walker.limiter.would_admit(then_us - 1, cost), "{case}");
            waits += 1;
            overtaken += u32::from(by > into_us);
        }
        let (_, reset_us) = walker.limiter.values(read_us);
        assert_eq!(walker.limiter.values(read_us + reset_us).1, 0, "seed {}", walker.seed);
    });
    assert!(waits > 10_000 && overtaken > 1_000, "{waits} waits, {overtaken} overtaken");
}

/// Takes a thousand million units while closed, and gives them back, packed after each step; then
/// takes the units in use.
struct Closed;

impl Visitor for Closed {
    /// The units in use after taking most and after giving nearly all of them back, and whether the words say at the
    /// end that nothing is used and no window runs.
    type Out = Option<(u64, u64, bool)>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
        let at = Timestamp::from_micros(1_700_000_000_000_500);
        let mut packed = Of { algorithm: algorithm.clone(), base: at, words: [0; 6] };
        let mut state = packed.state();
        algorithm.take(&mut state, at, MAX_LIMIT);
        packed.store(&state);
        let taken = algorithm.used(&packed.state(), at);
        let mut state = packed.state();
        algorithm.give_back(&mut state, at, MAX_LIMIT - 1);
        packed.store(&state);
        let left = algorithm.used(&packed.state(), at);
        algorithm.give_back(&mut state, at, 1);
        packed.store(&state);
        let is_idle = algorithm.is_idle(&packed.state(), at);
        (algorithm.packing() != Packing::Unpacked).then_some((
            taken,
            left,
            is_idle == (packed.words == [0; 6]),
        ))
    }
}

/// Units used under the largest possible limit are not cut down to the number that a limit of 0
/// could use.
#[test]
fn a_packed_limit_of_0_keeps_whatever_was_used() {
    let mut packed = 0;
    for algorithm in model::AlgorithmKind::ALL {
        for window_us in [0, 1_000, 1_000_000, 86_400_000_000] {
            for anchor_first_request in [false, true] {
                let policy = model::Policy::new(algorithm, 0, window_us);
                let policy = model::Policy { anchor_first_request, ..policy };
                let Some(used) = common::rule(&policy).unwrap().visit(Closed).flatten() else {
                    continue;
                };
                packed += 1;
                assert_eq!(used, (MAX_LIMIT, 1, true), "{policy:?}");
            }
        }
    }
    assert!(packed >= 40, "only {packed} are packed");
}
