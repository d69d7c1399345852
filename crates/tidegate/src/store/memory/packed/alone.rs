//! A packed limiter locked for a step over several, if it is in the table and the only one of the step there.

use tidegate_core::{Algorithm, Held, Timestamp};

use super::Packed;
use super::chains::{Chain, Place};
use super::spilled::is_spilled;
use crate::inline_list::StepList;
use crate::key::Fingerprint;
use crate::store::memory::succession::Moved;
use crate::store::memory::table::{LockedLimiter, LockedLimiters, LockedVerbs, Part};

/// The limiter, its chain locked.
struct HeldAlone<'a, R: Algorithm, const PLACES: usize, const WORDS: usize> {
    table: &'a Packed<R, PLACES, WORDS>,
    chain: Chain<'a, PLACES, WORDS>,
    place: Place<'a, PLACES, WORDS>,
    /// The index of the limiter in the request.
    number: usize,
    fingerprint: Fingerprint,
    /// True if the step may leave a debt.
    may_owe: bool,
    held: Held<'a, R, Option<R::State>>,
}

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> Packed<R, PLACES, WORDS> {
    /// Locks the chain of a limiter, and takes the limiter; `None`, and nothing is locked, if it is not in the table.
    pub(super) fn hold_alone<'a>(
        &'a self,
        part: &Part<'a>,
    ) -> Result<Option<Box<dyn LockedLimiters + 'a>>, Moved> {
        let chain = self.lock(part.fingerprint, part.generation)?;
        let Some(place) = chain.find(part.fingerprint) else { return Ok(None) };
        let state = self.unpack(part.fingerprint, place.state());
        let held = Held::of_copy(&self.rules.algorithm, Some(state), part.cost);
        let held = if part.enforced { held } else { held.shadow() };
        let Part { place: number, fingerprint, .. } = *part;
        let may_owe = part.step.may_not_fit(part.cost);
        let alone = HeldAlone { table: self, chain, place, number, fingerprint, may_owe, held };
        Ok(Some(Box::new(alone)))
    }
}

impl<R: Algorithm, const PLACES: usize, const WORDS: usize> LockedLimiters
    for HeldAlone<'_, R, PLACES, WORDS>
{
    fn held<'h>(&'h mut self, held: &mut StepList<LockedLimiter<'h>>) {
        let verbs = LockedVerbs::Kept(&mut self.held);
        held.push(LockedLimiter { place: self.number, began: Timestamp::EPOCH, verbs });
    }

    fn release(self: Box<Self>, at: Timestamp) {
        let Self { table, chain, place, fingerprint, may_owe, held, .. } = *self;
        let may_be_cut = may_owe || is_spilled(place.state());
        let words = table.words(fingerprint, held.into_slot(), may_be_cut, at);
        table.store(&chain, place, fingerprint, words);
    }
}
