//! Counts the entries that a verdict reads, and compares them with a bound that does not depend on
//! N.

extern crate std;

use alloc::vec::Vec;
use core::cell::Cell;

use super::{LogRing, SlidingLog, State};
use crate::algorithm::Decide;
use crate::decision::Verdict;
use crate::spec::Spec;
use crate::time::{Micros, Timestamp};
use crate::{AlgorithmKind, Held, Settlement};

const SECOND_US: u64 = 1_000_000;

std::thread_local! {
    static LOOKS: Cell<u32> = const { Cell::new(0) };
}

/// Counts an entry that is read.
pub(super) fn count() {
    LOOKS.set(LOOKS.get() + 1);
}

/// A log with a window of one second that counts the entries its verdicts read.
struct WatchedLog {
    algorithm: SlidingLog,
    state: State,
    admitted: u32,
    denied: u32,
}

impl WatchedLog {
    fn new(limit: u64) -> Self {
        let window = Micros::from_micros(SECOND_US);
        let spec = Spec::new(AlgorithmKind::SlidingLog, limit, window.into());
        let algorithm = SlidingLog::build(&spec, limit, window).unwrap();
        let state = algorithm.fresh(Timestamp::EPOCH);
        Self { algorithm, state, admitted: 0, denied: 0 }
    }

    /// A log that is full: one entry for each unit, over one second.
    fn full(limit: u64) -> Self {
        let mut log = Self::new(limit);
        let every_us = SECOND_US / limit;
        for unit in 1..=limit {
            assert!(log.ask(unit * every_us, 1));
        }
        assert_eq!(log.state.ring.len() as u64, limit);
        (log.admitted, log.denied) = (0, 0);
        log
    }

    fn looks_of<T>(&mut self, work: impl FnOnce(&SlidingLog, &mut State) -> T) -> (T, u32) {
        LOOKS.set(0);
        let done = work(&self.algorithm, &mut self.state);
        (done, LOOKS.get())
    }

    /// Decides, and compares the entries read in each step with a bound that depends on the cost
    /// alone.
    fn ask(&mut self, at_us: u64, cost: u64) -> bool {
        let at = Timestamp::from_micros(at_us);
        let search = cost.ilog2() + 1;
        let (verdict, looks) = self.looks_of(|algorithm, state| algorithm.decide(state, at, cost));
        assert!(looks <= search, "{looks} looks for {cost} units at {at_us}: {:?}", self.algorithm);
        let (_, looks) = self.looks_of(|algorithm, state| algorithm.retry_after(state, at, cost));
        assert!(looks <= search, "{looks} looks for a wait of {cost}: {:?}", self.algorithm);
        if verdict != Verdict::Allow {
            self.denied += 1;
            return false;
        }
        self.admitted += 1;
        let before = self.state.ring.chunks();
        let (_, looks) = self.looks_of(|algorithm, state| algorithm.take(state, at, cost));
        assert!(
            looks <= search + 3,
            "{looks} looks to take {cost} at {at_us}: {:?}",
            self.algorithm
        );
        let freed = before.saturating_sub(self.state.ring.chunks());
        assert!(freed <= LogRing::FREED_AT_ONCE, "{freed} chunks freed for {cost} at {at_us}");
        assert!(
            self.state.held() <= self.algorithm.limit,
            "more held than N: {:?}",
            self.algorithm
        );
        true
    }
}

/// Costs that fit a log of ten.
const COSTS: [u64; 9] = [1, 2, 3, 1, 10, 7, 1, 4, 5];

#[test]
fn a_verdict_looks_no_further_than_its_cost_whatever_n() {
    for limit in [10, 1_000_000] {
        let mut log = WatchedLog::full(limit);
        let every_us = SECOND_US / limit;
        let mut at_us = SECOND_US;
        for cost in COSTS.into_iter().cycle().take(5_000) {
            log.ask(at_us, cost);
            at_us += 2 * every_us;
        }
        assert!(log.admitted > 1_000 && log.denied > 1_000, "{}, {}", log.admitted, log.denied);
    }
}

#[test]
fn a_verdict_after_a_whole_window_looks_no_further_either() {
    for limit in [10, 1_000_000] {
        for cost in [1, 3, 10, limit / 3, limit - 1, limit] {
            let mut log = WatchedLog::full(limit);
            assert!(log.ask(2 * SECOND_US, cost), "{cost} of {limit}");
            assert!(!log.ask(2 * SECOND_US, limit), "{cost} of {limit}");
            assert!(cost == limit || log.ask(2 * SECOND_US, 1), "{cost} of {limit}");
        }
    }
}

