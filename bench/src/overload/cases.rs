//! The overload cases: scenario, load, number of servers, and the decision without the store.

use crate::server::asking::{Listener, Template};
use crate::server::load::{Asks, Pace};
use std::fmt;

/// Units an hour that a rule asked for by many admits.
pub const HOT_LIMIT: u32 = 500;
/// Units an hour that a rule of each caller admits.
pub const OWN_LIMIT: u32 = 5;

/// The keys that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// The same one by everybody.
    OneKey,
    /// One of 1,000 callers, whose rule stands next to one that all of them share.
    GlobalBesideOwn,
    /// One of 100,000.
    ManyKeys,
}

impl Scenario {
    pub const ALL: [Self; 3] = [Self::OneKey, Self::GlobalBesideOwn, Self::ManyKeys];

    /// The domain of the rules.
    pub const fn domain(self) -> &'static str {
        match self {
            Self::OneKey => "one",
            Self::GlobalBesideOwn => "beside",
            Self::ManyKeys => "many",
        }
    }

    /// The number of callers.
    pub const fn callers(self) -> usize {
        match self {
            Self::OneKey => 1,
            Self::GlobalBesideOwn => 1_000,
            Self::ManyKeys => 100_000,
        }
    }

    /// Units over the limits, from the units that each caller was admitted.
    pub fn over(self, admitted: &[u32]) -> u64 {
        let beyond = |limit: u32| {
            admitted.iter().map(|units| u64::from(units.saturating_sub(limit))).sum::<u64>()
        };
        let all: u64 = admitted.iter().map(|units| u64::from(*units)).sum();
        match self {
            Self::OneKey => beyond(HOT_LIMIT),
            // A unit may be over both limits.
            Self::GlobalBesideOwn => all.saturating_sub(HOT_LIMIT.into()).max(beyond(OWN_LIMIT)),
            Self::ManyKeys => beyond(OWN_LIMIT),
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneKey => "one key",
            Self::GlobalBesideOwn => "global and own",
            Self::ManyKeys => "100000 keys",
        })
    }
}

/// Where the limiters are, and what becomes of a request that the store does not decide in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// In a store, `on_store_error = "open"`.
    Open,
    /// In a store, `on_store_error = "local"`.
    Local,
    /// In a store, `on_store_error = "closed"`.
    Closed,
    /// In the memory of one server: the highest rate of its listener.
    Memory,
}

impl Setting {
    pub const ALL: [Self; 4] = [Self::Open, Self::Local, Self::Closed, Self::Memory];

    /// The word of the rules.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open | Self::Memory => "open",
            Self::Local => "local",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Memory { "memory" } else { self.word() })
    }
}

/// A number of connections, of all servers together, with a number of requests on their way on each.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub listener: Listener,
    pub connections: usize,
    pub depth: usize,
}

const fn load(listener: Listener, connections: usize, depth: usize) -> Load {
    Load { listener, connections, depth }
}

impl Load {
    pub const ALL: [Self; 9] = [
        load(Listener::Resp, 50, 1),
        load(Listener::Resp, 400, 1),
        load(Listener::Resp, 1_000, 1),
        load(Listener::Resp, 50, 16),
        load(Listener::Resp, 200, 16),
        load(Listener::Http, 50, 1),
        load(Listener::Http, 400, 1),
        load(Listener::Grpc, 50, 1),
        load(Listener::Grpc, 50, 16),
    ];
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}x{}", self.listener, self.connections, self.depth)
    }
}

/// The requests of a scenario under a load.
pub fn asks(scenario: Scenario, load: Load) -> Asks {
    let Load { listener, connections, depth } = load;
    let template = Template::new(listener, scenario.domain());
    let pace = Pace::Closed { depth };
    Asks { listener, template, callers: scenario.callers(), connections, pace }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_over_is_counted_for_each_caller_and_for_all() {
        assert_eq!(Scenario::OneKey.over(&[500]), 0);
        assert_eq!(Scenario::OneKey.over(&[507]), 7);
        assert_eq!(Scenario::ManyKeys.over(&[5, 6, 0, 9]), 5);
        let mut admitted = vec![1; 500];
        assert_eq!(Scenario::GlobalBesideOwn.over(&admitted), 0);
        admitted.push(3);
        assert_eq!(Scenario::GlobalBesideOwn.over(&admitted), 3, "together");
        assert_eq!(Scenario::GlobalBesideOwn.over(&[9, 0]), 4, "by itself");
    }
}
