//! Case tables: a rule, and what it must answer at which time, in text a reader can check by hand.
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
//!   900ms   reset      |
//!   1s      amend limit = 5 |
//! ```
//!
//! - `ask` is a cost, or one of the verbs shown. Only a cost and `peek` have answers.
//! - `answer` is `yes`, `no` or `never`; `remaining` is a number; the rest are durations, `-` in
//!   `retry_after` for never. `*` in any column: not checked.
//! - A duration is an integer with `us`, `ms`, `s`, `m`, `h` or `d`, or a bare `0`. Digits may be
//!   grouped with `_`. Times are since the Unix epoch, and may go backward.
//! - `#` at the start of a line, or after a space, begins a comment. Empty lines mean nothing.

mod duration;
mod expect;
mod parse;
mod row;
mod words;

pub use duration::parse_duration_us;
pub use expect::{Answer, Expect};
pub use parse::{ParseError, parse};

/// One table: a rule and its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What the case shows.
    pub title: String,
    /// Line of the title, from 1.
    pub line: usize,
    /// The words of the rule, as `(key, value)`, in the order written.
    pub rule: Vec<(String, String)>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Line of the row, from 1.
    pub line: usize,
    /// When, in microseconds since the epoch.
    pub at_us: u64,
    /// What is asked or done.
    pub verb: Verb,
    /// What must be answered; `None` when the row says nothing.
    pub expect: Option<Expect>,
}

/// What a row asks or does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A request of that cost.
    Ask(u64),
    /// A look at what a request of that cost would get; the figures count nothing as taken.
    Peek(u64),
    /// That many units given back.
    Refund(u64),
    /// The end of a reservation.
    Settle {
        /// Units that were taken.
        reserved: u64,
        /// Units that were needed.
        actual: u64,
    },
    /// Everything forgotten.
    Reset,
    /// Words of the rule that change; the others stay.
    Amend(Vec<(String, String)>),
}
