//! The cases that are measured, each with subjects that are compared with its first subject. A new way to decide in the
//! engine gets a subject here for each case that it changes.

use super::Subject;
use super::gates::{Ask, Gates};
use super::listeners::{Kept, Server};
use super::raw::{Raw, Shape};
use crate::overload::cases::{Listener, Load, Scenario};
use std::path::Path;
use std::time::Duration;
use tidegate::LeaseSpec;

/// Subjects that are compared.
pub struct Case {
    pub name: &'static str,
    pub subjects: Vec<Named>,
}

/// A subject with its name.
pub struct Named {
    pub name: &'static str,
    pub kind: Kind,
}

/// The subject of a measurement: a store or listener, and the way it is asked.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Gates in this process.
    Gates(Ask),
    /// A server, at one of its listeners.
    Server(Load, Scenario, Kept),
    /// Commands in a pipeline, without any gate.
    Raw(Shape),
}

impl Kind {
    /// Starts it.
    ///
    /// # Errors
    /// When a program is missing or does not start.
    pub fn begin(self, tidegate: Option<&Path>) -> Result<Box<dyn Subject>, String> {
        Ok(match self {
            Self::Gates(ask) => Box::new(Gates::begin(ask)?),
            Self::Server(load, scenario, kept) => {
                Box::new(Server::begin(tidegate, load, scenario, kept)?)
            }
            Self::Raw(shape) => Box::new(Raw::begin(shape)?),
        })
    }
}

const fn gates(name: &'static str, ask: Ask) -> Named {
    Named { name, kind: Kind::Gates(ask) }
}

const fn raw(name: &'static str, shape: Shape) -> Named {
    Named { name, kind: Kind::Raw(shape) }
}

const RESP: Load = Load { listener: Listener::Resp, connections: 50, depth: 16 };
const GRPC: Load = Load { listener: Listener::Grpc, connections: 10, depth: 10 };

/// A limit a second that decisions in process do not reach.
const MANY: u64 = 100_000_000;

const fn lease(max_percent: u8, life_ms: u64) -> LeaseSpec {
    LeaseSpec { max_percent, life: Duration::from_millis(life_ms) }
}

/// One node whose leases are limited by their `max`, in percent of 200,000 units: their life needs more.
const fn sized(max_percent: u8) -> Ask {
    let lease = Some(lease(max_percent, 10));
    Ask { tasks: 128, limit: MANY / 10, capacity: Some(200_000), lease, ..Ask::HOT }
}

/// One, two and four nodes.
fn nodes(name: &'static str, ask: Ask) -> Case {
    let subjects = vec![
        gates("1 node", ask),
        gates("2 nodes", Ask { nodes: 2, ..ask }),
        gates("4 nodes", Ask { nodes: 4, ..ask }),
    ];
    Case { name, subjects }
}

/// A listener on one key, or on many.
fn listener(name: &'static str, load: Load, scenario: Scenario) -> Case {
    let of = |name, kept| Named { name, kind: Kind::Server(load, scenario, kept) };
    let mut subjects = vec![of("memory", Kept::Memory), of("exact", Kept::Store)];
    if scenario == Scenario::OneKey {
        subjects.push(of("leased", Kept::Leased));
        subjects.push(of("refused, denial memory", Kept::Refused));
    }
    Case { name, subjects }
}

/// All cases.
pub fn all() -> Vec<Case> {
    const HOT: Ask = Ask::HOT;
    const REFUSED: Ask = Ask { refused: true, ..HOT };
    const DISTINCT: Ask = Ask { keys: 100_000, tasks: 256, ..HOT };
    const NODES: Ask = Ask { tasks: 128, ..HOT };
    // As `lease = "auto"`.
    const LEASED: Ask = Ask { limit: MANY, lease: Some(lease(10, 200)), ..HOT };
    const LEASED_NODES: Ask = Ask { tasks: 128, ..LEASED };
    const SPLIT: Ask = Ask { limit: MANY, split: true, ..HOT };
    const SPLIT_NODES: Ask = Ask { tasks: 128, ..SPLIT };
    vec![
        Case {
            name: "one hot key, in process",
            subjects: vec![
                gates("exact, one by one", Ask { tasks: 1, ..HOT }),
                gates("exact", HOT),
                gates("leased, one by one", Ask { tasks: 1, ..LEASED }),
                gates("leased", LEASED),
                gates("split", SPLIT),
            ],
        },
        Case {
            name: "refused callers who keep asking, in process",
            subjects: vec![
                gates("exact", Ask { tasks: 1, ..REFUSED }),
                gates("denial memory", Ask { tasks: 1, denial_memory: true, ..REFUSED }),
                gates("exact, 64 at once", REFUSED),
                gates("denial memory, 64 at once", Ask { denial_memory: true, ..REFUSED }),
            ],
        },
        Case {
            name: "distinct keys, one primary",
            subjects: vec![
                raw("unbatched, 32 in a pipeline", Shape::Alone),
                raw("batched, 32 in a call", Shape::Each),
                gates("gate, 256 at once", DISTINCT),
            ],
        },
        Case {
            name: "floors, 32 in a pipeline",
            subjects: vec![
                raw("INCR", Shape::Incr),
                raw("EVALSHA of nothing", Shape::Nothing),
                raw("a script of the shape of redis-cell", Shape::Cell),
            ],
        },
        nodes("one hot key, nodes", NODES),
        nodes("one hot key, leased, nodes", LEASED_NODES),
        Case {
            name: "one hot key, leased, size of a lease",
            subjects: vec![
                gates("max 1 %", sized(1)),
                gates("max 2 %", sized(2)),
                gates("max 5 %", sized(5)),
            ],
        },
        nodes("one hot key, split, nodes", SPLIT_NODES),
        Case {
            name: "distinct keys, cluster",
            subjects: vec![
                gates("1 primary", Ask { primaries: 1, ..DISTINCT }),
                gates("2 primaries", Ask { primaries: 2, ..DISTINCT }),
                gates("3 primaries", Ask { primaries: 3, ..DISTINCT }),
            ],
        },
        listener("one hot key, RESP 50x16", RESP, Scenario::OneKey),
        listener("one hot key, gRPC 10x10", GRPC, Scenario::OneKey),
        listener("distinct keys, gRPC 10x10", GRPC, Scenario::ManyKeys),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_has_a_name_of_its_own() {
        let cases = all();
        let names = cases.iter().flat_map(|case| {
            case.subjects.iter().map(|subject| format!("{}/{}", case.name, subject.name))
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
    }
}
