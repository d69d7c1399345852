//! A recorder of requests and their decisions: a trace of the last minutes, for a replay.
//!
//! It is an observer of a gate. This file chooses the requests and writes a line for each; `kept` keeps the lines
//! in bounded memory.

mod kept;

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Serialize, Serializer};
use tidegate_core::{Limit, MAX_COST, Micros};
use tidegate_rules::printable;

use super::{Observer, next_owner};
use crate::answer::{Answer, Matched};
use crate::clock::{Clock, SystemClock};
use crate::json::JsonObject;
use crate::key::canonical_text;
use crate::request::{Descriptor, Request, RequestInternals as _};
use crate::rules::{Policy, PolicyInternals as _};
use kept::{BLOCK_BYTES, KeptLines};

/// The least memory, in bytes.
const LEAST_BYTES: usize = 64 << 10;
/// The longest line that a replay reads, in bytes.
const LINE_BYTES: usize = 1 << 20;

thread_local! {
    /// The line that is being written.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// An [`Observer`] that keeps the requests of the last minutes with their decisions, as a trace for `tidegate replay`.
///
/// It keeps lines of NDJSON in bounded memory, and drops the oldest lines when the memory is full. With
/// [`Recorder::one_in`] it records a sample of the keys: a request is recorded if the key of one of its rules is in the
/// sample, so all requests of such a key are recorded.
///
/// The values of entries that are keys of a rule with [`hide_keys`](crate::RuleSpec::hide_keys) are replaced by a keyed hash,
/// for all requests of the domain of that rule, and so is the id of every request. Equal values have equal hashes, which
/// differ from recorder to recorder.
///
/// A line has the [time](Answer::at) of the decision, the descriptors with their costs, and the limit and the window
/// that each of them [supplies](crate::RequestLimit). It has no plan, no ban and no settlement.
/// Requests without a descriptor are not recorded, because they meet no limiter.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidegate::{Gate, Policy, Recorder, RuleSpec, Setup};
///
/// let recorder = Arc::new(Recorder::new(Duration::from_secs(600), 64 << 20));
/// let policy = Policy::new(vec![RuleSpec::new("per-user", "1/h").key(["user"])])?;
/// let gate = Gate::new(Setup::new(policy).observer(recorder.clone()));
/// assert!(gate.admits(&[("user", "ada")]) && !gate.admits(&[("user", "ada")]));
///
/// let trace: Vec<u8> = recorder.lines().iter().flat_map(|block| block.to_vec()).collect();
/// let trace = String::from_utf8(trace)?;
/// assert_eq!(trace.lines().count(), 2);
/// assert!(trace.lines().all(|line| line.contains(r#""descriptor":{"user":"ada"}"#)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder<C = SystemClock> {
    clock: C,
    owner: usize,
    one_in: u32,
    most_bytes: usize,
    seed: RandomState,
    kept: Mutex<KeptLines>,
    too_long: AtomicU64,
}

/// The counts of a [`Recorder`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecorderCounts {
    /// Memory of the records, in bytes.
    pub bytes: usize,
    /// Records that were dropped before their time, because the memory was full.
    pub no_space: u64,
    /// Requests that were not recorded, because one line would take more than an eighth of the memory, or a MiB.
    pub too_long: u64,
}

impl Recorder {
    /// Records for the time `keep`, in at most this many bytes, at least 64 KiB. No record is kept for longer than `keep`;
    /// it may be dropped a thirty-second of that time earlier, because records are dropped in blocks.
    #[must_use]
    pub fn new(keep: Duration, most_bytes: usize) -> Self {
        Self::with_clock(keep, most_bytes, SystemClock::new())
    }
}

impl<C: Clock> Recorder<C> {
    /// As [`Recorder::new`], with a clock that says when a record is too old: in tests, a copy of the gate's.
    #[must_use]
    pub fn with_clock(keep: Duration, most_bytes: usize, clock: C) -> Self {
        let most_bytes = most_bytes.max(LEAST_BYTES);
        Self {
            clock,
            owner: next_owner(),
            one_in: 1,
            most_bytes,
            seed: RandomState::new(),
            kept: Mutex::new(KeptLines::within(Micros::from_duration(keep), most_bytes)),
            too_long: AtomicU64::new(0),
        }
    }

