//! Histories of requests for one limiter while its limit changes, and what they must be.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tidegate::{Answer, Limit};

/// The decision on one request of one unit.
#[derive(Clone, Copy, Debug)]
struct Asked {
    begun: u64,
    ended: u64,
    is_admitted: bool,
    /// The limit that decided it.
    limit: u64,
    /// Units that were used then, its own included.
    used: u64,
}

/// One limit after another.
#[derive(Clone, Copy, Debug)]
struct Changed {
    begun: u64,
    ended: u64,
    limit: u64,
}

/// Requests and changes, each with the moments between which it came in force.
#[derive(Debug, Default)]
pub(crate) struct History {
    moments: AtomicU64,
    asked: Mutex<Vec<Asked>>,
    changed: Mutex<Vec<Changed>>,
}

impl History {
    pub(crate) fn now(&self) -> u64 {
        self.moments.fetch_add(1, SeqCst)
    }

    /// Notes the answer of a request that began at `begun`; the limiter of the rule `r` decided it.
    pub(crate) fn note(&self, begun: u64, answer: &Answer<'_>) -> bool {
        let ended = self.now();
        let matched = answer.matched();
        let one = matched.iter().find(|one| one.rule().name() == "r").unwrap();
        let Limit::Units(limit) = one.values().spec().limit else { panic!("unlimited") };
        let (is_admitted, used) = (answer.is_allowed(), limit - one.decision().remaining);
        self.asked.lock().unwrap().push(Asked { begun, ended, is_admitted, limit, used });
        is_admitted
    }

    /// Notes a limit that was put in force by `change`.
    pub(crate) fn change(&self, limit: u64, change: impl FnOnce()) {
        let begun = self.now();
        change();
        let ended = self.now();
        self.changed.lock().unwrap().push(Changed { begun, ended, limit });
    }

    /// Checks the rules of the naive model, which hold in every order that it allows: the nth unit is admitted as the
    /// nth, under a limit that holds it and was in force, and a request that is refused under a limit finds that limit
    /// used up.
    pub(crate) fn check(self, has_one_node: bool) -> u64 {
        let (asked, changed) =
            (self.asked.into_inner().unwrap(), self.changed.into_inner().unwrap());
        let admitted = || asked.iter().filter(|one| one.is_admitted);
        let mut used: Vec<_> = admitted().map(|one| one.used).collect();
        used.sort_unstable();
        let each_once: Vec<_> = (1..=used.len() as u64).collect();
        assert_eq!(used, each_once, "no unit is lost, and none is given twice");
        let mut begun: Vec<_> = admitted().map(|one| one.begun).collect();
        begun.sort_unstable();
        for one in &asked {
            let then = changed.iter().enumerate().any(|(number, change)| {
                let next = changed.get(number + 1).map_or(u64::MAX, |next| next.ended);
                change.limit == one.limit && change.begun < one.ended && one.begun < next
            });
            assert!(then || !has_one_node, "its limit was not in force: {one:?}");
            let at_most = begun.partition_point(|begun| *begun < one.ended) as u64;
            assert!(one.is_admitted || one.limit <= at_most, "{at_most} were used: {one:?}");
        }
        used.len() as u64
    }
}
