//! Case tables: a rule and the answers it must give, in text that can be checked by hand.
//!
//! ```text
//! # The worked example everyone knows.
//! case two per second
//! algorithm = sliding_log, limit = 2, window = 1s
//!   at      ask        | answer  remaining  retry_after  reset_after  delay
//!   100ms   1          | yes     1          0            1s           0
//!   500ms   peek 3     | never   1          -            *            *
//!   600ms   refund 1   |
//!   800ms   settle 3 5 |
//!   850ms   return 1 100ms |
//!   850ms   renew 500ms    |
//!   900ms   reset      |
//!   1s      amend limit = 5 |
//! ```
//!
//! - `ask` is a cost, or one of the verbs shown. Only rows with a cost or `peek` have an answer.
//! - `return` and `renew` name the token of a permit: usually the time at which it was taken.
//! - `answer` is `yes`, `no` or `never`; `remaining` is a number; the rest are durations, with `-`
//!   in `retry_after` for never. A `*` in any column is not checked.
//! - A duration is an integer with `us`, `ms`, `s`, `m`, `h` or `d`, or a bare `0`. Digits may be
//!   grouped with `_`. Times are since the Unix epoch, and may go backward.
//! - `#` at the start of a line, or after a space, begins a comment. Empty lines are ignored.

mod duration;
mod expect;
mod fields;
mod parse;
mod row;

pub use duration::parse_duration_us;
pub use expect::{Answer, Expect};
pub use parse::parse;

/// One table: a rule and its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The behaviour that the case shows.
    pub title: String,
    /// Line of the title, from 1.
    pub line: usize,
    /// The fields of the rule, as `(key, value)`, in the order written.
    pub rule: Vec<(String, String)>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Line of the row, from 1.
    pub line: usize,
    /// The time, in microseconds since the epoch.
    pub at_us: u64,
    /// The verb of the step.
    pub verb: Verb,
    /// The expected answer; `None` if the row has none.
    pub expect: Option<Expect>,
}

/// The verb of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A request with this cost.
    Ask(u64),
    /// A look at the answer to a request with this cost, which takes nothing.
    Peek(u64),
    /// This number of units is given back.
    Refund(u64),
    /// The end of a reservation.
    Settle {
        /// Units that were taken.
        reserved: u64,
        /// Units that were needed.
        actual: u64,
    },
    /// Units of the permit with this token are returned.
    Return {
        /// The units.
        units: u64,
        /// The token.
        token: u64,
    },
    /// The permit with this token is renewed.
    Renew {
        /// The token.
        token: u64,
    },
    /// The limiter is reset.
    Reset,
    /// Fields of the rule that change; the others stay.
    Amend(Vec<(String, String)>),
}
