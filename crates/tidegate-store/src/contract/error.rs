//! The meaning of an error of a store for an answer.

use tidegate_rules::shared::StoreError;

use crate::step::Lack;

impl Lack {
    /// Why the store did not decide, if this is the error.
    pub const fn of(error: &StoreError) -> Self {
        match error {
            StoreError::Overloaded { .. } => Self::Overloaded,
            _ => Self::Unavailable,
        }
    }
}

/// The error after a part of the work was done: it no longer says that nothing was sent.
pub fn done_in_part(error: StoreError) -> StoreError {
    match error {
        // Both promise that nothing stays taken, which is no longer true.
        StoreError::Away | StoreError::Overloaded { .. } => {
            StoreError::Unreachable(format!("a part was done, then: {error}"))
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A caller that asks again must not believe that nothing was done when a part was.
    #[test]
    fn work_done_in_part_is_not_reported_as_never_sent() {
        for never_sent in [StoreError::Away, StoreError::Overloaded { together: false }] {
            let text = never_sent.to_string();
            match done_in_part(never_sent) {
                StoreError::Unreachable(in_part) => assert!(in_part.contains(&text), "{in_part}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(done_in_part(StoreError::Timeout), StoreError::Timeout);
        assert_eq!(done_in_part(StoreError::ReadOnly), StoreError::ReadOnly);
    }
}
