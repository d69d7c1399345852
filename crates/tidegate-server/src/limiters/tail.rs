//! Decisions as they are taken, for operators who watch: a sample, by rule, outcome and entry. [`Watching`] passes on
//! each decision on the thread that took it, and `GET /v1/decisions` reads.
//!
//! [`Watching`]: super::watching::Watching

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use hyper::body::Bytes;
use serde::Serialize;
use tidegate::{
    Answer, Clock, Limiter, Matched, Micros, Observer, Request, RuleErrors, RuleOutcome, Spec,
    SystemClock, printable,
};
use tokio::sync::mpsc;

use super::key_label::{KeyLabel, fingerprint};

/// The largest number of lines that a reader has not taken yet. Further decisions are skipped.
const UNREAD: usize = 256;

/// Decisions a second that all readers together are given: each takes the thread that decides some microseconds.
const MOST_OF_ALL: u64 = 2_000;

/// The decisions that a reader wants.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    pub(crate) rule: Option<String>,
    pub(crate) outcomes: Vec<RuleOutcome>,
    /// An entry of the key. A rule that hides its keys has none here.
    pub(crate) key: Option<(String, String)>,
}

/// An observer that gives decisions to readers. Without a reader it costs a load.
#[derive(Debug)]
pub(crate) struct Tail {
    clock: SystemClock,
    readers: ArcSwap<Vec<Arc<Reader>>>,
    /// Locked while readers come and go.
    changing: Mutex<()>,
}

/// An operator who watches.
#[derive(Debug)]
struct Reader {
    filter: Filter,
    /// The number of decisions a second that are wanted, and given: less where many readers share them.
    per_second: u64,
    pace: Limiter,
    /// Decisions that the filter admits and that were not given since the last line.
    skipped: AtomicU64,
    lines: mpsc::Sender<Bytes>,
}

/// The decisions of one reader, until it is dropped.
#[derive(Debug)]
pub(crate) struct Watch {
    tail: Arc<Tail>,
    reader: Arc<Reader>,
    pub(crate) lines: mpsc::Receiver<Bytes>,
}

/// A decision of one rule.
#[derive(Serialize)]
struct TailLine {
    at_us: u64,
    #[serde(flatten)]
    label: KeyLabel,
    outcome: &'static str,
    cost: u64,
    limit: u64,
    remaining: u64,
    retry_after_us: Option<u64>,
    /// True if the store did not decide it.
    degraded: bool,
    /// Decisions that match the query and were left out since the line before.
    skipped: u64,
}

impl Tail {
    pub(super) fn new() -> Self {
        Self { clock: SystemClock::new(), readers: ArcSwap::default(), changing: Mutex::default() }
    }

