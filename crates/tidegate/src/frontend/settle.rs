//! The limiters that a request is settled with, and the final cost of each.

use crate::answer::{Answer, Matched};
use crate::inline_list::InlineList;
use crate::request::Request;
use crate::step::{Ask, Descriptors, Lineage};

/// Resolves a request whose descriptors turned out to cost `actual` each. `resolve` returns all limiters of a
/// request, unlimited ones included: the request may have taken from them before they became unlimited.
pub(crate) fn with_actual<K: PartialEq>(
    request: &Request<'_>,
    actual: u64,
    resolve: impl Fn(&Request<'_>) -> InlineList<Ask<K>>,
) -> Vec<(Ask<K>, u64)> {
    let costing_actual: Vec<_> =
        request.descriptors().iter().map(|descriptor| descriptor.cost(actual)).collect();
    let costing = resolve(&Request::new(request.domain(), &costing_actual));
    let with_actual = |met: Ask<K>| {
        let same = |other: &&Ask<K>| other.is_of(&met);
        let actual = costing.iter().find(same)?.cost;
        Some((met, actual))
    };
    resolve(request).into_iter().filter_map(with_actual).collect()
}

/// Keeps the limiters of an admitted request that took their cost and can settle the difference.
pub(crate) fn taken<K>(all: Vec<(Ask<K>, u64)>, answer: &Answer<'_>) -> Vec<(Ask<K>, u64)> {
    let both = again(all, |(met, _)| met, answer.all(), known_by).into_iter();
    let taken = both.filter(|((met, actual), matched)| can_settle(matched, met.cost, *actual));
    taken.map(|(one, _)| one).collect()
}

/// Whether a limiter took its cost and can settle the difference.
fn can_settle(matched: &Matched<'_>, cost: u64, actual: u64) -> bool {
    matched.can_settle() && (!matched.is_elsewhere() || actual > cost)
}

/// Pairs the limiters that a request matches now with those of its earlier answer, and drops limiters without a
/// partner. `met` are all limiters of the request, unlimited ones included.
pub(crate) fn again<T, K, M>(
    met: impl IntoIterator<Item = T>,
    of: impl Fn(&T) -> &Ask<K>,
    answered: impl IntoIterator<Item = M>,
    identify: impl Fn(&M) -> (Lineage, Descriptors),
) -> Vec<(T, M)> {
    let mut answered: Vec<_> = answered.into_iter().collect();
    let mut same = |one: &T| {
        let met = of(one);
        let place = answered.iter().position(|one| identify(one) == (met.lineage, met.by))?;
        Some(answered.remove(place))
    };
    met.into_iter().filter_map(|one| same(&one).map(|answered| (one, answered))).collect()
}

/// Identifies a limiter of an answer, for [`again`].
pub(crate) const fn known_by(matched: &Matched<'_>) -> (Lineage, Descriptors) {
    (matched.reply.lineage, matched.reply.by)
}
