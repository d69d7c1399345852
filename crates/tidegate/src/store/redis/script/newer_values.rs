//! Values of a newer revision, which decide about a limiter in place of a node's own values.

use std::iter;

use super::limiter::ScriptLimiter;
use super::revision::Written;
use crate::step::Values;

/// For each limiter, the newer values that decide in place of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewerValues(pub(super) Vec<Option<Written>>);

impl NewerValues {
    /// Reads the values that begin each state; values that are not older than the limiter's own decide. `None` if there
    /// are none.
    pub(super) fn newer(limiters: &[ScriptLimiter<'_>], state_prefixes: &[&[u8]]) -> Option<Self> {
        let newer = limiters.iter().zip(state_prefixes).map(|(one, prefix)| {
            let written = Written::read(prefix, one.rule)?;
            (one.revision.is_some() && written.revision >= one.revision).then_some(written)
        });
        let newer: Vec<_> = newer.collect();
        newer.iter().any(Option::is_some).then_some(Self(newer))
    }

    /// Adds values that were found later.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        let count = self.0.len().max(later.0.len());
        self.0.resize(count, None);
        for (known, later) in self.0.iter_mut().zip(later.0) {
            *known = later.or_else(|| known.take());
        }
        self
    }

    /// Returns whether every limiter is decided by its own values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether under these values units count as under the limiters' own.
    pub(crate) fn count_as(&self, limiters: &[ScriptLimiter<'_>]) -> bool {
        let mut both = self.0.iter().zip(limiters);
        both.all(|(newer, one)| {
            newer.as_ref().is_none_or(|newer| {
                let values = Values::of(&newer.rule).zip(Values::of(one.rule));
                values.is_some_and(|(newer, own)| newer.counts_as(&own))
            })
        })
    }

    /// Makes place for a limiter that is decided by its own values.
    pub(super) fn insert_none(&mut self, place: usize) {
        if place < self.0.len() {
            self.0.insert(place, None);
        }
    }

    /// Returns the values of the limiters at these indices.
    pub(crate) fn at(&self, places: &[usize]) -> Self {
        Self(places.iter().map(|place| self.0.get(*place).cloned().flatten()).collect())
    }

    /// The limiters to ask about in place of the original ones.
    #[must_use]
    pub fn limiters<'a>(&'a self, limiters: &[ScriptLimiter<'a>]) -> Vec<ScriptLimiter<'a>> {
        let newer = self.0.iter().map(Option::as_ref).chain(iter::repeat(None));
        let under = limiters.iter().zip(newer);
        under
            .map(|(one, newer)| newer.map_or_else(|| one.clone(), |newer| one.under(newer)))
            .collect()
    }
}
