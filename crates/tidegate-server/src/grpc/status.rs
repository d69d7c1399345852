//! The status of each descriptor of a request: the part of the answer that concerns its rules. An answer of the gate
//! is of the whole request, while Envoy's protocol reports each descriptor; `decide.rs` puts these statuses in its
//! response.

use std::cmp::Reverse;

use prost_types::Duration;
use tidegate::{Answer, Descriptor, Limit, Matched, Micros};

use super::response::{Code, DescriptorStatus};
use super::unit::{RateLimitMessage, narrow};

/// The statuses of all descriptors, in their order.
pub(super) fn of(
    answer: &Answer<'_>,
    descriptors: &[Descriptor<'_>],
) -> impl Iterator<Item = DescriptorStatus> {
    let numbered = descriptors.iter().enumerate();
    numbered.map(|(number, descriptor)| status_of(answer, number, descriptor.units() > 0))
}

/// The status of one descriptor, by the rule that refuses it for longest, else by the rule with the fewest remaining
/// units. A descriptor without a cost is never over the limit, except under reported usage, where it asks whether the
/// limit is reached.
fn status_of(answer: &Answer<'_>, number: usize, asks: bool) -> DescriptorStatus {
    let refusing = answer.enforced().filter(|matched| {
        matched.is_matched_by(number)
            && (asks || matched.is_look())
            && !matched.decision().is_allowed()
    });
    // Of equal waits the first rule counts, which `max_by_key` would not return.
    match refusing.min_by_key(|matched| Reverse(wait(matched))) {
        Some(over) => limited(Code::OverLimit, &over, over.decision().retry_after_micros()),
        None => within(answer, number),
    }
}

/// The status of a descriptor that no rule refuses, or that gave units back: it is never over the limit.
pub(super) fn within(answer: &Answer<'_>, number: usize) -> DescriptorStatus {
    let own = answer.enforced().filter(|matched| matched.is_matched_by(number));
    own.min_by_key(|matched| matched.decision().remaining).map_or_else(unlimited, |least| {
        limited(Code::Ok, &least, Some(least.decision().reset_after))
    })
}

fn limited(code: Code, matched: &Matched<'_>, wait: Option<Micros>) -> DescriptorStatus {
    // Whole seconds, rounded up: the proxy reads only whole ones, and rounding down would let callers come too early. A
    // limit of 0 stays closed until its rule changes, so no duration fits.
    let wait = wait.filter(|_| matched.decision().limit > 0);
    let reset = wait.map(|wait| Duration { seconds: wait.as_secs_ceil().cast_signed(), nanos: 0 });
    DescriptorStatus {
        code: code.into(),
        current_limit: Some(rate(matched)),
        limit_remaining: narrow(matched.decision().remaining),
        duration_until_reset: reset,
    }
}

/// No rule with a limit is enforced, or the limits are unknown while the store is unavailable.
pub(super) fn unlimited() -> DescriptorStatus {
    let code = Code::Ok.into();
    DescriptorStatus { code, limit_remaining: u32::MAX, ..Default::default() }
}

/// The capacity of the limiter per the time in which it fills, so that the remaining units never
/// exceed it.
fn rate(matched: &Matched<'_>) -> RateLimitMessage {
    let name = matched.rule().name();
    let spec = matched.values().spec();
    let holds = matched.decision().limit;
    let (Limit::Units(limit), Some(window)) = (spec.limit, spec.window) else {
        return RateLimitMessage::none(name, holds);
    };
    // A product of two values of up to 64 bits.
    let whole = u128::from(holds) * window.as_micros();
    let fills = whole.div_ceil(u128::from(limit.max(1)));
    RateLimitMessage::new(name, holds, u64::try_from(fills).unwrap_or(u64::MAX))
}

fn wait(matched: &Matched<'_>) -> Micros {
    matched.decision().retry_after_micros().unwrap_or(Micros::MAX)
}
