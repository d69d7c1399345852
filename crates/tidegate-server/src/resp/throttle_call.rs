//! The arguments of `CL.THROTTLE key max_burst count period [quantity]`, read as redis-cell does, and the rule of
//! their limit. `throttle.rs` decides by it.

use std::time::Duration;
use tidegate::{AlgorithmKind, MAX_LIMIT, MAX_WINDOW, Rule, Spec};

use super::args::{Args, integer};

/// The limit of a call, as its client wrote it. Two equal limits have the same rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallLimit {
    max_burst: i64,
    count: i64,
    period: i64,
}

/// One call.
pub(super) struct ThrottleCall<'a> {
    pub(super) key: &'a [u8],
    pub(super) limit: CallLimit,
    pub(super) cost: u64,
}

impl<'a> ThrottleCall<'a> {
    /// Reports errors in the wording of redis-cell, and in its order.
    pub(super) fn read(args: &Args<'a>) -> Result<Self, String> {
        if args.len() != 5 && args.len() != 6 {
            return Err("Usage: cl.throttle <key> <max_burst> <count per period> <period> \
                        [<quantity>]"
                .to_owned());
        }
        let limit = CallLimit {
            max_burst: parsed(args.word(2))?,
            count: parsed(args.word(3))?,
            period: parsed(args.word(4))?,
        };
        let quantity = if args.len() == 6 { parsed(args.word(5))? } else { 1 };
        let cost = within("quantity", quantity, 0, i64::MAX)?;
        Ok(Self { key: args.word(1), limit, cost })
    }
}

impl CallLimit {
    /// The token bucket of this limit.
    ///
    /// # Errors
    /// Returns an error if the limit is impossible.
    pub(super) fn rule(self) -> Result<Rule, String> {
        // Checked before the ranges, with the text of redis-cell.
        if self.count == 0 || self.period == 0 {
            return Err("Zero rates are not supported".to_owned());
        }
        let most = MAX_LIMIT.cast_signed();
        let max_burst = within("max_burst", self.max_burst, 0, most - 1)?;
        let count = within("count per period", self.count, 1, most)?;
        let seconds = MAX_WINDOW.as_secs().cast_signed();
        let period = within("period", self.period, 1, seconds)?;
        let mut spec = Spec::new(AlgorithmKind::TokenBucket, count, Duration::from_secs(period));
        // redis-cell admits one request and `max_burst` more.
        spec.capacity = Some(max_burst + 1);
        Rule::new(spec).map_err(|mistakes| mistakes.to_string())
    }
}

fn parsed(word: &[u8]) -> Result<i64, String> {
    integer(word).ok_or_else(|| {
        let shown = word.get(..64).unwrap_or(word);
        format!("Couldn't parse as integer: {}", String::from_utf8_lossy(shown))
    })
}

fn within(what: &str, given: i64, least: i64, most: i64) -> Result<u64, String> {
    let number = u64::try_from(given).ok().filter(|_| (least..=most).contains(&given));
    number.ok_or_else(|| format!("{what} is {given}: expected {least} to {most}"))
}
