//! A decision as JSON, with the same bytes wherever it is written.
//!
//! The server writes its values over HTTP and RESP, and `tidegate replay` for each event.

use serde::Serialize;
use tidegate_core::Micros;

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

/// An object of JSON that is being written; it is closed by [`end`](Self::end).
///
/// Most values of a decision are numbers and flags. `serde_json` searches each name for characters
/// to escape, which is half of the time to write a decision.
///
/// ```
/// let mut line = Vec::new();
/// let mut object = tidegate::json::JsonObject::begin(&mut line);
/// object.number("limit", Some(5));
/// object.number("retry_after_us", None);
/// object.flag("allowed", true);
/// object.value("rule", &"per \"user\"")?;
/// object.end();
/// assert_eq!(line, br#"{"limit":5,"retry_after_us":null,"allowed":true,"rule":"per \"user\""}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "an object that is not ended is not closed"]
pub struct JsonObject<'b> {
    bytes: &'b mut Vec<u8>,
    /// The character before the next name.
    before: u8,
}

// Inlined into callers, because their names are constants, which are then copied without a call.
impl<'b> JsonObject<'b> {
    /// Begins an object after the existing bytes.
    pub const fn begin(bytes: &'b mut Vec<u8>) -> Self {
        Self { bytes, before: b'{' }
    }

    /// A number, or null.
    #[inline(always)]
    pub fn number(&mut self, name: &'static str, value: Option<u64>) {
        self.name(name);
        match value {
            Some(value) => self.raw(itoa::Buffer::new().format(value)),
            None => self.raw("null"),
        }
    }

    /// A flag.
    #[inline(always)]
    pub fn flag(&mut self, name: &'static str, value: bool) {
        self.name(name);
        self.raw(if value { "true" } else { "false" });
    }

    /// Any other value.
    ///
    /// # Errors
    /// Returns an error for a value that has no JSON, such as a map whose keys are not texts; the
    /// object is then incomplete.
    pub fn value(
        &mut self,
        name: &'static str,
        value: &impl Serialize,
    ) -> Result<(), serde_json::Error> {
        self.name(name);
        serde_json::to_writer(&mut *self.bytes, value)
    }

    /// Closes the object.
    pub fn end(self) {
        // Without a field the opening brace was never written.
        let empty = self.before == b'{';
        self.bytes.extend_from_slice(if empty { b"{}" } else { b"}" });
    }

    /// Names are field names in code, so none has to be escaped.
    #[inline(always)]
    fn name(&mut self, name: &'static str) {
        self.bytes.extend_from_slice(&[self.before, b'"']);
        self.raw(name);
        self.raw("\":");
        self.before = b',';
    }

    #[inline(always)]
    fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn an_object_without_fields_is_one() {
        let mut line = b"[".to_vec();
        JsonObject::begin(&mut line).end();
        assert_eq!(line, b"[{}");
    }

    #[test]
    fn a_value_without_json_is_an_error() {
        let mut line = Vec::new();
        let mut object = JsonObject::begin(&mut line);
        assert!(object.value("odd", &HashMap::from([((1, 2), 3)])).is_err());
        assert!(object.value("even", &HashMap::from([("one", 3)])).is_ok());
    }
}
