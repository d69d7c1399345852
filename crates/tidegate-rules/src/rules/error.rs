//! The errors of a policy: all of its mistakes, each with its place.
//!
//! `check.rs` makes most of them, and `config` puts each at its line of the file.

use std::fmt;
use std::time::Duration;

use tidegate_core::{RuleError, Shown};

use super::choices::{MAX_WAITERS_EXPECTED, WAIT_EXPECTED};
use super::lease::{LEASE_MAX_EXPECTED, LIFE_EXPECTED};
use super::spec::{MAX_KEYS_EXPECTED, UP_TO_A_DAY_EXPECTED};

/// The place of a mistake in a rule.
///
/// ```
/// use tidegate::{OverrideSpec, Place, Policy, RuleSpec};
///
/// let guests = OverrideSpec::new("role", "guest");
/// let rule = RuleSpec::new("per-user", "10/s").key(["user"]).with_override(guests);
/// let errors = Policy::new(vec![rule]).unwrap_err();
/// assert_eq!(errors.iter().next().map(|error| error.place), Some(Place::Override(0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the rule's own fields.
    Rule,
    /// In its override of this number, counted from 0.
    Override(usize),
}

/// The kind of a mistake.
///
/// ```
/// use tidegate::{Policy, Problem, RuleSpec};
///
/// let errors = Policy::new(vec![RuleSpec::new("per user", "10/s")]).unwrap_err();
/// for error in errors.iter() {
///     match &error.problem {
///         Problem::Name(name) => assert_eq!(name, "per user"), // a space
///         other => println!("{other}"), // what is wrong, and what was expected
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The name is not `[a-z0-9._-]{1,64}`.
    Name(String),
    /// The domain is empty.
    EmptyDomain,
    /// An earlier rule of the domain has the same name; its number, counted from 0.
    SameName(usize),
    /// `key` or `when` names an entry twice, or an entry without a name.
    EntryTwice(String),
    /// A `*` that is not at the end of a `when` value.
    StarInside(String),
    /// An override matches on an entry that is not in `key`.
    NotInKey(String),
    /// An override matches on nothing.
    MatchesNothing,
    /// An override is never reached: an earlier override matches everything that it matches.
    Unreachable(usize),
    /// `initial` on a rule that has a key.
    InitialWithKey,
    /// `max_keys` is not 1 to 10^9.
    MaxKeys(usize),
    /// The `wait` of `on_excess` is not 1 us to 366 days.
    Wait(Duration),
    /// The `max_waiters` of `on_excess` is not 1 to a million.
    MaxWaiters(usize),
    /// `dedupe` is not 1 ms to a day.
    Dedupe(Duration),
    /// `max_life` is not 1 ms to a day.
    MaxLife(Duration),
    /// A queue whose usage is reported: a queue cannot schedule units that were used already.
    ReportedQueue,
    /// A rule of permits whose usage is reported: work that has run holds none.
    ReportedPermits,
    /// A rule whose usage is reported, and which also lets requests wait (`on_excess`).
    ReportedWait,
    /// `hash_tag` names an entry that is not in `key`.
    TagNotInKey(String),
    /// In a cluster: one request can match this and an earlier rule, their keys may be in different slots, and not
    /// both rules have `across_slots`.
    AcrossSlots {
        /// The number of the earlier rule, counted from 0.
        earlier: usize,
        /// Its name.
        name: String,
    },
    /// In a cluster: this and an earlier rule are queues that one request can match in different slots.
    QueuesAcrossSlots {
        /// The number of the earlier rule, counted from 0.
        earlier: usize,
        /// Its name.
        name: String,
    },
    /// In a cluster: the rule has `across_slots`, and also remembers answers (`dedupe`).
    DedupeAcrossSlots,
    /// In a cluster: the rule has `across_slots`, and also lets requests wait (`on_excess`).
    WaitAcrossSlots,
    /// The `max` of `lease` is not 1 to 100 percent.
    LeaseMax(u8),
    /// The `life` of `lease` is not 1 ms to 1 s.
    LeaseLife(Duration),
    /// A `lease` of a rule that grants no lease of two units.
    NoLease,
    /// A `lease` next to this field, which goes against it.
    LeaseBeside(&'static str),
    /// A `split` of a rule that grants no leases.
    NoSplit,
    /// A `split` next to this field, which goes against it.
    SplitBeside(&'static str),
    /// A log, or permits, whose string could grow beyond the size that a store holds for one key.
    TooLargeForStore {
        /// The maximum number of bytes that it could take.
        bytes: u64,
        /// A resolution with which it would fit, if its algorithm has one.
        resolution: Option<Duration>,
    },
    /// An invalid value of the limiter.
    Values(RuleError),
}

/// The name that was meant by a name with capitals and spaces, if these alone are wrong.
fn meant(name: &str) -> Option<String> {
    let meant = name.trim().to_lowercase().replace(char::is_whitespace, "-");
    is_name(&meant).then_some(meant)
}

/// The largest number of characters of a name.
const LONGEST_NAME: usize = 64;

/// Returns whether a text may be the name of a rule.
pub(super) fn is_name(text: &str) -> bool {
    let fits = (1..=LONGEST_NAME).contains(&text.len());
    fits && text.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '.' | '_' | '-'))
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => {
                let expected = "expected 1 to 64 of the characters a-z, 0-9, `.`, `_` and `-`";
                write!(f, "`name` is {name:?}: {expected}")?;
                meant(name).map_or(Ok(()), |meant| write!(f, "; did you mean {meant:?}?"))
            }
            Self::EmptyDomain => {
                f.write_str("`domain` is empty: expected a name, or no `domain` at all")
            }
            Self::SameName(_) => f.write_str(
                "an earlier rule of this domain has the same `name`: expected names that differ, \
                 for the name is the identity of the state",
            ),
            Self::EntryTwice(name) if name.is_empty() => {
                f.write_str("an entry has an empty name: expected a name")
            }
            Self::EntryTwice(name) => {
                write!(f, "entry `{}` is named twice: expected it once", name.escape_debug())
            }
            Self::StarInside(value) => write!(
                f,
                "{value:?} has a `*` that is not its last character: expected a whole value, or a \
                 prefix with one `*` at the end"
            ),
            Self::NotInKey(name) => write!(
                f,
                "override on `{}`, which is not in `key`: expected an entry of `key`",
                name.escape_debug()
            ),
            Self::MatchesNothing => {
                f.write_str("`match` is empty: expected at least one entry of `key` with its value")
            }
            Self::Unreachable(earlier) => write!(
                f,
                "override {} comes first and matches everything that this override does, so this \
                 override would never apply: expected it earlier, or removed",
                earlier + 1
            ),
            Self::InitialWithKey => f.write_str(
                "`initial` on a rule with a `key`: expected `key = []`, because a key's state may be \
                 forgotten when it is full and would then begin with fewer tokens again",
            ),
            // A zero may be meant to switch something off, so its messages say how to do that.
            Self::MaxKeys(0) => write!(
                f,
                "`max_keys` is 0: expected {MAX_KEYS_EXPECTED}; a rule that refuses everything has \
                 `limit = 0`"
            ),
            Self::MaxKeys(given) => {
                write!(f, "`max_keys` is {given}: expected {MAX_KEYS_EXPECTED}")
            }
            Self::Wait(Duration::ZERO) => write!(
                f,
                "`wait` is 0: expected {WAIT_EXPECTED}; to let no request wait, use \
                 `on_excess = \"reject\"`"
            ),
            Self::Wait(given) => write!(f, "`wait` is {}: expected {WAIT_EXPECTED}", Shown(*given)),
            Self::MaxWaiters(0) => write!(
                f,
                "`max_waiters` is 0: expected {MAX_WAITERS_EXPECTED}; to let no request wait, use \
                 `on_excess = \"reject\"`"
            ),
            Self::MaxWaiters(given) => {
                write!(f, "`max_waiters` is {given}: expected {MAX_WAITERS_EXPECTED}")
            }
            Self::Dedupe(Duration::ZERO) => write!(
                f,
                "`dedupe` is 0: expected {UP_TO_A_DAY_EXPECTED}; a rule that remembers no answers has no \
                 `dedupe`"
            ),
            Self::Dedupe(given) => {
                write!(f, "`dedupe` is {}: expected {UP_TO_A_DAY_EXPECTED}", Shown(*given))
            }
            Self::MaxLife(given) => {
                write!(f, "`max_life` is {}: expected {UP_TO_A_DAY_EXPECTED}", Shown(*given))
            },
            Self::ReportedQueue => f.write_str(
                "with `usage = \"reported\"` requests have run by the time they are counted, and \
                 \"leaky_queue\" says when they may run: expected another algorithm, such as \
                 \"token_bucket\"",
            ),
            Self::ReportedPermits => f.write_str(
                "with `usage = \"reported\"` requests have run by the time they are counted, and \
                 \"concurrency\" counts those that run: expected another algorithm, such as \
                 \"token_bucket\"",
            ),
            Self::ReportedWait => f.write_str(
                "with `usage = \"reported\"` a request takes nothing before it runs, so all who wait would \
                 run at once: expected `on_excess = \"reject\"`, or no `usage`",
            ),
            Self::TagNotInKey(name) => write!(
                f,
                "`hash_tag` is \"{}\", which is not in `key`: expected an entry of `key`",
                name.escape_debug()
            ),
            Self::AcrossSlots { name, .. } => write!(
                f,
                "one request can meet it and rule `{}`, and their keys may live in different slots of \
                 the cluster: expected the same `hash_tag` in both, or `across_slots = true` in both",
                name.escape_debug()
            ),
            Self::QueuesAcrossSlots { name, .. } => write!(
                f,
                "one request can meet it and rule `{}`, their keys may live in different slots of the \
                 cluster, and a queue gives nothing back: expected the same `hash_tag` in both, or \
                 another algorithm in one of them",
                name.escape_debug()
            ),
            Self::DedupeAcrossSlots => f.write_str(
                "with `across_slots` what was taken from one slot may be given back, and would still be \
                 answered as admitted: expected no `dedupe`, or a `hash_tag` and no `across_slots`",
            ),
            Self::WaitAcrossSlots => f.write_str(
                "with `across_slots` each try of one who waits would hold units from others: expected \
                 `on_excess = \"reject\"`, or a `hash_tag` and no `across_slots`",
            ),
            Self::LeaseMax(given) => {
                write!(f, "`max` of `lease` is {given}%: expected {LEASE_MAX_EXPECTED}")
            }
            Self::LeaseLife(given) => {
                write!(f, "`life` of `lease` is {}: expected {LIFE_EXPECTED}", Shown(*given))
            }
            Self::NoLease => f.write_str(
                "no two units can be leased from this rule: expected no `lease`, or a limit of 2 or more and an \
                 algorithm other than \"leaky_queue\" and \"concurrency\"; for a bucket, a `capacity` above what flows in during the \
                 `life`; for \"sliding_log\", a `resolution`",
            ),
            Self::LeaseBeside(field) => write!(
                f,
                "`lease` together with `{field}`: the store has to decide each request of such a rule, and \
                 leased units are spent without it: expected one of the two fields"
            ),
            Self::NoSplit => f.write_str(
                "a limit of this algorithm cannot be split: expected no `split`, or an algorithm other than \
                 \"leaky_queue\" and \"concurrency\"; for \"sliding_log\", a `resolution`",
            ),
            Self::SplitBeside("lease") => f.write_str(
                "`split` together with `lease`: a share is a lease that follows the number of nodes: expected \
                 one of the two fields",
            ),
            Self::SplitBeside(field) => write!(
                f,
                "`split` together with `{field}`: the store has to decide each request of such a rule, and a \
                 share is spent without it: expected one of the two fields"
            ),
            Self::TooLargeForStore { bytes, resolution: None } => write!(
                f,
                "the permits of one key could grow to {bytes} bytes, and a store holds at most 512 MB for one: \
                 expected a smaller `limit`"
            ),
            Self::TooLargeForStore { bytes, resolution: Some(resolution) } => write!(
                f,
                "the log of one key could grow to {bytes} bytes, and a store holds at most 512 MB for \
                 one: expected `resolution = \"{}\"` or coarser, or \
                 `layout = \"sorted_set\"`",
                Shown(*resolution)
            ),
            Self::Values(error) => error.fmt(f),
        }
    }
}

