//! Verbs after a decision: units come back or are taken later, permits last longer, limiters are reset.

use std::cell::Cell;

use super::{Gate, Stepped};
use crate::answer::Answer;
use crate::clock::Clock;
use crate::frontend::{Taken, with_actual};
use crate::inline_list::InlineList;
use crate::request::Request;
use crate::step::{Ask, Source, Step};

impl<C: Clock> Gate<C> {
    /// Gives the request's cost back to each of its limiters, down to nothing used at most. The answer reports the
    /// limiters' values after that.
    pub fn refund<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        self.give_back(&request.into()).answer()
    }

    /// Refunds; compiled once, for any form of a request.
    fn give_back(&self, request: &Request<'_>) -> Stepped {
        let (generation, (asks, done)) = self.memory.ask(|generation| {
            let asks = self.asks(generation, request);
            let done = self.memory.step(generation, &asks, &self.clock, Step::Refund)?;
            Ok((asks, done))
        });
        self.wake(&asks);
        Stepped { generation, asks, done }
    }

    /// Settles an admitted request whose costs were reserved: each of its descriptors turned out to cost `actual`. In
    /// one atomic step, every limiter of the request gets the surplus back, down to nothing used at most, or is charged
    /// the shortfall, even into debt. The answer reports the limiters' values after that.
    pub fn settle<'r>(&self, request: impl Into<Request<'r>>, actual: u64) -> Answer<'_> {
        let request = &request.into();
        let chosen = |mut all: Vec<(Ask, u64)>| {
            // Nothing says that a rule took the cost before it became unlimited.
            all.retain(|(ask, _)| !ask.is_unlimited || ask.source != Source::Rule);
            all
        };
        self.settle_those(request, &[actual], chosen).answer()
    }

    /// Settles a request with the limiters that took its cost, as [`Taken`] says, even if the rules have changed since:
    /// a limiter of a rule that was added, or that the request matches no more, is left alone.
    ///
    /// `actual` is the final cost of each descriptor, in their order; the last holds for the rest.
    pub fn settle_taken<'r>(
        &self,
        request: impl Into<Request<'r>>,
        taken: &Taken,
        actual: &[u64],
    ) -> Answer<'_> {
        let (request, unreached) = (&request.into(), Cell::default());
        let stepped = self.settle_those(request, actual, |all| {
            unreached.set(taken.unreached(request, actual, &all));
            taken.of(all)
        });
        Answer { unreached: unreached.take(), ..stepped.answer() }
    }

    /// Makes each permit that a request took, of a rule of `concurrency`, last its life from now, in one atomic step.
    /// Returns whether all of them were still out: if not, the work has to stop, because others may have its place.
    ///
    /// Units of other rules need no renewal. A permit whose rule was removed, or that keys without room share, counts
    /// as out no more.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Gate, Policy, RuleSpec, Spec, Taken};
    ///
    /// let exports = Spec::new(AlgorithmKind::Concurrency, 5, Duration::from_secs(30));
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("exports", exports).key(["tenant"])])?);
    /// let request = ("default", &[("tenant", "acme")]);
    /// let taken = Taken::from(&gate.check(request));
    /// assert!(gate.renew_taken(request, &taken));
    /// let _ = gate.settle_taken(request, &taken, &[0]);
    /// assert!(!gate.renew_taken(request, &taken));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn renew_taken<'r>(&self, request: impl Into<Request<'r>>, taken: &Taken) -> bool {
        let request = &request.into();
        let (_, are_out) = self.memory.ask(|generation| {
            let asks = taken.permits_of(self.all_asks(generation, request));
            asks.map_or(Ok(false), |asks| {
                Ok(self.memory.renew(generation, &asks, &self.clock)?.allowed)
            })
        });
        are_out
    }

    /// Settles, in one atomic step, with the limiters of the request that `chosen` keeps, each for its own `actual`
    /// units.
    pub(crate) fn settle_those(
        &self,
        request: &Request<'_>,
        actual: &[u64],
        chosen: impl Fn(Vec<(Ask, u64)>) -> Vec<(Ask, u64)>,
    ) -> Stepped {
        let (generation, (asks, done)) = self.memory.ask(|generation| {
            // A limiter that is unlimited now may have been taken from before.
            let resolve = |request: &Request<'_>| {
                let mut asks = InlineList::new();
                self.resolve(generation, request, |_| true, &mut asks);
                asks
            };
            let all = chosen(with_actual(request, actual, resolve));
            let (asks, actual): (InlineList<_>, Vec<_>) = all.into_iter().unzip();
            let done = self.memory.settle(generation, &asks, &actual, &self.clock)?;
            Ok((asks, done))
        });
        self.wake(&asks);
        Stepped { generation, asks, done }
    }

    /// Resets every limiter of the request, in one atomic step, and lifts the bans of their keys; returns the number
    /// of limiters. Nothing counts as used then: a bucket that begins with fewer tokens
    /// ([`Spec::initial`](crate::Spec::initial)) is full.
    pub fn reset<'r>(&self, request: impl Into<Request<'r>>) -> usize {
        self.forget(&request.into())
    }

    /// Resets; compiled once, for any form of a request.
    fn forget(&self, request: &Request<'_>) -> usize {
        let (_, asks) = self.memory.ask(|generation| {
            let asks = self.all_asks(generation, request);
            self.front.bans.lift(&asks, |ask| ask.fingerprint);
            self.memory.reset(generation, &asks, &self.clock)?;
            Ok(asks)
        });
        self.wake(&asks);
        asks.len()
    }
}
