//! The lifetime of a reservation, over HTTP and RESP: by default, and at most.

use std::time::Duration;

/// The lifetime of a reservation if the caller gives none.
pub(crate) const USUAL_LIFE: Duration = Duration::from_secs(60);
/// The longest life that a caller may name. The rules of the request may end it sooner (`max_life`, ten minutes by
/// default).
pub(crate) const LONGEST_LIFE: Duration = Duration::from_secs(86_400);
