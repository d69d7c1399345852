//! The key of a rule in a request: for counting, and as text.
//!
//! Each decision needs the fingerprint; the text is made only for a key that is shown.

use std::fmt;

use tidegate::PolicyRule;

use super::fingerprint::{Fingerprint, Seed};

/// A rule's key in one request. Shown as `ip=192.0.2.7, path=/login`, or `all` for a rule without a
/// key.
#[derive(Clone, Copy)]
pub(super) struct RuleKey<'a> {
    pub(super) rule: &'a PolicyRule,
    /// The entries of the descriptor that the rule matched.
    pub(super) descriptor: &'a [(&'a str, &'a str)],
}

impl<'a> RuleKey<'a> {
    pub(super) fn fingerprint(&self, seed: &Seed) -> Fingerprint {
        seed.of(self.entries().map(|(_, value)| value))
    }

    /// A rule matches only requests that have every entry of its key.
    fn entries(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let entries = self.descriptor;
        let names = self.rule.spec().key.iter();
        names.filter_map(move |name| entries.iter().find(|(entry, _)| entry == name).copied())
    }
}

impl fmt::Display for RuleKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.entries().next().is_none() {
            return f.write_str("all");
        }
        for (index, (name, value)) in self.entries().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{name}={value}")?;
        }
        Ok(())
    }
}
