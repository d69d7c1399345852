//! How long a reservation lives.

use std::time::Duration;

/// How long a reservation lives if the caller does not say.
pub(crate) const USUAL_LIFE: Duration = Duration::from_secs(60);
/// The longest life.
pub(crate) const LONGEST_LIFE: Duration = Duration::from_secs(86_400);
