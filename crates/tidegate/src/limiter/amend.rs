//! Changing the rule of a limiter at run time, and looking at how it stands.

use tidegate_core::{Rule, RuleErrors, Spec};

use super::key::Key;
use super::{KeyedLimiter, Limiter};
use crate::clock::{Clock, Reading};
use crate::rules::RuleSpec;

impl<C: Clock> Limiter<C> {
    /// Puts another rule in force, of any algorithm, from one instant to the next: no decision mixes
    /// both, and none is lost between them.
    ///
    /// Time is first settled under the old rule. What was used stays used: a higher limit adds the
    /// difference, a lower one may leave debt, and going there and back gives no credit. Where the
    /// algorithm, the window or its parts change, what counts as used counts as taken now. An unlimited
    /// rule counts nothing, so one that comes after it begins as new.
    ///
    /// A limiter that was never changed pays nothing for this; one that was is kept under a lock.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Limiter, Micros, Spec};
    ///
    /// let per_day = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Micros::from_secs(86_400));
    /// let limiter = Limiter::new(per_day(100))?;
    /// assert!(limiter.admits(80));
    /// limiter.amend(per_day(120))?;
    /// assert_eq!(limiter.available(), 40);
    /// limiter.amend(per_day(50))?;
    /// assert_eq!(limiter.available(), 0);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// All that is wrong with the words of the rule; the old one stays in force.
    pub fn amend(&self, spec: Spec) -> Result<(), RuleErrors> {
        let rule = Rule::new(spec)?;
        self.replacement.amend(self.cell.as_deref(), &rule, Reading::of(&self.clock));
        self.queues.wake(&());
        Ok(())
    }

    /// Units that would be admitted now, one by one; the largest number there is when unlimited.
    pub fn available(&self) -> u64 {
        self.peek(1).remaining
    }

    /// The figure `limit` of its decisions: the limit, the capacity of a bucket, the places of a queue.
    pub fn capacity(&self) -> u64 {
        self.peek(0).limit
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// Puts another rule in force for all keys, those included that have limiters: see
    /// [`Limiter::amend`]. The caps on keys stay; `max_memory` is that of the new rule.
    ///
    /// From then on each limiter is under the new rule: it is moved when its key is next asked, or by this call,
    /// which returns when all are moved; nobody waits meanwhile. The first change leaves the memory of packed
    /// states behind, about 30 bytes for each key that there ever was at once, until the limiters are dropped;
    /// later changes leave nothing.
    ///
    /// Where keys have plans ([`KeyedLimiter::with_plans`]) it is the rule of those that have none, and each of them
    /// follows when it is next asked; what bounds their memory stays.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule, or a `max_memory` in which the limiters that there
    /// are would not fit; the old rule stays in force, and nothing is lost.
    pub fn amend(&self, spec: Spec) -> Result<(), RuleErrors> {
        let rule = Rule::new(spec)?;
        let told = self.usual.change(&rule, |holds| match self.plans {
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
        told
    }

    /// Units that would be admitted for the key now, one by one.
    pub fn available<'r>(&self, key: impl Key<'r>) -> u64 {
        self.peek(key, 1).remaining
    }

    /// The figure `limit` of the key's decisions.
    pub fn capacity<'r>(&self, key: impl Key<'r>) -> u64 {
        self.peek(key, 0).limit
    }
}
