//! The observer of all decisions: one for the gate, which passes each decision to the statistics, the tail, the
//! counts of unmatched requests, the top keys and the recorder. It runs on the thread that decides.

use std::fmt;
use std::sync::{Arc, OnceLock};

use tidegate::{Answer, Observer, Recorder, Request, RuleStatistics, Setup};

use super::tail::Tail;
use super::top_keys::TopKeys;
use super::unmatched::Unmatched;

/// Counts decisions, and shows them to those who watch.
pub(crate) struct Watching {
    /// Decisions, by rule.
    pub(crate) statistics: RuleStatistics,
    /// Gives decisions to those who watch.
    pub(crate) tail: Arc<Tail>,
    /// Counts requests that no rule matches.
    pub(crate) unmatched: Unmatched,
    /// The most frequent keys, if they are counted.
    pub(crate) top_keys: OnceLock<TopKeys>,
    /// The requests of the last minutes, if they are recorded.
    pub(crate) recorder: OnceLock<Recorder>,
}

impl Watching {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            statistics: RuleStatistics::new(),
            tail: Arc::new(Tail::new()),
            unmatched: Unmatched::new(),
            top_keys: OnceLock::new(),
            recorder: OnceLock::new(),
        })
    }

    /// Watches the gate that is made of `setup`; no gate in a build for benchmarks, which shows what watching costs.
    pub(super) fn watch(self: &Arc<Self>, setup: impl Into<Setup>) -> Setup {
        let setup = setup.into();
        if cfg!(unwatched) { setup } else { setup.observer(Arc::<Self>::clone(self)) }
    }
}

impl Observer for Watching {
    fn decided(&self, request: &Request<'_>, answer: &Answer<'_>) {
        self.statistics.decided(request, answer);
        self.tail.decided(request, answer);
        if answer.matches_nothing(request) {
            self.unmatched.note(request, answer.is_no_rule());
        }
        if let Some(top_keys) = self.top_keys.get() {
            top_keys.decided(request, answer);
        }
        if let Some(recorder) = self.recorder.get() {
            recorder.decided(request, answer);
        }
    }
}

impl fmt::Debug for Watching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watching")
    }
}
