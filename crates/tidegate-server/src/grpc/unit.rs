//! A window in the terms of Envoy's protocol: a number of requests in a multiple of a unit of time. Limits of requests
//! (`own_limits.rs`) and statuses of answers (`status.rs`) use it.

use prost::{Enumeration, Message};

/// A unit of time, an `envoy.type.v3.RateLimitUnit`; in a request and in a response it has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum Unit {
    Unknown = 0,
    Second = 1,
    Minute = 2,
    Hour = 3,
    Day = 4,
    Month = 5,
    Year = 6,
    Week = 7,
}

const SECOND_US: u64 = 1_000_000;

/// Units and their lengths in seconds, the longest first: a month has 30 days, a year 365.
const UNITS: [(Unit, u64); 7] = [
    (Unit::Year, 365 * 86_400),
    (Unit::Month, 30 * 86_400),
    (Unit::Week, 7 * 86_400),
    (Unit::Day, 86_400),
    (Unit::Hour, 3_600),
    (Unit::Minute, 60),
    (Unit::Second, 1),
];

/// The length in seconds of a unit by its number, which is the same in requests and responses;
/// `None` for an unknown one.
pub(super) fn seconds_of(unit: i32) -> Option<u64> {
    UNITS.iter().find(|(known, _)| i32::from(*known) == unit).map(|(_, length)| *length)
}

/// `envoy.service.ratelimit.v3.RateLimitResponse.RateLimitMessage`: requests in a multiple of a unit.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RateLimitMessage {
    #[prost(uint32, tag = "1")]
    pub(crate) requests_per_unit: u32,
    #[prost(enumeration = "Unit", tag = "2")]
    pub(crate) unit: i32,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    /// A `google.protobuf.UInt32Value`; absent means 1.
    #[prost(message, optional, tag = "4")]
    pub(crate) unit_multiplier: Option<u32>,
}

impl RateLimitMessage {
    /// A limit of this name: `requests` in `window_us`, in the longest unit that divides the window. A window shorter
    /// than a second becomes a rate per second, with the requests rounded down. Any other window that is not of whole
    /// seconds is rounded up. So the rate is never higher than the limit.
    pub(super) fn new(name: &str, requests: u64, window_us: u64) -> Self {
        let Some(requests) = per_second_at_least(requests, window_us) else {
            return Self::none(name, requests);
        };
        let seconds = window_us.div_ceil(SECOND_US);
        let longest = UNITS.into_iter().find(|(_, length)| seconds.is_multiple_of(*length));
        let (unit, length) = longest.unwrap_or((Unit::Second, 1));
        let multiplier = u32::try_from(seconds / length).unwrap_or(u32::MAX);
        Self {
            unit: unit.into(),
            unit_multiplier: Some(multiplier).filter(|multiplier| *multiplier > 1),
            ..Self::none(name, requests)
        }
    }

    /// A limit without a window, such as work in flight.
    pub(super) fn none(name: &str, requests: u64) -> Self {
        Self {
            requests_per_unit: narrow(requests),
            unit: Unit::Unknown.into(),
            name: name.to_owned(),
            unit_multiplier: None,
        }
    }
}

/// The requests of the window, or of a second if that is longer; `None` without a window.
fn per_second_at_least(requests: u64, window_us: u64) -> Option<u64> {
    if window_us >= SECOND_US {
        return Some(requests);
    }
    // Requests of 64 bits times a million.
    let scaled = u128::from(requests) * u128::from(SECOND_US);
    let per_second = scaled.checked_div(window_us.into())?;
    Some(u64::try_from(per_second).unwrap_or(u64::MAX))
}

/// The protocol's numbers are smaller than the limiters'.
pub(super) fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_given_in_the_longest_unit_that_divides_it() {
        const DAY: u64 = 86_400 * SECOND_US;
        for (requests, window_us, reported, unit, multiplier) in [
            (5, SECOND_US, 5, Unit::Second, 1),
            (5, 10 * SECOND_US, 5, Unit::Second, 10),
            (5, 60 * SECOND_US, 5, Unit::Minute, 1),
            (5, 90 * SECOND_US, 5, Unit::Second, 90),
            (5, 7_200 * SECOND_US, 5, Unit::Hour, 2),
            (5, DAY, 5, Unit::Day, 1),
            (5, 14 * DAY, 5, Unit::Week, 2),
            (5, 60 * DAY, 5, Unit::Month, 2),
            (5, 365 * DAY, 5, Unit::Year, 1),
            // Shorter than a second: per second, rounded down.
            (1, 300_000, 3, Unit::Second, 1),
            (1, 999_999, 1, Unit::Second, 1),
            (u64::MAX, 1, u32::MAX, Unit::Second, 1),
            // Not of whole seconds: rounded up.
            (5, 1_500_000, 5, Unit::Second, 2),
            (5, 0, 5, Unit::Unknown, 1),
        ] {
            let limit = RateLimitMessage::new("all", requests, window_us);
            let unit_multiplier = limit.unit_multiplier.unwrap_or(1);
            let given = (limit.requests_per_unit, limit.unit(), unit_multiplier);
            assert_eq!(given, (reported, unit, multiplier), "{requests} in {window_us} us");
        }
    }
}
