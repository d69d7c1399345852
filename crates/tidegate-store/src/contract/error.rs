//! The meaning of an error of a store for an answer.

use tidegate_rules::shared::StoreError;

use crate::step::Lack;

/// The meaning of an error for layers.
pub trait ErrorMeaning {
    /// Why the store did not decide, if this is the error.
    fn lack(&self) -> Lack;

    /// The error after a part of the work was done: it no longer says that nothing was sent.
    fn in_part(self) -> Self;
}

impl ErrorMeaning for StoreError {
    fn lack(&self) -> Lack {
        match self {
            Self::Overloaded { .. } => Lack::Overloaded,
            _ => Lack::Unavailable,
        }
    }

    fn in_part(self) -> Self {
        match self {
            // Both promise that nothing stays taken, which is no longer true.
            Self::Away | Self::Overloaded { .. } => {
                Self::Unreachable(format!("a part was done, then: {self}"))
            }
            error => error,
        }
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
            match never_sent.in_part() {
                StoreError::Unreachable(in_part) => assert!(in_part.contains(&text), "{in_part}"),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(StoreError::Timeout.in_part(), StoreError::Timeout);
        assert_eq!(StoreError::ReadOnly.in_part(), StoreError::ReadOnly);
    }
}
