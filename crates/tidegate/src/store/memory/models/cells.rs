//! One limiter without a key: the word or words that are replaced, and the state next to them.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate_core::{AlgorithmKind, Rule, Spec};

use super::{BASE, MANY, NOW, WINDOW, explore, spec, together, two_words};
use crate::clock::Reading;
use crate::step::Step;
use crate::store::memory::Unkeyed;

/// A way to keep a state: a rule of a given number of units, and the cost of one unit.
#[derive(Clone, Copy)]
struct Kind {
    spec: fn(u64) -> Spec,
    unit: u64,
}

const ONE_WORD: Kind = Kind { spec, unit: 1 };
const TWO_WORDS: Kind = Kind { spec: two_words, unit: MANY };
const UNPACKED: Kind = Kind { spec: log, unit: 1 };
/// Two words, with counts of 32 bits.
const COUNTER: Kind = Kind { spec: counter, unit: 1 << 20 };
const KINDS: [Kind; 3] = [ONE_WORD, TWO_WORDS, UNPACKED];

/// A spec whose limit is too large for a single word.
fn counter(limit: u64) -> Spec {
    let mut spec = Spec::new(AlgorithmKind::SlidingCounter, limit << 20, WINDOW);
    spec.max_debt = Some(u64::MAX);
    spec
}

/// A spec with a state that is never packed.
fn log(limit: u64) -> Spec {
    Spec::new(AlgorithmKind::SlidingLog, limit, WINDOW)
}

/// A shared limiter with a given number of units.
#[derive(Clone)]
struct Limiter {
    cell: Arc<Unkeyed>,
    kind: Kind,
    unit: u64,
}

impl Limiter {
    fn new(kind: Kind, limit: u64) -> Self {
        let rule = Rule::new((kind.spec)(limit)).expect("a sound rule");
        Self { cell: Arc::new(Unkeyed::new(&rule, Some(BASE))), kind, unit: kind.unit }
    }

    fn admits(&self, units: u64) -> bool {
        self.cell.admits(units * self.unit, NOW, &NOW)
    }

    fn check(&self, units: u64) -> bool {
        self.cell.step(units * self.unit, Step::Ask, Reading::of(&NOW)).verdict.is_allowed()
    }

    fn refund(&self, units: u64) -> bool {
        self.cell.step(units * self.unit, Step::Refund, Reading::of(&NOW)).verdict.is_allowed()
    }

    /// Settles a reservation of no units for `actual` single units, not units of the kind.
    fn owe(&self, actual: u64) -> bool {
        self.cell
            .step(0, Step::Settle { actual, token: None, since: None }, Reading::of(&NOW))
            .decided
            .decision
            .remaining
            == 0
    }

    fn amend(&self, limit: u64) -> bool {
        let rule = Rule::new((self.kind.spec)(limit)).expect("a sound rule");
        self.cell.amend(&rule, Reading::of(&NOW));
        true
    }

    fn reset(&self) -> bool {
        self.cell.step(0, Step::Reset { remembers: true }, Reading::of(&NOW));
        true
    }

    /// Runs both at once, each on a thread of its own.
    fn both<T: 'static>(
        &self,
        first: impl FnOnce(Self) -> T,
        second: impl FnOnce(Self) -> T + 'static,
    ) -> [T; 2] {
        let other = self.clone();
        let other = loom::thread::spawn(move || second(other));
        [first(self.clone()), other.join().expect("a thread failed")]
    }

    fn left(&self) -> u64 {
        let peeked = self.cell.step(1, Step::Peek, Reading::of(&NOW));
        let left = peeked.decided.decision.remaining;
        assert_eq!(left % self.unit, 0, "halves of two states");
        left / self.unit
    }
}

