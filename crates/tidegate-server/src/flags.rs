//! The flags of an answer besides its decision, by the names that every protocol uses: HTTP and RESP write them, and
//! settled reservations remember them.

use tidegate::Answer;

/// The flags of an answer, in the order in which they are written.
#[inline]
pub(crate) fn of(answer: &Answer<'_>) -> [(&'static str, bool); 4] {
    named([
        // No rule with a limit was enforced.
        answer.is_unlimited(),
        // The store did not decide.
        answer.is_degraded(),
        // There was no room for the key of a rule, which shared the overflow limiter or was
        // refused.
        answer.is_overflow(),
        // The load was more than the store decides in time.
        answer.is_overloaded(),
    ])
}

/// The flags with their names.
#[inline]
pub(crate) fn named(
    [unlimited, degraded, overflow, overloaded]: [bool; 4],
) -> [(&'static str, bool); 4] {
    [
        ("unlimited", unlimited),
        ("degraded", degraded),
        ("overflow", overflow),
        ("overloaded", overloaded),
    ]
}
