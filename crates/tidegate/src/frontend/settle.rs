//! The limiters that a request is settled with, and what each is charged in the end.

use crate::answer::{Answer, Matched};
use crate::inline_list::InlineList;
use crate::request::Request;
use crate::step::{Descriptors, Lineage, Met};

/// Resolves a request whose descriptors turned out to cost `actual` each; `resolve` returns all limiters that a
/// request meets, unlimited ones included, for they may have been taken from before.
pub(crate) fn with_actual<K: PartialEq>(
    request: &Request<'_>,
    actual: u64,
    resolve: impl Fn(&Request<'_>) -> InlineList<Met<K>>,
) -> Vec<(Met<K>, u64)> {
    let costing_actual: Vec<_> =
        request.descriptors().iter().map(|descriptor| descriptor.cost(actual)).collect();
    let costing = resolve(&Request::new(request.domain(), &costing_actual));
    let with_actual = |met: Met<K>| {
        let same = |other: &&Met<K>| other.is_of(&met);
        let actual = costing.iter().find(same)?.cost;
        Some((met, actual))
    };
    resolve(request).into_iter().filter_map(with_actual).collect()
}

/// Keeps those limiters of an admitted request that took their cost, where the difference to what it turned out
/// to cost can be settled.
pub(crate) fn taken<K>(all: Vec<(Met<K>, u64)>, answer: &Answer<'_>) -> Vec<(Met<K>, u64)> {
    let both = again(all, |(met, _)| met, answer.all(), known_by).into_iter();
    let taken = both.filter(|((met, actual), matched)| can_settle(matched, met.cost, *actual));
    taken.map(|(one, _)| one).collect()
}

/// Whether a limiter took its cost, and where the difference can be settled.
fn can_settle(matched: &Matched<'_>, cost: u64, actual: u64) -> bool {
    matched.can_settle() && (!matched.is_elsewhere() || actual > cost)
}

/// The limiters of an answer, met once more: those that are not met any more are left out, and those that were not
/// met then. `met` are all that the same request meets, unlimited ones included.
pub(crate) fn again<T, K, M>(
    met: impl IntoIterator<Item = T>,
    of: impl Fn(&T) -> &Met<K>,
    answered: impl IntoIterator<Item = M>,
    told: impl Fn(&M) -> (Lineage, Descriptors),
) -> Vec<(T, M)> {
    let mut answered: Vec<_> = answered.into_iter().collect();
    let mut same = |one: &T| {
        let met = of(one);
        let place = answered.iter().position(|one| told(one) == (met.lineage, met.by))?;
        Some(answered.remove(place))
    };
    met.into_iter().filter_map(|one| same(&one).map(|answered| (one, answered))).collect()
}

/// What [`again`] knows a limiter of an answer by.
pub(crate) const fn known_by(matched: &Matched<'_>) -> (Lineage, Descriptors) {
    (matched.reply.lineage, matched.reply.by)
}