    /// Records one in this many keys, and all requests of these keys. All recorders choose the same keys, in any process of
    /// the same build. A request that no rule with a `key` matches is in no sample. With 1 or 0 every request is recorded.
    #[must_use]
    pub fn one_in(mut self, keys: u32) -> Self {
        self.one_in = keys.max(1);
        self
    }

    /// The records, in blocks of whole lines, about in order of time. A block that the caller holds stays in memory after
    /// the recorder has dropped it, in addition to the recorder's own maximum.
    #[must_use]
    pub fn lines(&self) -> Vec<Arc<Vec<u8>>> {
        self.kept().lines(self.clock.now())
    }

    /// Its counts now.
    #[must_use]
    pub fn counts(&self) -> RecorderCounts {
        let kept = self.kept();
        let too_long = self.too_long.load(Relaxed);
        RecorderCounts { bytes: kept.bytes(), no_space: kept.no_space(), too_long }
    }

    fn kept(&self) -> MutexGuard<'_, KeptLines> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the key of a rule is in the sample.
    fn samples(&self, request: &Request<'_>, matched: &Matched<'_>) -> bool {
        let rule = matched.rule();
        // Not seeded: all recorders choose the same keys.
        let mut hasher = DefaultHasher::new();
        let Some(descriptor) = matched.descriptor(request) else { return false };
        // By names and values, without the rule: rules with the same key choose the same keys.
        let names = rule.spec().key.iter();
        names.zip(rule.key(descriptor)).for_each(|entry| entry.hash(&mut hasher));
        !rule.spec().key.is_empty() && hasher.finish().is_multiple_of(u64::from(self.one_in))
    }

    /// Writes the line of a request.
    fn write(
        &self,
        request: &Request<'_>,
        answer: &Answer<'_>,
        hidden: &HiddenEntries,
        line: &mut Vec<u8>,
    ) -> Result<(), serde_json::Error> {
        let domain = request.domain();
        let shown = HowShown { hidden, domain, seed: &self.seed };
        let mut object = JsonObject::begin(line);
        object.number("at_us", Some(answer.at().as_micros()));
        if domain != Request::DEFAULT_DOMAIN {
            object.value("domain", &domain)?;
        }
        // One descriptor without values of its own has a shorter form.
        match request.descriptors() {
            [one] if one.own_limit().is_none() => {
                let RecordedDescriptor { descriptor, cost, .. } =
                    RecordedDescriptor::of(one, shown);
                object.value("descriptor", &descriptor)?;
                if cost != 1 {
                    object.number("cost", Some(cost));
                }
            }
            several => {
                object.value(
                    "descriptors",
                    &several
                        .iter()
                        .map(|one| RecordedDescriptor::of(one, shown))
                        .collect::<Vec<_>>(),
                )?;
            }
        }
        if let Some(id) = request.id() {
            // A reservation with the same id is another request.
            object.value("request_id", &hash_of(&self.seed, (id, request.reserves())))?;
        }
        object.flag("allowed", answer.is_allowed());
        object.end();
        line.push(b'\n');
        Ok(())
    }

    /// The longest line.
    fn most_of_one(&self) -> usize {
        (self.most_bytes / 8).min(LINE_BYTES)
    }

    fn keep(&self, line: &[u8]) {
        if line.len() > self.most_of_one() {
            self.too_long.fetch_add(1, Relaxed);
            return;
        }
        let now = self.clock.now();
        self.kept().add(line, now);
    }
}

impl<C: Clock> Observer for Recorder<C> {
    fn decided(&self, request: &Request<'_>, answer: &Answer<'_>) {
        let is_in_sample =
            self.one_in == 1 || answer.all().any(|matched| self.samples(request, &matched));
        if !is_in_sample || request.descriptors().is_empty() {
            return;
        }
        let Some(policy) = answer.rules.policy() else { return };
        let hidden = policy.attached(self.owner, || HiddenEntries::of(policy));
        let Some(hidden) = hidden else { return };
        // Known without writing the line, which may be long.
        if least_bytes(request) > self.most_of_one() {
            self.too_long.fetch_add(1, Relaxed);
            return;
        }
        // Written in a buffer of the thread, so that the lock is held only while the line is copied.
        LINE.with_borrow_mut(|line| {
            line.clear();
            if self.write(request, answer, hidden, line).is_ok() {
                self.keep(&safe_for_terminals(line));
            }
            // One long request must not leave a large buffer with the thread.
            line.shrink_to(BLOCK_BYTES);
        });
    }
}

