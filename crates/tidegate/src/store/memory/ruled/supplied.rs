//! A peek at a limiter under a rule that a request supplies, while it is under another rule. Only a request that
//! takes or gives back puts the rule in force, so a denial must report when the cost would be admitted.

use tidegate_core::{Decision, Micros, Outcome, Rule, Timestamp, Verdict};

use super::held::RuledEntry;
use super::recent::Recent;
use crate::step::{One, Step};
use crate::store::memory::preview::{Forecast, Preview};
use crate::store::memory::table::Part;

/// A limiter as it is at `now`, to which it has [passed](super::held::AnyOwn::pass), and a `rule` under which it is
/// peeked at.
#[derive(Debug)]
pub(super) struct Supplied<'a> {
    pub(super) entry: &'a RuledEntry,
    pub(super) rule: &'a Rule,
    pub(super) recent: &'a mut Recent,
    pub(super) now: Timestamp,
}

/// The result of a peek.
#[derive(Debug)]
pub(super) struct Seen {
    /// The limiter under the new rule.
    pub(super) tried: RuledEntry,
    pub(super) one: One,
    /// True if the rule must take effect although the cost was denied, because no wait under the old rule suffices:
    /// a bucket that is created with fewer tokens, for example, must exist before it fills.
    pub(super) has_to_begin: bool,
}

impl Supplied<'_> {
    /// Runs the step of `part` on a copy; a denial reports the shortest wait after which the cost would be admitted.
    pub(super) fn look(&mut self, part: &Part<'_>) -> Seen {
        let mut tried = self.after(Micros::ZERO);
        let mut one = tried.any_mut().run(Step::Peek, part.cost, self.now, false);
        tried.any_mut().set_began(self.entry.any().began());
        let mut has_to_begin = false;
        if one.verdict == Verdict::Deny && part.step.wants_values() {
            match self.least_wait(part.cost) {
                Some(wait) => one.decided.decision = self.denied(one.decided.decision, wait),
                None => has_to_begin = true,
            }
        // Without values the only question is if any wait suffices.
        } else if one.verdict == Verdict::Deny {
            has_to_begin = !self.admits_after(self.reset_after(), part.cost);
        }
        Seen { tried, one, has_to_begin }
    }

    /// Returns the denial with this wait. Until the new rule takes effect, the old rule says when the limiter is
    /// idle.
    fn denied(&self, decision: Decision, wait: Micros) -> Decision {
        let outcome = Outcome::Deny { retry_after: wait };
        Decision { outcome, reset_after: self.reset_after().max(wait), ..decision }
    }

    /// Returns the shortest wait after which `cost` is admitted if no request comes before; `None` if it is not
    /// admitted even when nothing is used any more. Without requests, usage only falls.
    fn least_wait(&mut self, cost: u64) -> Option<Micros> {
        if !self.admits_after(self.reset_after(), cost) {
            return None;
        }
        // Usage only falls from now on, so there is a first time that admits the cost, and halving finds it.
        let mut least = 0;
        let mut most = self.reset_after().as_micros();
        // The guess is nearly always right, so that a log is copied only for it and for the microsecond before it.
        let guess = self.guess(cost).map(Micros::as_micros).filter(|guess| *guess < most);
        let mut guesses = guess.into_iter().chain(guess.and_then(|guess| guess.checked_sub(1)));
        while least < most {
            let guess = guesses.next().filter(|guess| (least..most).contains(guess));
            let at = guess.unwrap_or(least + (most - least) / 2);
            if self.admits_after(Micros::from_micros(at), cost) {
                most = at;
            } else {
                least = at + 1;
            }
        }
        Some(Micros::from_micros(most))
    }

    /// Guesses the wait: the time until usage leaves room for `cost` under the old rule.
    fn guess(&mut self, cost: u64) -> Option<Micros> {
        let most = self.after(Micros::ZERO).any().most_units(self.now);
        self.entry.any().until_used(most.checked_sub(cost)?, self.now)
    }

    fn reset_after(&self) -> Micros {
        self.entry.any().reset_after(self.now)
    }

    fn admits_after(&mut self, wait: Micros, cost: u64) -> bool {
        let at = self.now.plus(wait);
        self.after(wait).any_mut().run(Step::Decide, cost, at, false).verdict.is_allowed()
    }

    /// Returns the limiter if it comes under the rule after a wait.
    fn after(&mut self, wait: Micros) -> RuledEntry {
        let mut entry = self.entry.clone();
        entry.carry_to(self.rule, self.recent, self.now.plus(wait));
        entry
    }
}

/// A preview of a copy that comes under `rule` with the first cost that fits.
pub(super) struct AfterChange {
    pub(super) entry: RuledEntry,
    pub(super) rule: Rule,
    pub(super) now: Timestamp,
    /// The preview from that cost on, and the wait until then.
    pub(super) then: Option<(Box<dyn Preview>, Micros)>,
}

impl Preview for AfterChange {
    fn admit(&mut self, cost: u64) -> Option<Forecast> {
        self.admit_behind(0, cost)
    }

    fn admit_behind(&mut self, units: u64, cost: u64) -> Option<Forecast> {
        if cost == 0 {
            return Some(Forecast::default());
        }
        let Self { entry, rule, now, then } = self;
        // Taking the first cost puts the rule in force, so later costs are played through under it.
        let (preview, before) = then.get_or_insert_with(|| {
            let mut supplied = Supplied { entry, rule, recent: &mut Recent::default(), now: *now };
            let at_once = supplied.admits_after(Micros::ZERO, cost);
            let wait = if at_once { None } else { supplied.least_wait(cost) };
            let wait = wait.unwrap_or_default();
            (supplied.after(wait).any().preview(now.plus(wait)), wait)
        });
        let forecast = preview.admit_behind(units, cost)?;
        Some(Forecast { wait: before.plus(forecast.wait), ..forecast })
    }
}
