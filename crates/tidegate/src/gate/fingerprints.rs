//! The fingerprints of a request's keys: a key that several rules have is hashed once.

use crate::key::{Fingerprint, Seed};
use crate::request::Descriptor;
use crate::rules::PolicyRule;
use crate::short_text::same;

/// Hashes the keys of one request, and remembers the last.
pub(super) struct Fingerprints<'a> {
    seed: &'a Seed,
    last: Option<Last<'a>>,
}

/// The last key that was hashed.
struct Last<'a> {
    /// The entries that it is made of, and the descriptor that they were taken from.
    entries: &'a [String],
    descriptor: *const (),
    fingerprint: Fingerprint,
}

impl<'a> Fingerprints<'a> {
    pub(super) const fn new(seed: &'a Seed) -> Self {
        Self { seed, last: None }
    }

    /// The fingerprint of the key that a rule makes of a matching descriptor, which outlives this.
    #[inline]
    pub(super) fn of(&mut self, rule: &'a PolicyRule, descriptor: &Descriptor<'_>) -> Fingerprint {
        let entries = rule.spec().key.as_slice();
        if entries.is_empty() {
            return Fingerprint::FIRST;
        }
        if rule.picks_entries() {
            return self.seed.of_parts(rule.key(descriptor));
        }
        // By the address, which no other descriptor of the request has.
        let from = std::ptr::from_ref(descriptor).cast();
        if let Some(last) = &self.last
            && last.descriptor == from
            && last.entries.len() == entries.len()
            && last.entries.iter().zip(entries).all(|(one, other)| same(one, other))
        {
            return last.fingerprint;
        }
        let fingerprint = self.seed.of_parts(rule.key(descriptor));
        self.last = Some(Last { entries, descriptor: from, fingerprint });
        fingerprint
    }
}
