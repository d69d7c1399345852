//! THE LIST of all measurements: each case with its limit, its keys and the expected verdicts.

use crate::workload::Order;
use std::time::Duration;

/// The limit every limiter of a case is built with: `capacity` units at once, from full, and one
/// more per `every`.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Units that can be taken at once. For a window: N.
    pub capacity: u64,
    /// Time per unit. For a window: W/N.
    pub every: Duration,
}

impl Rule {
    /// So high that no run comes near it.
    pub const PLENTY: Self = Self { capacity: 1 << 31, every: Duration::from_micros(1) };
    /// One unit, and the next in an hour: used up by the filling before the timing.
    pub const ONE_AN_HOUR: Self = Self { capacity: 1, every: Duration::from_secs(3600) };

    /// N in W = N microseconds, but at least a millisecond, which is the shortest window: at most a million a second,
    /// which every subject exceeds.
    const fn window_of(units: u64) -> Self {
        let window_us = if units < 1_000 { 1_000 } else { units };
        Self { capacity: units, every: Duration::from_micros(window_us / units) }
    }
}

/// The kind of limiter that a case asks of its subjects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One limiter, without any key.
    One,
    /// The same, asked for all values of the decision.
    Checked,
    /// A limiter per key.
    Keyed,
    /// Either of the above: the only key is asked from all threads at once.
    HotKey,
    /// One limiter over a window of `capacity` units, kept full by asking more than it admits.
    Window,
    /// The same by a clock that moves on by [`Rule::every`] at each decision: one unit leaves the
    /// window and one is admitted, each time.
    Sliding,
    /// The cost of counting a decision, next to the decision.
    Counted,
    /// A gate whose rules have a limiter per key.
    Gate,
    /// A limiter per key in a table that may hold no more than [`Case::keys`], whose memory is looked at while it is
    /// filled.
    Table,
    /// A service in a layer that limits each peer.
    Layer,
}

/// The decisions that a case expects; anything else ends the run with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// All are allowed.
    Allowed,
    /// All are denied.
    Denied,
    /// Some of either.
    Either,
}

/// One thing that is measured, over all the subjects that can do it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Cases that are read together.
    pub group: &'static str,
    /// Unique in its group.
    pub name: &'static str,
    /// The subject that the ratios of the table are against.
    pub base: &'static str,
    /// Kind of limiter.
    pub shape: Shape,
    /// Its limit.
    pub rule: Rule,
    /// The number of keys that are filled in before, and asked.
    pub keys: u64,
    /// In which order they are asked.
    pub order: Order,
    /// The number of threads that ask at once.
    pub threads: usize,
    /// The expected decisions.
    pub expect: Expect,
}

const ONE: Case = Case {
    group: "one limiter",
    name: "one limiter, allow",
    base: "governor/direct",
    shape: Shape::One,
    rule: Rule::PLENTY,
    keys: 1,
    order: Order::Uniform,
    threads: 1,
    expect: Expect::Allowed,
};

const KEYED: Case = Case { group: "keyed", base: "governor/String", shape: Shape::Keyed, ..ONE };

/// A million keys in turn, at random.
pub const MILLION: Case = Case { name: "1000000 keys", keys: 1_000_000, ..KEYED };

/// A million keys in a table that may hold no more, all in use.
pub const TABLE: Case =
    Case { group: "memory", name: "bytes per key", shape: Shape::Table, ..MILLION };

const WINDOW: Case = Case {
    group: "windows",
    base: "tidegate/token_bucket",
    shape: Shape::Window,
    expect: Expect::Either,
    ..ONE
};

const SLIDING: Case = Case { shape: Shape::Sliding, expect: Expect::Allowed, ..WINDOW };

const COUNTED: Case = Case {
    group: "statistics",
    name: "counting a decision",
    base: "floor/clock",
    shape: Shape::Counted,
    ..ONE
};

const GATE: Case = Case {
    group: "gate",
    name: "rules on a request, 1000 keys",
    base: "tidegate/KeyedLimiter",
    shape: Shape::Gate,
    keys: 1_000,
    ..ONE
};

/// A request through a layer to a service that does nothing, one peer of a thousand after the other.
pub const LAYER_ADMITTED: Case = Case {
    group: "layer",
    name: "admitted",
    base: "tower_governor, 2 fields",
    shape: Shape::Layer,
    keys: 1_000,
    ..ONE
};

/// A request that a layer refuses.
const LAYER_REFUSED: Case =
    Case { name: "refused", rule: Rule::ONE_AN_HOUR, expect: Expect::Denied, ..LAYER_ADMITTED };

/// The cases of a layer, which have a command of their own.
pub const LAYER: &[Case] = &[LAYER_ADMITTED, LAYER_REFUSED];

/// All other cases, in the order in which they run.
pub const ALL: &[Case] = &[
    ONE,
    Case { name: "one limiter, deny", rule: Rule::ONE_AN_HOUR, expect: Expect::Denied, ..ONE },
    Case {
        name: "one limiter, all values",
        base: "tidegate/token_bucket",
        shape: Shape::Checked,
        ..ONE
    },
    Case { name: "1 key", ..KEYED },
    Case { name: "1000 keys", keys: 1_000, ..KEYED },
    MILLION,
    Case { name: "1000000 keys skewed", keys: 1_000_000, order: Order::Zipf, ..KEYED },
    Case {
        group: "threads",
        name: "2 threads, hot key",
        shape: Shape::HotKey,
        threads: 2,
        ..KEYED
    },
    Case { name: "window full, N = 10", rule: Rule::window_of(10), ..WINDOW },
    Case { name: "window full, N = 1000000", rule: Rule::window_of(1_000_000), ..WINDOW },
    Case { name: "window sliding, N = 10", rule: Rule::window_of(10), ..SLIDING },
    Case { name: "window sliding, N = 1000000", rule: Rule::window_of(1_000_000), ..SLIDING },
    GATE,
    COUNTED,
    Case { name: "counting a decision, 2 threads", threads: 2, ..COUNTED },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_two_cases_of_a_group_have_one_name() {
        let names: HashSet<_> = ALL.iter().map(|case| (case.group, case.name)).collect();
        assert_eq!(names.len(), ALL.len());
    }
}
