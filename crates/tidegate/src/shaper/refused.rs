//! An item that was not taken in, and why: the errors of a push.

use std::fmt;
use std::time::Duration;

/// An item that was refused, with the reason.
///
/// ```
/// use tidegate::{AlgorithmKind, Refusal, ShapingQueue, Spec, Timestamp};
///
/// let spec = Spec::per_second(5).algorithm(AlgorithmKind::LeakyQueue);
/// let mut mails = ShapingQueue::new(spec)?;
/// let refused = mails.push(Timestamp::from_micros(0), "newsletter", 1_000).unwrap_err();
/// assert_eq!((refused.item, refused.refusal), ("newsletter", Refusal::Never));
/// # Ok::<(), tidegate::ShaperError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<T> {
    /// The item.
    pub item: T,
    /// The reason.
    pub refusal: Refusal,
}

/// Why an item is not taken in.
///
/// ```
/// use std::time::Duration;
/// use tidegate::Refusal;
///
/// /// The pause before the next attempt; `None` if there is no use in one.
/// fn pause(refusal: Refusal) -> Option<Duration> {
///     match refusal {
///         Refusal::Full { retry_after } => Some(retry_after),
///         Refusal::Behind => Some(Duration::from_secs(1)),
///         _ => None,
///     }
/// }
/// assert_eq!(pause(Refusal::Closed), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The queue is full.
    Full {
        /// Least wait after which the same cost would be taken in if nothing else arrived.
        retry_after: Duration,
    },
    /// The cost is larger than an empty queue admits.
    Never,
    /// More units are due, and not taken, than fit into the queue.
    Behind,
    /// The queue is closed.
    Closed,
}

impl Refusal {
    /// The wait after which the same cost fits, if the queue is only full; else `None`.
    #[must_use]
    pub const fn retry_after(self) -> Option<Duration> {
        match self {
            Self::Full { retry_after } => Some(retry_after),
            Self::Never | Self::Behind | Self::Closed => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { retry_after } => {
                write!(f, "the queue is full: the same cost fits after {retry_after:?}")
            }
            Self::Never => f.write_str(
                "the cost is larger than an empty queue admits (`capacity` + 1, or 0 at a `limit` of \
                 0): split it, or raise these values",
            ),
            Self::Behind => f.write_str(
                "due items are not taken: the queue accepts more when its receiver has \
                 caught up",
            ),
            Self::Closed => f.write_str("the queue is closed: it accepts no more items"),
        }
    }
}

tidegate_core::debug_as_display!(Refusal);

impl std::error::Error for Refusal {}

/// Shows the refusal without the item, which may not be printable.
impl<T> fmt::Debug for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("refusal", &self.refusal).finish_non_exhaustive()
    }
}

impl<T> fmt::Display for Refused<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refusal.fmt(f)
    }
}

impl<T> std::error::Error for Refused<T> {}