impl<C> fmt::Debug for Recorder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("one_in", &self.one_in).finish_non_exhaustive()
    }
}

/// The bytes of the texts of a request.
fn least_bytes(request: &Request<'_>) -> usize {
    let entries = request.descriptors().iter().flat_map(|descriptor| descriptor.entries());
    entries.map(|(name, value)| name.len() + value.len()).sum::<usize>() + request.domain().len()
}

/// JSON that shows nothing to a terminal which it would obey.
fn safe_for_terminals(line: &[u8]) -> Cow<'_, [u8]> {
    // All other control characters are escaped in JSON.
    if line.is_ascii() && !line.contains(&0x7f) {
        return Cow::Borrowed(line);
    }
    match printable::json(&String::from_utf8_lossy(line)) {
        Cow::Borrowed(_) => Cow::Borrowed(line),
        Cow::Owned(escaped) => Cow::Owned(escaped.into_bytes()),
    }
}

fn hash_of(seed: &RandomState, value: impl Hash) -> String {
    format!("{:016x}", seed.hash_one(value))
}

/// The domains and names of entries that rules hide.
struct HiddenEntries(Vec<(String, String)>);

impl HiddenEntries {
    fn of(policy: &Policy) -> Self {
        let rules = policy.rules().iter().map(|rule| rule.spec()).filter(|spec| spec.hide_keys);
        Self(
            rules
                .flat_map(|spec| spec.key.iter().map(|name| (spec.domain.clone(), name.clone())))
                .collect(),
        )
    }

    fn has(&self, domain: &str, name: &str) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let name = canonical_text(name);
        self.0.iter().any(|(of, hidden)| of == domain && is_entry_of(hidden, &name))
    }
}

/// Returns whether an entry of this name may be the part `hidden` of a key: `user#2` is the second entry `user`.
fn is_entry_of(hidden: &str, name: &str) -> bool {
    hidden == name || hidden.rsplit_once('#').is_some_and(|(entry, _)| entry == name)
}

/// The form in which the entries of a domain are shown.
#[derive(Clone, Copy)]
struct HowShown<'a> {
    hidden: &'a HiddenEntries,
    domain: &'a str,
    seed: &'a RandomState,
}

/// The entries of a descriptor as an object.
struct RecordedEntries<'a> {
    entries: &'a [(&'a str, &'a str)],
    shown: HowShown<'a>,
}

impl Serialize for RecordedEntries<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let HowShown { hidden, domain, seed } = self.shown;
        to.collect_map(self.entries.iter().map(|(name, value)| {
            let is_hidden = hidden.has(domain, name);
            let value =
                if is_hidden { Cow::Owned(hash_of(seed, value)) } else { Cow::Borrowed(*value) };
            (name, value)
        }))
    }
}

/// A descriptor among several.
#[derive(Serialize)]
struct RecordedDescriptor<'a> {
    descriptor: RecordedEntries<'a>,
    cost: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_us: Option<u64>,
}

impl<'a> RecordedDescriptor<'a> {
    fn of(descriptor: &'a Descriptor<'_>, shown: HowShown<'a>) -> Self {
        let limit = descriptor.own_limit().and_then(|own| own.rules().next()).map(|own| own.spec());
        let (limit, window_us) = match limit.map(|spec| (spec.limit, spec.window)) {
            // A trace says -1 for a request that asks for no limit.
            Some((Limit::Unlimited, _)) => (Some(-1), None),
            Some((Limit::Units(units), Some(window))) => {
                (i64::try_from(units).ok(), Some(Micros::from(window).as_micros()))
            }
            _ => (None, None),
        };
        let entries = RecordedEntries { entries: descriptor.entries(), shown };
        // A request that costs more is refused as well.
        Self { descriptor: entries, cost: descriptor.units().min(MAX_COST), limit, window_us }
    }
}
