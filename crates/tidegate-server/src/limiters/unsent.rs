//! The effect of a refund or a reset that failed, for HTTP, RESP and the audit line.

use tidegate::StoreError;

/// Returns whether the store was not asked, so that nothing was changed and the caller may repeat the request. After
/// any other error a repeated refund may count twice.
pub(crate) const fn was_not_sent(error: &StoreError) -> bool {
    matches!(error, StoreError::Away | StoreError::Overloaded { .. })
}

/// The error, and the effect of the change that it ended.
pub(crate) fn said_of_change(error: &StoreError) -> String {
    if was_not_sent(error) {
        format!("{error}; nothing was changed: repeat it")
    } else {
        format!("{error}; it is unknown whether anything was changed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_change_that_was_not_sent_may_be_repeated() {
        for (error, may_repeat) in [
            (StoreError::Away, true),
            (StoreError::Overloaded { together: false }, true),
            (StoreError::Timeout, false),
            (StoreError::Unreachable("a part was done".to_owned()), false),
        ] {
            let said = said_of_change(&error);
            assert_eq!(was_not_sent(&error), may_repeat, "{said}");
            assert_eq!(said.contains("nothing was changed: repeat it"), may_repeat, "{said}");
            assert_eq!(said.contains("it is unknown"), !may_repeat, "{said}");
        }
    }
}
