//! Observers of every decision of a gate.
//!
//! A gate notifies them after each decision, outside of all locks. The files of this folder are the observers that
//! the crate has: statistics of each rule, a recorder of requests, and events and counts for two facades.

mod by_rule;
#[cfg(feature = "metrics")]
mod metrics_observer;
#[cfg(feature = "json")]
mod recorder;
mod rule_outcome;
mod rule_statistics;
#[cfg(feature = "tracing")]
mod tracing_observer;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[cfg(feature = "metrics")]
pub use metrics_observer::MetricsObserver;
#[cfg(feature = "json")]
pub use recorder::{Recorder, RecorderCounts};
pub use rule_outcome::RuleOutcome;
pub use rule_statistics::{OutcomeCounts, RuleStatistics, StatisticsOfRule};
#[cfg(feature = "tracing")]
pub use tracing_observer::TracingObserver;

use crate::answer::Answer;
use crate::request::Request;

/// An observer of every decision of a [`Gate`](crate::Gate): for metrics, logs and alarms.
///
/// It is called once for each decided request, after the decision and outside of all locks, on the
/// caller's thread. The caller gets its answer when this returns, so it should be quick. Calls for
/// concurrent decisions are concurrent, and in any order. A panic in it reaches the caller: the
/// decision stands, and units that were taken stay taken.
///
/// It is also called for a request that is repeated under its id, whose answer [is
/// repeated](Answer::is_repeated): nothing was decided then, and nothing taken.
///
/// A function is an observer as well:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, Answer, Descriptor, Gate, Policy, Request, RuleSpec, Setup, Spec};
///
/// static REFUSED: AtomicUsize = AtomicUsize::new(0);
/// let count = |_: &Request<'_>, answer: &Answer<'_>| {
///     REFUSED.fetch_add(usize::from(!answer.is_allowed()), Relaxed);
/// };
/// let rule = RuleSpec::new("all", Spec::new(AlgorithmKind::FixedWindow, 1, Duration::from_secs(86_400)));
/// let gate = Gate::new(Setup::new(Policy::new(vec![rule])?).observer(Arc::new(count)));
///
/// let descriptors = [Descriptor::new(&[]).cost(2)];
/// assert!(!gate.check(&Request::new("default", &descriptors)).is_allowed());
/// assert_eq!(REFUSED.load(Relaxed), 1);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
pub trait Observer: Send + Sync {
    /// Called when a request was decided, before `answer` is returned to the caller.
    fn decided(&self, request: &Request<'_>, answer: &Answer<'_>);
}

impl<F: Fn(&Request<'_>, &Answer<'_>) + Send + Sync> Observer for F {
    fn decided(&self, request: &Request<'_>, answer: &Answer<'_>) {
        self(request, answer);
    }
}

/// Returns another number for each observer of the process that keeps data with policies.
fn next_owner() -> usize {
    static OWNERS: AtomicUsize = AtomicUsize::new(0);
    OWNERS.fetch_add(1, Relaxed)
}

/// All observers of a gate.
#[derive(Default)]
pub(crate) struct Observers(Vec<Arc<dyn Observer>>);

impl Observers {
    pub(crate) fn add(&mut self, observer: Arc<dyn Observer>) {
        self.0.push(observer);
    }

    #[inline]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notifies all observers, in the order in which they were added.
    #[inline]
    pub(crate) fn notify(&self, request: &Request<'_>, answer: &Answer<'_>) {
        self.0.iter().for_each(|observer| observer.decided(request, answer));
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observers").field(&self.0.len()).finish()
    }
}
