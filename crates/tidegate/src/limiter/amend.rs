//! Changing the rule of a limiter at run time, and reading its current values.

use tidegate_core::{Rule, RuleErrors, Spec};

use super::{KeyedLimiter, Limiter};
use crate::clock::{Clock, Reading};
use crate::rules::RuleSpec;

impl<C: Clock> Limiter<C> {
    /// Replaces the rule by a rule of any algorithm, atomically: no decision mixes both rules, and no unit is lost
    /// between them.
    ///
    /// The limiter is first brought up to date under the old rule. Used units stay used: a higher
    /// limit adds the difference, a lower one may leave a debt, and a change to another rule and
    /// back gives no credit. If the algorithm, the window or its parts change, units in use count
    /// as taken now. An unlimited rule counts nothing and forgets nothing.
    ///
    /// A limiter that was never changed pays nothing for this; a changed one keeps its state under
    /// a lock.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Limiter, Spec};
    ///
    /// let per_day = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(86_400));
    /// let limiter = Limiter::new(per_day(100))?;
    /// assert!(limiter.admits(80));
    /// limiter.amend(per_day(120))?;
    /// assert_eq!(limiter.peek(1).remaining, 40);
    /// limiter.amend(per_day(50))?;
    /// assert_eq!(limiter.peek(1).remaining, 0);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns every invalid field of the spec; the old rule stays in force.
    pub fn amend(&self, spec: Spec) -> Result<(), RuleErrors> {
        let rule = Rule::new(spec)?;
        self.replacement.amend(&*self.cell, &rule, Reading::of(&self.clock));
        self.queues.wake(&());
        Ok(())
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// Replaces the rule of all keys, including those that already have limiters: see
    /// [`Limiter::amend`]. The caps on keys stay; the new rule sets `max_memory`.
    ///
    /// The new rule decides immediately. A limiter is moved when its key is used next, or by this
    /// call, which returns when all are moved; no caller has to wait for that. The first change
    /// keeps the memory of packed states, about 30 bytes for the largest number of keys so far,
    /// until this `KeyedLimiter` is dropped; later changes keep nothing.
    ///
    /// If keys have plans ([`KeyedLimiter::with_plans`]), this changes the rule of keys without a
    /// plan, each when it is used next; the bounds on memory stay.
    ///
    /// ```
    /// use tidegate::{KeyedLimiter, Spec};
    ///
    /// let limiter = KeyedLimiter::new(Spec::per_hour(10))?;
    /// assert!(limiter.admits("ada", 8));
    /// limiter.amend(Spec::per_hour(20))?;
    /// assert_eq!(limiter.peek("ada", 1).remaining, 12);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns every invalid field of the spec, or a `max_memory` that is too small for the
    /// existing limiters; the old rule stays in force, and nothing is lost.
    pub fn amend(&self, spec: Spec) -> Result<(), RuleErrors> {
        let rule = Rule::new(spec)?;
        let changed = self.usual.change(&rule, |holds| match self.plans {
            Some(_) => {
                self.limiters.amend_usual(&rule);
                holds();
                Ok(())
            }
            None => {
                let caps = RuleSpec { spec, ..self.caps.clone() };
                let published = || {
                    holds();
                    self.queues.wake_all();
                };
                self.limiters.amend(&rule, &caps, || self.clock.now(), published)
            }
        });
        self.queues.wake_all();
        changed
    }
}