/// A refund leaves no empty entries in the way.
#[test]
fn a_verdict_after_a_refund_looks_no_further_either() {
    for limit in [10, 1_000_000] {
        for given_back in [1, limit / 2, limit - 3] {
            let mut log = WatchedLog::full(limit);
            let at_us = SECOND_US + 5 * (SECOND_US / limit);
            let at = Timestamp::from_micros(at_us);
            log.algorithm.give_back(&mut log.state, at, given_back);
            for cost in COSTS {
                log.ask(at_us, cost);
            }
            log.ask(2 * SECOND_US, 10);
        }
    }
}

/// Entries that had left when the last unit was taken are dropped in one step, however many; only
/// entries that have left since are moved.
#[test]
fn a_refund_moves_only_what_left_since_the_last_unit() {
    for limit in [10, 1_000_000] {
        for left_since in [0, 1, 4] {
            let mut log = WatchedLog::full(limit);
            let every_us = SECOND_US / limit;
            let search = limit.ilog2() + 1;
            let last_us = SECOND_US + SECOND_US * 4 / 10;
            assert!(log.ask(last_us, 1));
            let at = Timestamp::from_micros(last_us + left_since * every_us);
            let count = SlidingLog::count(&log.state, at);
            let (_, looks) = log.looks_of(|algorithm, state| algorithm.give_back(state, at, 2));
            let bound = 3 * search + 2 * left_since as u32 + 10;
            assert!(looks <= bound, "{looks} looks, {left_since} left of {limit}");
            assert_eq!(SlidingLog::count(&log.state, at), count - 2);
            // A slightly earlier reading still counts units that have left since.
            let last = Timestamp::from_micros(last_us);
            assert_eq!(SlidingLog::count(&log.state, last), count - 2 + left_since);
        }
    }
}

/// Settling has to search for units that have left; later verdicts search only because of the debt.
#[test]
fn a_debt_is_all_that_a_verdict_looks_at_besides() {
    for limit in [10, 1_000_000] {
        let mut log = WatchedLog::full(limit);
        let mut slot = Some(log.state.clone());
        let at = Timestamp::from_micros(2 * SECOND_US);
        let _ = Held::new(&log.algorithm, &mut slot, 0)
            .settle(at, Settlement { actual: limit + 5, ..Settlement::default() });
        log.state = slot.unwrap();
        assert_eq!(log.state.held(), limit + 5);
        let (verdict, looks) = log.looks_of(|algorithm, state| algorithm.decide(state, at, 1));
        assert_eq!(verdict, Verdict::Deny);
        assert!(looks <= 6_u64.ilog2() + 1, "{looks}");
    }
}

/// The chunks of a million units are freed a few at a time, by the units that come after them.
#[test]
fn what_is_no_longer_needed_is_freed_little_by_little() {
    let mut log = WatchedLog::full(1_000_000);
    let full = log.state.ring.chunks();
    assert!(log.ask(3 * SECOND_US, 1_000_000));
    assert!(log.state.ring.len() == 1 && log.state.ring.chunks() > full - 4);
    let looks: Vec<u64> = (1..=500)
        .map(|unit| {
            assert!(log.ask((4 + unit) * SECOND_US, 1_000_000));
            log.algorithm.heap_bytes(&log.state)
        })
        .collect();
    assert!(looks.is_sorted_by(|before, after| before >= after), "it grows: {looks:?}");
    assert!(log.state.ring.chunks() <= 2, "{} chunks", log.state.ring.chunks());
}

/// All chunks of the log are dropped at once, and only some are freed: the last takes the next units.
#[test]
fn a_take_in_place_after_the_window_of_a_full_log_allocates_nothing() {
    for limit in [10, 1_024, 4_096] {
        let mut log = WatchedLog::full(limit);
        let at = Timestamp::from_micros(3 * SECOND_US);
        let before = log.state.ring.chunks();
        log.algorithm.take_in_place(&mut log.state, at, limit);
        let freed = LogRing::FREED_AT_ONCE.min(before - 1);
        assert_eq!(log.state.ring.chunks(), before - freed, "{limit}");
        assert_eq!(log.state.held(), limit);
        assert!(!log.ask(3 * SECOND_US + 1, 1), "{limit}");
    }
}
