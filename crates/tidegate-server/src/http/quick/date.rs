//! The `date` of answers, written once a second.

use std::time::SystemTime;

use tidegate::Timestamp;

/// The date as it is written, as of a second.
#[derive(Default)]
pub(super) struct Date {
    second: u64,
    text: String,
}

impl Date {
    /// The date of an answer that was decided at `at`. That clock says when a second has passed; which
    /// second it is, the system's says, which may have been set meanwhile.
    pub(super) fn at(&mut self, at: Timestamp) -> &str {
        let second = at.as_micros() / 1_000_000;
        if second != self.second || self.text.is_empty() {
            self.second = second;
            self.text = now();
        }
        &self.text
    }

    /// The last one that was told.
    pub(super) fn again(&mut self) -> &str {
        if self.text.is_empty() {
            self.text = now();
        }
        &self.text
    }
}

#[expect(clippy::disallowed_methods, reason = "no decision depends on it")]
fn now() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}
