//! A log that has no memory to grow keeps coarser times, and never exceeds its limit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::VecDeque;

use proptest::prelude::*;
use std::time::Duration;
use tidegate_core::{Algorithm, AlgorithmKind, Held, Rule, Spec, Timestamp, Visitor};

const WINDOW_US: u64 = 1_000_000;
const LIMIT: u64 = 100;

/// Gaps, costs, and whether there is memory to grow.
type Asked = Vec<(u64, u64, bool)>;

struct Walk<'a>(&'a Asked);

impl Visitor for Walk<'_> {
    type Out = ();

    /// Units are taken in place: no window holds more than the limit, nothing grows, and after an idle window the
    /// limiter is idle.
    fn visit<R: Algorithm>(self, algorithm: &R) {
        let (mut slot, mut now_us) = (None, 0_u64);
        let (mut inside, mut units) = (VecDeque::<(u64, u64)>::new(), 0);
        for (gap_us, cost, grows) in self.0 {
            now_us += gap_us;
            let bytes =
                |slot: &Option<R::State>| slot.as_ref().map(|state| algorithm.heap_bytes(state));
            let before = bytes(&slot);
            let held = Held::new(algorithm, &mut slot, *cost);
            let mut held = if *grows { held } else { held.in_place() };
            let admitted = held.ask(Timestamp::from_micros(now_us)).is_allowed();
            if !*grows && before.is_some_and(|bytes| bytes > 0) {
                assert!(bytes(&slot) <= before, "it grew");
            }
            while let Some((_, left)) = inside.pop_front_if(|(at, _)| *at + WINDOW_US <= now_us) {
                units -= left;
            }
            if admitted {
                inside.push_back((now_us, *cost));
                units += cost;
            }
            assert!(units <= LIMIT, "{units} units in one window");
        }
        let idle = Timestamp::from_micros(now_us + WINDOW_US);
        assert!(Held::new(algorithm, &mut slot, LIMIT).ask(idle).is_allowed());
    }
}

proptest! {
    #[test]
    fn a_log_that_can_not_grow_is_never_over_its_limit(
        asked in prop::collection::vec((0..60_000_u64, 0..9_u64, prop::bool::weighted(0.3)), 1..400)
    ) {
        let window = Duration::from_micros(WINDOW_US);
        Rule::new(Spec::new(AlgorithmKind::SlidingLog, LIMIT, window)).unwrap().visit(Walk(&asked));
    }
}
