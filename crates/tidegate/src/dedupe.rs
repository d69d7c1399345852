//! Requests with an id: their identity, and the time for which their answers are remembered.
//!
//! A gate asks here, between the resolution of a request and the step over its limiters, if the request has an
//! identity under which an answer is remembered. The [`DedupeCache`] keeps the answers of a gate in memory, and of
//! a node that decides in place of its store; Redis keeps its own.

mod cache;
mod saved;

use std::hash::{Hash, Hasher};

use tidegate_core::{Micros, Spec};

use crate::inline_list::InlineList;
use crate::key::{Fingerprint, Seed};
use crate::request::RequestIdentity;
use crate::rules::Policy;
use crate::step::{Ask, remembered_time};
pub(crate) use cache::DedupeCache;

/// The identity of a request that takes units only once, however often it is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdempotencyKey {
    fingerprint: Fingerprint,
    /// The time for which its answer is remembered.
    time: Micros,
}

/// The identity of a request with this id and verb, and these limiters; `None` if none of their rules
/// remembers answers.
pub(crate) fn of(
    policy: &Policy,
    seed: &Seed,
    id: RequestIdentity<'_>,
    asks: &[Ask],
) -> Option<IdempotencyKey> {
    let time = remembered_time(policy, asks)?;
    let order = order_of(asks);
    let asks = order.iter().filter_map(|index| asks.get(*index));
    Some(IdempotencyKey { fingerprint: of_request(policy, seed, id, asks), time })
}

/// The fingerprint of a request under its id and verb: of the rule, fingerprint, cost and values of each of
/// its limiters.
fn of_request<'m>(
    policy: &Policy,
    seed: &Seed,
    RequestIdentity { id, reserves, .. }: RequestIdentity<'_>,
    asks: impl Iterator<Item = &'m Ask>,
) -> Fingerprint {
    seed.of_written(|hasher| {
        // The length keeps the bytes of an id apart from the limiters after it.
        hasher.write_usize(id.len());
        hasher.write(id.as_bytes());
        // A check and a reservation under one id are two requests.
        hasher.write_u8(reserves.into());
        for ask in asks {
            ask.lineage.hash(hasher);
            // With the values: an answer under other values is not repeated.
            let values: Option<&Spec> = ask.rule_in(policy).map(|rule| rule.spec());
            (ask.fingerprint, ask.cost, values).hash(hasher);
        }
    })
}

/// The indices of limiters, in an order that does not depend on the order of the request's
/// descriptors.
fn order_of(asks: &[Ask]) -> InlineList<usize> {
    let mut order: InlineList<usize> = (0..asks.len()).collect();
    order.sort_unstable_by_key(|index| asks.get(*index).map(|ask| (ask.lineage, ask.fingerprint)));
    order
}