/// One mistake of a policy.
///
/// ```
/// use tidegate::{Policy, RuleSpec};
///
/// let rules = vec![RuleSpec::new("all", "10/s"), RuleSpec::new("all", "5/s")];
/// let errors = Policy::new(rules).unwrap_err();
/// let error = errors.iter().next().expect("there is one at least");
/// assert_eq!((error.rule, error.name.as_str()), (1, "all"));
/// assert!(error.to_string().starts_with("rule 2 (`all`): an earlier rule"), "{error}");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyError {
    /// The number of the rule, counted from 0.
    pub rule: usize,
    /// The name of the rule, as written.
    pub name: String,
    /// The place in the rule.
    pub place: Place,
    /// The kind of the mistake, and the expected value.
    pub problem: Problem,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule {} (`{}`)", self.rule + 1, self.name.escape_debug())?;
        if let Place::Override(number) = self.place {
            write!(f, ", override {}", number + 1)?;
        }
        write!(f, ": {}", self.problem)
    }
}

tidegate_core::debug_as_display!(PolicyError);

impl std::error::Error for PolicyError {}

/// All the mistakes of a policy, in the order of its rules; never empty.
///
/// ```
/// use tidegate::{Policy, RuleSpec, Spec};
///
/// let rule = |name| RuleSpec::new(name, Spec::per_second(10));
/// let errors = Policy::new(vec![rule("per user"), rule("all"), rule("all")]).unwrap_err();
/// assert_eq!(errors.iter().count(), 2); // a name with a space, and one that is used twice
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyErrors(pub(crate) Vec<PolicyError>);

impl PolicyErrors {
    /// The mistakes.
    pub fn iter(&self) -> impl Iterator<Item = &PolicyError> {
        self.0.iter()
    }

    /// Returns these errors as errors of the rule with this number.
    pub(crate) fn of_rule(mut self, number: usize) -> Self {
        self.0.iter_mut().for_each(|error| error.rule = number);
        self
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            write!(f, "{}{error}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

tidegate_core::debug_as_display!(PolicyErrors);

impl std::error::Error for PolicyErrors {}