/// The verdicts for these costs in any serial order.
fn serial(limit: u64, costs: &[u64]) -> BTreeSet<Vec<bool>> {
    let numbers: Vec<_> = (0..costs.len()).collect();
    let verdicts = orders(&numbers).into_iter().map(|order| {
        let (mut left, mut verdicts) = (limit, vec![false; costs.len()]);
        for number in order {
            verdicts[number] = costs[number] <= left;
            left -= costs[number] * u64::from(verdicts[number]);
        }
        verdicts
    });
    verdicts.collect()
}

fn orders(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let begun_with = |first: &usize| {
        let rest: Vec<_> = of.iter().filter(|one| *one != first).copied().collect();
        let begin = |rest: Vec<usize>| [vec![*first], rest].concat();
        orders(&rest).into_iter().map(begin).collect::<Vec<_>>()
    };
    of.iter().flat_map(begun_with).collect()
}

/// Each interleaving gives the verdicts of some serial order, and leaves what that order leaves.
fn is_serial(kind: Kind, limit: u64, costs: &'static [u64], values: bool) {
    let expected = serial(limit, costs);
    explore(3, move || {
        let limiter = Limiter::new(kind, limit);
        let ask = |cost: &u64| {
            let (limiter, cost) = (limiter.clone(), *cost);
            let ask = move || if values { limiter.check(cost) } else { limiter.admits(cost) };
            Box::new(ask) as Box<dyn FnOnce() -> bool>
        };
        let admitted = together(costs.iter().map(ask).collect());
        assert!(expected.contains(&admitted), "{costs:?} of {limit}: {admitted:?}");
        let taken: u64 =
            costs.iter().zip(&admitted).map(|(cost, yes)| cost * u64::from(*yes)).sum();
        assert_eq!(limiter.left(), limit - taken, "{costs:?} of {limit}: {admitted:?}");
    });
}

#[test]
fn of_a_limit_of_one_two_threads_get_one() {
    for values in [false, true] {
        for kind in KINDS {
            is_serial(kind, 1, &[1, 1], values);
        }
    }
}

/// Three threads only without waiting: if two wait for a third, the model checker lets them yield to each other for
/// ever.
#[test]
fn of_a_limit_of_two_three_threads_get_two() {
    is_serial(ONE_WORD, 2, &[1, 1, 1], false);
    is_serial(TWO_WORDS, 2, &[1, 1], false);
    is_serial(UNPACKED, 2, &[1, 1], false);
}

#[test]
fn different_costs_end_as_in_some_order() {
    for values in [false, true] {
        is_serial(ONE_WORD, 2, &[1, 2, 1], values);
        is_serial(TWO_WORDS, 2, &[2, 1], values);
        is_serial(UNPACKED, 2, &[2, 1], values);
    }
}

#[test]
fn a_refund_is_seen_whole_or_not_at_all() {
    for kind in KINDS {
        explore(3, move || {
            let limiter = Limiter::new(kind, 2);
            assert!(limiter.admits(2));
            let [_, admitted] = limiter.both(|own| own.refund(1), |own| own.admits(1));
            assert_eq!(limiter.left(), 1 - u64::from(admitted));
        });
    }
}

/// A reset between two units removes both, or leaves the second.
#[test]
fn a_limiter_forgotten_while_it_is_asked_is_new_or_one_unit_old() {
    for kind in KINDS {
        explore(3, move || {
            let limiter = Limiter::new(kind, 2);
            assert!(limiter.admits(1));
            assert_eq!(limiter.both(|own| own.reset(), |own| own.admits(1)), [true, true]);
            assert!([1, 2].contains(&limiter.left()));
        });
    }
}

/// Two units are asked for while the limit goes from one to two or three: each is decided under the old or the new
/// rule, and counted once.
#[test]
fn a_unit_taken_while_the_rule_changes_is_counted_once() {
    for (kind, limit) in
        [(ONE_WORD, 2), (ONE_WORD, 3), (TWO_WORDS, 2), (TWO_WORDS, 3), (UNPACKED, 2)]
    {
        explore(3, move || {
            let limiter = Limiter::new(kind, 1);
            let [[first, second], changed] =
                limiter.both(|own| [own.admits(1), own.check(1)], move |own| [own.amend(limit); 2]);
            assert!(changed[0] && first, "the first always fits");
            assert_eq!(limiter.left(), limit - 1 - u64::from(second));
        });
    }
}

