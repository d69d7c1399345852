//! States take no more memory than their parameters say.

use std::time::Duration;

use tidegate_core::{AlgorithmKind, Micros, Rule, Spec, Visitor};

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);
const WINDOW_US: u64 = 1_000_000;

/// Runs a limiter through bursts and pauses, and checks its heap bytes after every unit.
struct Play {
    rng: u64,
}

impl Play {
    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.rng = self.rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        (self.rng >> 33) % end
    }
}

impl Visitor for Play {
    type Out = ();

    fn visit<R: Algorithm>(mut self, algorithm: &R) {
        let need = Parameters::new(algorithm.clone()).heap;
        let (mut state, mut now, mut before, mut grew) = (algorithm.fresh(NOW), NOW, 0, 0);
        for step in 0..20_000 {
            let pause_us = match self.below(1_000) {
                0 => 2 * WINDOW_US,
                1..10 => WINDOW_US / 3,
                _ => 1 + self.below(20),
            };
            now = now.plus(Micros::from_micros(pause_us));
            let taken = algorithm.ask(&mut state, now, 1 + self.below(3)).is_allowed();
            let heap = heap_bytes(algorithm, &state);
            let most = if step == 0 { need.first } else { before + need.next };
            assert!(!taken || heap <= most, "{algorithm:?}: {before}, then {heap} bytes");
            assert!(
                heap <= most_heap_bytes(algorithm) + 2 * need.next,
                "{algorithm:?}: {heap} bytes"
            );
            grew += usize::from(heap > before);
            before = heap;
        }
        assert_eq!(need.next > 0, grew > 1, "{algorithm:?} grew {grew} times");
    }
}

#[test]
fn no_unit_takes_more_memory_than_is_claimed_for_it() {
    for limit in [2, 3, 5, 8, 10, 17, 60, 100, 257, 1_000, 4_100, 20_000] {
        for algorithm in [AlgorithmKind::SlidingLog, AlgorithmKind::SlidingWindow] {
            let spec = Spec::new(algorithm, limit, Duration::from_micros(WINDOW_US));
            Rule::new(spec).unwrap().visit(Play { rng: limit }).unwrap();
        }
    }
}
