//! The subjects: one file per peer, each with a small list of its abilities.
//!
//! To add a subject: a file here with `pub fn offers(case: &Case) -> Vec<Candidate>`, and one
//! line in [`PEERS`]. A subject that cannot do a case offers nothing for it.

mod floor;
mod gate;
mod governor;
mod leaky_bucket;
mod limitador;
mod ratelimit;
mod statistics;
mod tables;
mod throttlecrab;
mod tidegate;

use crate::cases::{Case, Rule};
use crate::pace::Pace;
use crate::workload::Ask;
use dashmap::DashMap;
use std::hash::Hash;
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

/// Adds up the numbers of the keys it is asked for.
#[cfg(test)]
impl Subject for std::sync::atomic::AtomicU64 {
    fn decide(&self, ask: &Ask) -> bool {
        self.fetch_add(ask.number, std::sync::atomic::Ordering::Relaxed);
        true
    }
}

/// A subject that a case could measure, not built yet.
pub struct Candidate {
    /// `project/variant`.
    pub name: &'static str,
    build: Box<dyn Fn() -> Box<dyn Subject>>,
}

impl Candidate {
    /// Named `name`, built by `build`, and asked by `decide`.
    pub fn asked<T: Send + Sync + 'static>(
        name: &'static str,
        build: impl Fn() -> T + 'static,
        decide: impl Fn(&T, &Ask) -> bool + Copy + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, move || Box::new(Asked { limiter: build(), decide }))
    }

    /// Named `name`, built by `build`.
    pub fn new(name: &'static str, build: impl Fn() -> Box<dyn Subject> + 'static) -> Self {
        Self { name, build: Box::new(build) }
    }

    /// A new limiter, as at its first request.
    pub fn build(&self) -> Box<dyn Subject> {
        (self.build)()
    }
}

/// A limiter, and a function that asks it.
struct Asked<T, D> {
    limiter: T,
    decide: D,
}

impl<T: Send + Sync, D: Fn(&T, &Ask) -> bool + Send + Sync> Subject for Asked<T, D> {
    fn decide(&self, ask: &Ask) -> bool {
        (self.decide)(&self.limiter, ask)
    }
}

/// The keys of a table that is asked by one kind of key, both of which are there when the request comes in.
trait Key: Hash + Eq + Clone + Send + Sync + 'static {
    /// The key of `ask`, without allocating.
    fn of(ask: &Ask) -> &Self;
}

impl Key for String {
    fn of(ask: &Ask) -> &Self {
        &ask.key
    }
}

impl Key for u64 {
    fn of(ask: &Ask) -> &Self {
        &ask.number
    }
}

/// Limiters that have no table of their own, put into a `DashMap`, as users of such crates do; `new` makes a limiter at
/// its key's first request.
///
/// Known keys are looked up under a shard's read lock by reference; the key is cloned (a `String` allocates) only at its
/// first request.
fn per_key<K: Key, L: Send + Sync + 'static>(
    name: &'static str,
    new: impl Fn() -> L + Copy + Send + Sync + 'static,
    decide: impl Fn(&L) -> bool + Copy + Send + Sync + 'static,
) -> Candidate {
    Candidate::asked(name, DashMap::<K, L>::new, move |table, ask| {
        let key = K::of(ask);
        if let Some(limiter) = table.get(key) {
            return decide(&limiter);
        }
        decide(&table.entry(key.clone()).or_insert_with(new))
    })
}

/// Unwraps a limiter or gate: all their rules are written here.
#[expect(clippy::expect_used, reason = "a rule of this project that is not sound is to be mended")]
pub fn sound<L, E: std::fmt::Debug>(built: Result<L, E>) -> L {
    built.expect("a sound rule")
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
    flooded.push(Flooded { candidate: governor::by_text(rule), most_admitted: None });
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
