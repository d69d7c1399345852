//! Refusals of changes and of reservations, for every protocol: the errors of the limiters with their kinds, and
//! whether the caller may repeat the request.

use tidegate::StoreError;

use super::{Unreserved, Unsettled};
use crate::refusal::{RefusalKind, RequestRefusal};

/// Returns whether the store was not asked, so that nothing was changed and the caller may repeat the request. After
/// any other error a repeated refund may count twice.
pub(crate) const fn was_not_sent(error: &StoreError) -> bool {
    matches!(error, StoreError::Away | StoreError::Overloaded { .. })
}

impl RequestRefusal {
    /// The refusal of a refund or a reset that ended with this error, and its effect.
    pub(crate) fn of_change(error: &StoreError) -> Self {
        if was_not_sent(error) {
            Self::unavailable(format!("{error}; nothing was changed: repeat it")).repeatable()
        } else {
            Self::unavailable(format!("{error}; it is unknown whether anything was changed"))
        }
    }
}

impl From<Unreserved> for RequestRefusal {
    fn from(why: Unreserved) -> Self {
        let detail = why.to_string();
        match why {
            Unreserved::Full => RefusalKind::TooManyReservations.because(detail).repeatable(),
            Unreserved::TooLong { .. } => RefusalKind::InvalidBody.because(detail),
            Unreserved::Unrecorded(_) => Self::unavailable(detail).repeatable(),
        }
    }
}

impl From<Unsettled> for RequestRefusal {
    /// The refusal of a settle, a renewal or a drop that changed nothing.
    fn from(why: Unsettled) -> Self {
        let detail = why.to_string();
        match why {
            Unsettled::NoId | Unsettled::Costs { .. } => RefusalKind::InvalidBody.because(detail),
            Unsettled::Unknown => RefusalKind::UnknownReservation.because(detail),
            Unsettled::Otherwise { .. } | Unsettled::Elsewhere => {
                RefusalKind::SettledOtherwise.because(detail)
            }
            Unsettled::Full => RefusalKind::TooManyReservations.because(detail).repeatable(),
            Unsettled::Undone(_) | Unsettled::Unrenewed(_) | Unsettled::Pending(_) => {
                Self::unavailable(detail).repeatable()
            }
        }
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
            let said = RequestRefusal::of_change(&error);
            assert_eq!(was_not_sent(&error), may_repeat, "{said:?}");
            assert_eq!(said.field.is_some(), may_repeat, "{said:?}");
            assert_eq!(
                said.detail.contains("nothing was changed: repeat it"),
                may_repeat,
                "{said:?}"
            );
            assert_eq!(said.detail.contains("it is unknown"), !may_repeat, "{said:?}");
        }
    }
}
