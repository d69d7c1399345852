//! A reservation that is not settled: its units, its lifetime, and the form in which operators see it; and the terms
//! of the rules for it, which are asked before the request: the longest life, and the bytes that it may need.

use std::time::Duration;

use serde::{Serialize, Serializer};
use tidegate::{Policy, Request, RuleSpec, Taken};
use tokio::sync::OnceCell;

use super::reserved_request::ReservedRequest;
use super::table::{OF_A_REQUEST, OF_ANY, RequestPrint, allocated};
use super::{ReservationEnd, ReservationId, Unreserved};
use crate::limiters::key_label::{self, KeyLabel};
use crate::limiters::{LONGEST_LIFE, USUAL_LIFE};

/// A reservation that is not settled.
#[derive(Debug)]
pub(super) struct OpenReservation {
    pub(super) asked: ReservedRequest,
    pub(super) taken: Taken,
    pub(super) outcome: OnceCell<std::sync::Arc<ReservationEnd>>,
    pub(super) print: Option<RequestPrint>,
    pub(super) life: Duration,
    /// The number with which this process claims the record in the store; `None` if there is no record.
    pub(super) claim: Option<u64>,
    /// All its bytes.
    pub(super) bytes: usize,
}

impl OpenReservation {
    pub(super) fn new(
        asked: ReservedRequest,
        taken: Taken,
        print: Option<RequestPrint>,
        life: Duration,
    ) -> Self {
        let bytes = Self::bytes_of(&asked, print, taken.heap_bytes());
        Self { asked, taken, outcome: OnceCell::new(), print, life, claim: None, bytes }
    }

    /// The bytes of a reservation; `taken` are the bytes of its units in the limiters.
    pub(super) fn bytes_of(
        asked: &ReservedRequest,
        print: Option<RequestPrint>,
        taken: usize,
    ) -> usize {
        /// The counters of an `Arc`.
        const OF_AN_ARC: usize = 2 * size_of::<usize>();
        let by_request = print.map_or(0, |_| OF_A_REQUEST);
        let own = allocated(OF_AN_ARC + size_of::<Self>()) + allocated(taken);
        OF_ANY + by_request + own + asked.allocations().map(allocated).iter().sum::<usize>()
    }

    /// The keys of the rules in force that its request matches.
    pub(super) fn keys(&self, policy: &Policy) -> Vec<KeyLabel> {
        let asked = self.asked.ask(async |request| keys_of(policy, request));
        // `keys_of` waits for nothing, so the future is ready at once.
        futures_util::FutureExt::now_or_never(asked).unwrap_or_default()
    }
}

fn keys_of(policy: &Policy, request: &Request<'_>) -> Vec<KeyLabel> {
    let mut keys = Vec::new();
    for descriptor in request.descriptors() {
        for rule in policy.matching(request.domain(), descriptor) {
            let mut key = KeyLabel::default();
            key.write(key_label::fingerprint(rule, descriptor), rule, descriptor);
            keys.push(key);
        }
    }
    keys
}

/// The terms of the rules in force for a request's reservation.
pub(super) struct ReservationTerms<'p> {
    /// The most limiters that the request takes from.
    limiters: usize,
    /// The shortest of the longest lives, and its rule; `None` if no rule matches.
    max_life: Option<(Duration, &'p str)>,
    /// True if a rule remembers answers.
    pub(super) dedupes: bool,
}

impl<'p> ReservationTerms<'p> {
    /// Looks at every rule that a descriptor of the request matches.
    pub(super) fn of(policy: &'p Policy, request: &Request<'_>) -> Self {
        let mut limiters = 0;
        let mut max_life = None::<(Duration, &str)>;
        let mut dedupes = false;
        for descriptor in request.descriptors() {
            for rule in policy.matching(request.domain(), descriptor) {
                // At most: two descriptors may share a limiter.
                limiters += 1;
                dedupes |= rule.spec().dedupe.is_some();
                // All rules have to hold the units so long, so the shortest of their longest lives holds.
                let most = rule.spec().max_life.unwrap_or(RuleSpec::USUAL_MAX_LIFE);
                if max_life.is_none_or(|(least, _)| most < least) {
                    max_life = Some((most, rule.name()));
                }
            }
        }
        Self { limiters, max_life, dedupes }
    }

    /// The life that was asked for, or by default the usual one.
    ///
    /// # Errors
    /// Returns an error if a rule does not let it be so long.
    pub(super) fn life(&self, asked: Option<Duration>) -> Result<Duration, Unreserved> {
        let (most, rule) = self.max_life.unwrap_or((LONGEST_LIFE, ""));
        match asked {
            None => Ok(USUAL_LIFE.min(most)),
            Some(asked) if asked <= most => Ok(asked),
            Some(asked) => Err(Unreserved::TooLong { asked, rule: rule.to_owned(), most }),
        }
    }

    /// The largest size in bytes of the units that it takes.
    pub(super) const fn taken_bytes(&self) -> usize {
        self.limiters * Taken::BYTES_OF_A_LIMITER
    }
}

/// A reservation as operators see it.
#[derive(Debug, Serialize)]
pub(crate) struct ListedReservation {
    /// `None` for an operator who may not settle it.
    #[serde(rename = "reservation", serialize_with = "as_text")]
    pub(super) id: Option<ReservationId>,
    /// The keys of the rules in force that its request matches.
    pub(super) keys: Vec<KeyLabel>,
    /// The cost of each descriptor.
    pub(super) costs: Vec<u64>,
    pub(super) ends_us: u64,
    pub(super) bytes: usize,
    /// True if its settle waits for the store.
    pub(super) pending: bool,
}

impl ListedReservation {
    pub(crate) const fn hide_id(&mut self) {
        self.id = None;
    }
}

fn as_text<S: Serializer>(id: &Option<ReservationId>, to: S) -> Result<S::Ok, S::Error> {
    match id {
        Some(id) => to.collect_str(id),
        None => to.serialize_none(),
    }
}
