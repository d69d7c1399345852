//! Previews: a copy of a limiter's state, on which the waiters are played through in order.
//!
//! A queue asks for one to tell a caller how long it would wait; nothing that a preview takes is taken from the
//! limiter.

use tidegate_core::{Algorithm, Micros, Timestamp, Verdict};
#[cfg(feature = "redis")]
use tidegate_core::{Rule, ScriptReply, Visitor};

/// The maximum number of waits tried for one cost before the last result is returned. An algorithm's wait is the
/// shortest that suffices, so one is enough, and more are only for a rounded sum.
const MOST_WAITS: usize = 8;

/// When a cost would be admitted after only the waiters before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Forecast {
    /// The wait until then.
    pub(crate) wait: Micros,
    /// The time for which the admitted request would then be held.
    pub(crate) delay: Micros,
}

/// A limiter in the future, as far as its requests are known.
pub(crate) trait Preview {
    /// Takes `cost` as soon as it fits, but not before the costs that were taken already; returns `None` and takes
    /// nothing if it never fits.
    fn admit(&mut self, cost: u64) -> Option<Forecast>;

    /// Returns when `cost` is admitted after other requests of `units` in total, as if each unit came by itself. Do not
    /// use the preview after this.
    fn admit_behind(&mut self, _units: u64, cost: u64) -> Option<Forecast> {
        self.admit(cost)
    }
}

/// Creates the preview of a state; an empty slot is a limiter that does not exist yet.
pub(super) fn preview<R: Algorithm>(
    algorithm: &R,
    slot: Option<R::State>,
    now: Timestamp,
) -> Box<dyn Preview> {
    let algorithm = algorithm.clone();
    let mut state = slot.unwrap_or_else(|| algorithm.fresh(now));
    let at = algorithm.advance(&mut state, now);
    Box::new(Copied { algorithm, state, now, at })
}

/// Creates the preview of a state that a script returned; `None` if its numbers are invalid.
#[cfg(feature = "redis")]
pub(crate) fn preview_of_reply(rule: &Rule, reply: &ScriptReply) -> Option<Box<dyn Preview>> {
    struct Recalled<'a>(&'a ScriptReply);
    impl Visitor for Recalled<'_> {
        type Out = Option<Box<dyn Preview>>;
        fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
            Some(preview(algorithm, Some(algorithm.decode_state(&self.0.state)?), self.0.now))
        }
    }
    rule.visit(Recalled(reply))?
}

/// A copy of a state, and the instant that it has reached.
struct Copied<R: Algorithm> {
    algorithm: R,
    state: R::State,
    now: Timestamp,
    at: Timestamp,
}

impl<R: Algorithm> Copied<R> {
    /// Advances to the time at which a denied cost fits.
    fn advance_to_fit(&mut self, cost: u64) {
        let wait = self.algorithm.retry_after(&self.state, self.at, cost);
        // At least a microsecond, so that each turn of the loop gets further.
        let then = self.at.plus(wait.max(Micros::from_micros(1)));
        self.at = self.algorithm.advance(&mut self.state, then);
    }
}

impl<R: Algorithm> Preview for Copied<R> {
    fn admit(&mut self, cost: u64) -> Option<Forecast> {
        if cost == 0 {
            return Some(Forecast::default());
        }
        for _ in 0..MOST_WAITS {
            match self.algorithm.decide(&self.state, self.at, cost) {
                Verdict::Allow => break,
                Verdict::Deny => self.advance_to_fit(cost),
                Verdict::Never => return None,
            }
        }
        let delay = self.algorithm.delay(&self.state, self.at, 0);
        self.algorithm.take(&mut self.state, self.at, cost);
        Some(Forecast { wait: self.at.since(self.now), delay })
    }

    /// Exact if a level drains, or if every cost is 1. Too early if larger costs leave windows partly empty, or if a
    /// `sliding_counter` with a small limit admits one unit less in a window.
    fn admit_behind(&mut self, units: u64, cost: u64) -> Option<Forecast> {
        if units == 0 || cost == 0 {
            return self.admit(cost);
        }
        let free = self.algorithm.remaining(&self.state, self.at);
        let more = units.saturating_add(cost).saturating_sub(free);
        // All fit now, or units leave one by one: then the cost comes after the others as it is.
        let Some(lap) = self.algorithm.lap().filter(|_| more > 0) else {
            self.algorithm.take(&mut self.state, self.at, units);
            return self.admit(cost);
        };
        if self.algorithm.decide(&self.state, self.at, cost) == Verdict::Never {
            return None;
        }
        if free > 0 {
            self.algorithm.take(&mut self.state, self.at, free);
        }
        // In each lap, as many units as the limit leave and come.
        let limit = self.algorithm.limit().max(1);
        // The last of so many units is number `rest` of its lap.
        let laps = (more - 1) / limit;
        let rest = (more - 1) % limit + 1;
        let first = match self.algorithm.decide(&self.state, self.at, rest) {
            Verdict::Allow => Micros::ZERO,
            Verdict::Deny => self.algorithm.retry_after(&self.state, self.at, rest),
            Verdict::Never => return None,
        };
        let others = Micros::from_micros(laps.saturating_mul(lap.as_micros()));
        let wait = self.at.plus(first).plus(others).since(self.now);
        Some(Forecast { wait, delay: Micros::ZERO })
    }
}

