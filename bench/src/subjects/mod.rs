//! The subjects: one file per peer, each with a small list of its abilities.
//!
//! To add a subject: a file here with `pub fn offers(case: &Case) -> Vec<Candidate>`, and one
//! line in [`PEERS`]. A subject that cannot do a case offers nothing for it.

mod floor;
mod gate;
mod governor;
mod key;
mod leaky_bucket;
mod limitador;
mod per_key;
mod ratelimit;
mod statistics;
mod tables;
mod throttlecrab;
mod tidegate;

use crate::cases::{Case, Rule};
use crate::pace::Pace;
use crate::workload::Ask;
pub use tidegate::spec;

/// THE LIST of peers and floors.
const PEERS: &[fn(&Case) -> Vec<Candidate>] = &[
    floor::offers,
    tidegate::offers,
    statistics::offers,
    gate::offers,
    tables::offers,
    governor::offers,
    ratelimit::offers,
    leaky_bucket::offers,
    throttlecrab::offers,
    limitador::offers,
];

/// A limiter, or a table of them by key, that is asked in a tight loop.
pub trait Subject: Send + Sync {
    /// Makes a decision of cost 1; returns whether it was allowed.
    fn decide(&self, ask: &Ask) -> bool;

    /// Decides all of `asks`, in order; returns the number of allowed decisions.
    ///
    /// The timing measures this. Only a subject whose API wants something prepared once, for many decisions, overrides
    /// it.
    fn run(&self, asks: &[Ask], pace: Pace) -> u64 {
        pace.count(asks, |ask| self.decide(ask))
    }
}

/// A subject that a case could measure, not built yet.
pub struct Candidate {
    /// `project/variant`.
    pub name: &'static str,
    build: Box<dyn Fn() -> Box<dyn Subject>>,
}

impl Candidate {
    /// Named `name`, built by `build` from the case's rule.
    pub fn new<S: Subject + 'static>(
        name: &'static str,
        rule: Rule,
        build: impl Fn(Rule) -> S + 'static,
    ) -> Self {
        Self { name, build: Box::new(move || Box::new(build(rule))) }
    }

    /// A new limiter, as at its first request.
    pub fn build(&self) -> Box<dyn Subject> {
        (self.build)()
    }
}

/// A table that hostile keys are sent through.
pub struct Flooded {
    /// The table.
    pub candidate: Candidate,
    /// The number of hostile keys that it may admit; `None` where nothing bounds it.
    pub most_admitted: Option<u64>,
}

/// Tables that may hold no more than `cap` keys, and one that nothing bounds.
pub fn flooded(rule: Rule, cap: u64) -> Vec<Flooded> {
    let mut flooded = tidegate::flooded(rule, cap);
    flooded.push(Flooded { candidate: governor::string(rule), most_admitted: None });
    flooded
}

/// Everyone who can do `case`.
pub fn offers(case: &Case) -> Vec<Candidate> {
    PEERS.iter().flat_map(|peer| peer(case)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::{self, Expect};

    /// Every subject of every case, over few keys: it decides as the case expects.
    #[test]
    fn every_subject_decides_what_its_case_expects() {
        for case in cases::ALL {
            let asks: Vec<Ask> = (0..case.keys.min(100)).map(Ask::of).collect();
            for candidate in offers(case) {
                let subject = candidate.build();
                let first = subject.run(&asks, Pace::Overlapping);
                let second = subject.run(&asks, Pace::Overlapping);
                let message = format!("{} in {}", candidate.name, case.name);
                match case.expect {
                    Expect::Allowed => assert_eq!(second, asks.len() as u64, "{message}"),
                    Expect::Denied => assert_eq!(second, 0, "{message}"),
                    Expect::Either => assert!(first > 0, "{message}"),
                }
            }
        }
    }

    #[test]
    fn no_two_subjects_of_a_case_have_one_name() {
        for case in cases::ALL {
            let mut names: Vec<_> = offers(case).iter().map(|candidate| candidate.name).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{}", case.name);
        }
    }
}
