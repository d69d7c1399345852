//! The `date` of answers on the fast path, formatted once a second and not for each answer.

use std::time::SystemTime;

use tidegate::Timestamp;

/// The date as written, and its second.
#[derive(Default)]
pub(super) struct Date {
    second: u64,
    text: String,
}

impl Date {
    /// The date of an answer that was decided at `at`. The clock of `at` shows when a second has passed; the system's
    /// clock, which may have been changed in between, gives the date.
    pub(super) fn at(&mut self, at: Timestamp) -> &str {
        let second = at.as_micros() / 1_000_000;
        if second != self.second || self.text.is_empty() {
            self.second = second;
            self.text = now();
        }
        &self.text
    }

    /// The date now, for an answer without a decision.
    pub(super) fn now(&mut self) -> &str {
        self.text = now();
        &self.text
    }
}

#[expect(clippy::disallowed_methods, reason = "no decision depends on it")]
fn now() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_decided_has_no_old_date() {
        let mut date = Date { second: 1, text: "long ago".to_owned() };
        assert_eq!(date.at(Timestamp::from_micros(1_000_000)), "long ago");
        assert!(date.now().ends_with(" GMT"));
    }
}
