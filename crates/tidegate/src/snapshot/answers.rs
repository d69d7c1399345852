//! The decisions of remembered answers.

use tidegate_core::{Decision, Micros, Outcome};

use super::bytes::{Cursor, put_number};
use crate::step::Decided;

const OUTCOME: u8 = 0b11;
const OVERFLOW: u8 = 0b100;
const ELSEWHERE: u8 = 0b1000;

/// Appends one decision of an answer.
pub(crate) fn put_decided(to: &mut Vec<u8>, decided: &Decided) {
    let Decision { outcome, limit, remaining, reset_after } = decided.decision;
    let (outcome, wait) = match outcome {
        Outcome::Allow { delay } => (0, delay),
        Outcome::Deny { retry_after } => (1, retry_after),
        Outcome::Never => (2, Micros::ZERO),
    };
    let overflow = if decided.overflow { OVERFLOW } else { 0 };
    let elsewhere = if decided.elsewhere { ELSEWHERE } else { 0 };
    to.push(outcome | overflow | elsewhere);
    for number in [wait.as_micros(), limit, remaining, reset_after.as_micros()] {
        put_number(to, number);
    }
}

/// Reads one decision.
pub(crate) fn read_decided(from: &mut Cursor<'_>) -> Option<Decided> {
    // A gate writes no other bits.
    let flags = from.byte().filter(|flags| *flags <= OUTCOME | OVERFLOW | ELSEWHERE)?;
    let wait = Micros::from_micros(from.number()?);
    let outcome = match flags & OUTCOME {
        0 => Outcome::Allow { delay: wait },
        1 => Outcome::Deny { retry_after: wait },
        2 => Outcome::Never,
        _ => return None,
    };
    let limit = from.number()?;
    let remaining = from.number()?;
    let reset_after = Micros::from_micros(from.number()?);
    let decision = Decision { outcome, limit, remaining, reset_after };
    Some(Decided::of(decision, flags & OVERFLOW > 0, flags & ELSEWHERE > 0))
}
