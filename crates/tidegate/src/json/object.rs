//! An object of JSON, written field by field.

use serde::Serialize;

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