/// A limit goes up and down again in one thread: the change leaves no credit.
#[test]
fn a_rule_that_changes_twice_while_it_is_asked_gives_no_credit() {
    for kind in KINDS {
        explore(2, move || {
            let limiter = Limiter::new(kind, 1);
            assert!(limiter.admits(1));
            let [admitted, changed] =
                limiter.both(|own| own.admits(1), |own| own.amend(2) && own.amend(1));
            assert!(changed && limiter.left() == 0);
            assert!(limiter.amend(3));
            assert_eq!(limiter.left(), 2 - u64::from(admitted));
        });
    }
}

/// A refund or reset during a change is not lost in the closed cell.
#[test]
fn what_is_forgotten_while_the_rule_changes_stays_forgotten() {
    for kind in KINDS {
        for give_back in [|own: Limiter| own.refund(2), |own: Limiter| own.reset()] {
            explore(3, move || {
                let limiter = Limiter::new(kind, 2);
                assert!(limiter.admits(2));
                assert_eq!(limiter.both(give_back, |own| own.amend(3)), [true, true]);
                assert_eq!(limiter.left(), 3);
            });
        }
    }
}

/// A debt that does not fit into the words is owed and paid back, so that the state leaves the words and comes back,
/// while units are asked for.
#[test]
fn a_state_that_leaves_the_words_and_comes_back_loses_no_unit() {
    for (kind, debt) in [(ONE_WORD, LARGE), (COUNTER, 1 << 13)] {
        explore(3, move || {
            let limiter = Limiter::new(kind, 3);
            // Other words come back than those that left.
            let owe = |own: Limiter| {
                [own.admits(1) && own.owe(debt * kind.unit) && own.refund(debt + 1), true]
            };
            let [_, admitted] = limiter.both(owe, |own| [own.admits(1), own.check(1)]);
            assert_eq!(limiter.left(), 3 - admitted.map(u64::from).iter().sum::<u64>());
        });
    }
}

/// A count too large for the 14 bits next to the end of its window.
const LARGE: u64 = 100_000;

#[test]
fn debts_too_large_for_a_word_are_each_owed_once() {
    explore(3, || {
        let limiter = Limiter::new(ONE_WORD, 2);
        let [first, second, third] = [(); 3].map(|()| limiter.clone());
        let results = together(vec![
            Box::new(move || first.owe(LARGE)) as Box<dyn FnOnce() -> bool>,
            Box::new(move || second.owe(LARGE)),
            Box::new(move || third.admits(1)),
        ]);
        assert!(results[0] && results[1]);
        assert!(limiter.amend(3 * LARGE));
        assert_eq!(limiter.left(), LARGE - u64::from(results[2]));
    });
}

/// The rule changes, or the limiter is reset or refunded, while such a debt is settled.
#[test]
fn a_debt_too_large_for_a_word_is_owed_whatever_happens_meanwhile() {
    for what in 0..3 {
        explore(3, move || {
            let limiter = Limiter::new(ONE_WORD, 2);
            assert!(limiter.admits(1));
            let other = move |own: Limiter| match what {
                0 => own.amend(3),
                1 => own.refund(1),
                _ => own.reset(),
            };
            assert!(limiter.both(|own| own.owe(LARGE), other)[0]);
            assert!(limiter.amend(3 * LARGE));
            let left = limiter.left();
            match what {
                0 => assert_eq!(left, 2 * LARGE - 1),
                1 => assert_eq!(left, 2 * LARGE),
                _ => assert!([2 * LARGE, 3 * LARGE].contains(&left), "{left}"),
            }
        });
    }
}