    /// Gives a reader at most this many decisions a second from now on.
    ///
    /// # Errors
    /// Returns an error if that is no rate.
    pub(crate) fn watch(
        self: &Arc<Self>,
        filter: Filter,
        per_second: u32,
    ) -> Result<Watch, RuleErrors> {
        let (send, lines) = mpsc::channel(UNREAD);
        let per_second = per_second.into();
        let reader = Arc::new(Reader {
            filter,
            per_second,
            pace: Limiter::new(Spec::per_second(per_second))?,
            skipped: AtomicU64::new(0),
            lines: send,
        });
        self.change(|readers| readers.push(Arc::clone(&reader)));
        Ok(Watch { tail: Arc::clone(self), reader, lines })
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Arc<Reader>>)) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        // Copied, so that a decision reads the list without the lock.
        let mut readers = self.readers.load().to_vec();
        change(&mut readers);
        // All share one rate, so each reader that comes or goes changes the pace of the others.
        let share = (MOST_OF_ALL / readers.len().max(1) as u64).max(1);
        for reader in &readers {
            let spec = Spec::per_second(reader.per_second.min(share));
            // No such rate is refused.
            let _ = reader.pace.amend(spec);
        }
        self.readers.store(Arc::new(readers));
    }

    #[cold]
    fn give(&self, readers: &[Arc<Reader>], request: &Request<'_>, answer: &Answer<'_>) {
        let now = self.clock.now().as_micros();
        for matched in answer.enforced().chain(answer.shadow()) {
            let outcome = RuleOutcome::of(answer, &matched);
            for reader in readers {
                if reader.filter.admits(request, &matched, outcome) {
                    reader.give(now, request, &matched, (outcome, answer.is_degraded()));
                }
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.tail.change(|readers| readers.retain(|one| !Arc::ptr_eq(one, &self.reader)));
    }
}

impl Observer for Tail {
    fn decided(&self, request: &Request<'_>, answer: &Answer<'_>) {
        let readers = self.readers.load();
        // A repeated answer is no decision.
        if !readers.is_empty() && !answer.is_repeated() {
            self.give(&readers, request, answer);
        }
    }
}

impl Filter {
    fn admits(&self, request: &Request<'_>, matched: &Matched<'_>, outcome: RuleOutcome) -> bool {
        let spec = matched.rule().spec();
        let is_other = self.rule.as_ref().is_some_and(|rule| *rule != spec.name);
        if is_other || !self.outcomes.is_empty() && !self.outcomes.contains(&outcome) {
            return false;
        }
        let Some((name, value)) = &self.key else { return true };
        let Some(given) = matched.descriptor(request) else { return false };
        // Otherwise a reader could find out a hidden key by trying values.
        let mut key = spec.key.iter().zip(matched.rule().key(given));
        !spec.hide_keys && key.any(|(entry, given)| entry == name && given == value)
    }
}

impl Reader {
    fn give(
        &self,
        now: u64,
        request: &Request<'_>,
        matched: &Matched<'_>,
        (outcome, degraded): (RuleOutcome, bool),
    ) {
        // A place in the queue comes first, because a line costs more than a decision.
        let place = if self.pace.admits(1) { self.lines.try_reserve().ok() } else { None };
        let Some(place) = place else {
            self.skipped.fetch_add(1, Relaxed);
            return;
        };
        let mut label = KeyLabel::default();
        let nothing = tidegate::Descriptor::new(&[]);
        let descriptor = matched.descriptor(request).unwrap_or(&nothing);
        label.write(fingerprint(matched.rule(), descriptor), matched.rule(), descriptor);
        let decision = matched.decision();
        let line = TailLine {
            at_us: now,
            label,
            outcome: outcome.name(),
            cost: matched.cost(),
            limit: decision.limit,
            remaining: decision.remaining,
            retry_after_us: decision.retry_after_micros().map(Micros::as_micros),
            degraded,
            skipped: self.skipped.swap(0, Relaxed),
        };
        if let Ok(line) = serde_json::to_string(&line) {
            place.send(printable::json(&line).into_owned().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use tidegate::{Gate, Policy, RuleSpec, Setup};

    fn gate(tail: &Arc<Tail>) -> Gate {
        let user = RuleSpec::new("user", "1/d").key(["user"]);
        let card = RuleSpec::new("card", "9/d").key(["card"]).hide_keys();
        Gate::new(Setup::new(Policy::new(vec![user, card]).unwrap()).observer(tail.clone()))
    }

    fn taken(watch: &mut Watch) -> Vec<Value> {
        let lines = std::iter::from_fn(|| watch.lines.try_recv().ok());
        lines.map(|line| serde_json::from_slice(&line).unwrap()).collect()
    }

    #[test]
    fn a_reader_gets_what_its_filter_admits_and_nothing_once_it_is_gone() {
        let tail = Arc::new(Tail::new());
        let gate = gate(&tail);
        let watch = |filter| tail.watch(filter, 1_000).unwrap();
        let refused = Filter { outcomes: vec![RuleOutcome::Refused], ..Filter::default() };
        let of = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
        let mut all = watch(Filter::default());
        let mut refused = watch(refused);
        let mut ada = watch(Filter { key: of("user", "ada"), ..Filter::default() });
        let mut card = watch(Filter { key: of("card", "4111"), ..Filter::default() });
        for user in ["ada", "ada", "bob"] {
            let _ = gate.check(&[("user", user)]);
        }
        let _ = gate.check(&[("card", "4111")]);
        assert_eq!(taken(&mut all).len(), 4);
        let refused = taken(&mut refused);
        assert_eq!((refused.len(), &refused[0]["key"]["user"]), (1, &Value::from("ada")));
        assert!(refused[0]["retry_after_us"].is_u64(), "{refused:?}");
        assert_eq!(refused[0]["degraded"], false);
        assert_eq!(taken(&mut ada).len(), 2);
        assert_eq!(taken(&mut card).len(), 0, "a hidden key cannot be asked for");
        drop(all);
        assert_eq!(tail.readers.load().len(), 3);
    }

    #[test]
    fn what_is_beyond_the_rate_is_skipped_and_counted() {
        let tail = Arc::new(Tail::new());
        let (gate, mut watch) = (gate(&tail), tail.watch(Filter::default(), 1).unwrap());
        let mut lines = Vec::new();
        for _ in 0..100 {
            let _ = gate.check(&[("user", "ada")]);
            lines.extend(taken(&mut watch));
        }
        // The last of them may be left out, and no line says so yet.
        let left_out = watch.reader.skipped.load(Relaxed);
        let counted: u64 = lines.iter().map(|line| 1 + line["skipped"].as_u64().unwrap()).sum();
        assert!(!lines.is_empty() && counted + left_out == 100, "{lines:?}");
    }

    #[test]
    fn a_line_has_nothing_that_a_terminal_obeys() {
        let tail = Arc::new(Tail::new());
        let (gate, mut watch) = (gate(&tail), tail.watch(Filter::default(), 1_000).unwrap());
        let _ = gate.check(&[("user", "\u{9b}2J\u{202e}")]);
        let line = watch.lines.try_recv().unwrap();
        assert!(line.is_ascii(), "{line:?}");
        let line: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(line["key"]["user"], "\u{9b}2J\u{202e}");
    }

    #[test]
    fn all_readers_share_what_one_second_has() {
        let tail = Arc::new(Tail::new());
        let mut watches: Vec<_> =
            (0..50).map(|_| tail.watch(Filter::default(), 1_000).unwrap()).collect();
        let in_force = |watch: &Watch| watch.reader.pace.peek(1).remaining;
        assert!(watches.iter().all(|watch| in_force(watch) == 40));
        watches.truncate(2);
        assert!(watches.iter().all(|watch| in_force(watch) == 1_000));
    }

    #[test]
    fn a_reader_that_does_not_read_holds_up_nobody() {
        let tail = Arc::new(Tail::new());
        let (gate, mut watch) = (gate(&tail), tail.watch(Filter::default(), 1_000).unwrap());
        for _ in 0..900 {
            let _ = gate.check(&[("user", "ada")]);
        }
        assert_eq!(taken(&mut watch).len(), UNREAD);
    }
}