/// The preview of a rule that admits everything.
pub(super) struct UnlimitedPreview;

impl Preview for UnlimitedPreview {
    fn admit(&mut self, _cost: u64) -> Option<Forecast> {
        Some(Forecast::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate_core::{AlgorithmKind, Rule, Spec, Visitor};

    const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_345_678);

    /// Two previews on a limiter that has taken `taken` units, one every 70 ms.
    struct Two(u64);
    impl Visitor for Two {
        type Out = [Box<dyn Preview>; 2];
        fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
            let mut state = algorithm.fresh(NOW);
            let mut now = NOW;
            for _ in 0..self.0 {
                let _ = algorithm.ask(&mut state, now, 1);
                now = now.plus(Micros::from_micros(70_000));
            }
            [preview(algorithm, Some(state.clone()), now), preview(algorithm, Some(state), now)]
        }
    }

    fn rules() -> Vec<Spec> {
        let of = |algorithm| Spec::new(algorithm, 7, Duration::from_secs(1));
        let [mut strict, mut few] = [AlgorithmKind::SlidingWindow; 2].map(of);
        (strict.strict, few.buckets) = (Some(true), Some(4));
        let mut small = of(AlgorithmKind::TokenBucket);
        small.capacity = Some(3);
        let all = AlgorithmKind::ALL.iter().map(|algorithm| of(*algorithm));
        all.chain([strict, few, small]).collect()
    }

    #[test]
    fn behind_many_of_cost_1_all_at_once_are_foreseen_as_one_by_one() {
        for spec in rules() {
            let rule = Rule::new(spec).unwrap();
            for (taken, units, cost) in
                [(0, 3, 1), (5, 40, 1), (7, 64, 2), (12, 100, 3), (30, 1_000, 1)]
            {
                let [mut one_by_one, mut at_once] = rule.visit(Two(taken)).unwrap();
                (0..units).for_each(|_| assert!(one_by_one.admit(1).is_some()));
                let exact = one_by_one.admit(cost).unwrap();
                let found = at_once.admit_behind(units, cost).unwrap();
                let (exact_us, found_us) = (exact.wait.as_micros(), found.wait.as_micros());
                let case = format!("{:?} {taken} {units} {cost}: {exact:?} {found:?}", rule.spec());
                match rule.spec().algorithm {
                    // With such a small limit, one unit in a window makes a large difference.
                    AlgorithmKind::SlidingCounter => {
                        let least = (exact_us / 7 * 6).saturating_sub(1_000_000);
                        assert!((least..exact_us + 1_000_000).contains(&found_us), "{case}");
                    }
                    // Waits are rounded up, and a full bucket loses the units that it would gain during them.
                    _ => assert!(found_us <= exact_us && exact_us - found_us <= units, "{case}"),
                }
                assert!(
                    exact.delay.as_micros().abs_diff(found.delay.as_micros()) <= units,
                    "{case}"
                );
            }
        }
    }

    #[test]
    fn behind_many_of_larger_costs_nobody_is_foreseen_too_late() {
        for spec in rules() {
            let rule = Rule::new(spec).unwrap();
            let [mut one_by_one, mut at_once] = rule.visit(Two(9)).unwrap();
            let costs = [3, 1, 2, 3, 3, 1, 1, 2];
            costs.iter().for_each(|cost| assert!(one_by_one.admit(*cost).is_some()));
            let (exact, found) = (one_by_one.admit(2), at_once.admit_behind(costs.iter().sum(), 2));
            let (exact, found) = (exact.unwrap().wait, found.unwrap().wait);
            assert!(found <= exact && !found.is_zero(), "{:?}: {exact:?} {found:?}", rule.spec());
            let [_, mut never] = rule.visit(Two(9)).unwrap();
            assert_eq!(never.admit_behind(5, 100), None, "{:?}", rule.spec());
        }
    }
}
