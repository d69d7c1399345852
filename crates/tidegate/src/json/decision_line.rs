//! One decision as a line of JSON, as `replay` prints it and the server sends it.

use tidegate_core::Micros;

use super::JsonObject;
use crate::answer::Answer;

/// The values of one answer under the names they have everywhere.
///
/// ```
/// use tidegate::json::DecisionLine;
/// use tidegate::{Gate, Policy, RuleSpec, Spec};
///
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", Spec::per_minute(1))])?);
/// let answer = gate.check(&[]);
/// let line = DecisionLine::from(&answer);
/// assert_eq!((line.rule, line.remaining), (Some("all"), Some(0)));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecisionLine<'g> {
    /// When the decision was made, in microseconds since the Unix epoch.
    pub at_us: u64,
    /// True if the request goes on.
    pub allowed: bool,
    /// The rule whose values follow; null if unlimited.
    pub rule: Option<&'g str>,
    /// The limit of that rule; null when unlimited.
    pub limit: Option<u64>,
    /// Unit-cost requests it would still admit; null when unlimited.
    pub remaining: Option<u64>,
    /// Least wait until the same cost fits: 0 if allowed, null if it never fits.
    pub retry_after_us: Option<u64>,
    /// Least wait until all limiters are idle.
    pub reset_after_us: u64,
    /// The time for which an admitted request must be held.
    pub delay_us: u64,
}

impl<'a> From<&'a Answer<'_>> for DecisionLine<'a> {
    fn from(answer: &'a Answer<'_>) -> Self {
        let reported = answer.reported();
        Self {
            at_us: answer.at().as_micros(),
            allowed: answer.is_allowed(),
            rule: reported.map(|matched| matched.rule().name()),
            limit: reported.map(|matched| matched.decision().limit),
            remaining: reported.map(|matched| matched.decision().remaining),
            retry_after_us: answer.retry_after_micros().map(Micros::as_micros),
            reset_after_us: answer.reset_after_micros().as_micros(),
            delay_us: answer.delay_micros().as_micros(),
        }
    }
}

impl DecisionLine<'_> {
    /// Appends the decision to `to`, as an object to which the caller can add fields.
    ///
    /// # Errors
    /// No input is known to fail.
    pub fn write<'b>(&self, to: &'b mut Vec<u8>) -> Result<JsonObject<'b>, serde_json::Error> {
        let mut object = JsonObject::begin(to);
        object.number("at_us", Some(self.at_us));
        object.flag("allowed", self.allowed);
        object.value("rule", &self.rule)?;
        object.number("limit", self.limit);
        object.number("remaining", self.remaining);
        object.number("retry_after_us", self.retry_after_us);
        object.number("reset_after_us", Some(self.reset_after_us));
        object.number("delay_us", Some(self.delay_us));
        Ok(object)
    }
}
