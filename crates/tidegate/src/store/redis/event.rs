//! What there is to tell of the store besides decisions.

use super::audit::Finding;
use super::error::StoreError;

/// Something that became of the store: told once, not for each request that notices.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum StoreEvent<'a> {
    /// It is away from now on, for this reason; rules decide by their own `on_store_error`.
    Lost(&'a StoreError),
    /// It is back, and decisions are exact again.
    Back,
    /// The node that decides about the keys of these slots of a cluster is away, for this reason; rules
    /// decide about them by their own `on_store_error`, and all other keys are decided as before.
    PartLost {
        /// The first slot of the range.
        first_slot: u16,
        /// Its last slot.
        last_slot: u16,
        /// Why.
        error: &'a StoreError,
    },
    /// Such a range is answered for again. [`Back`](Self::Back) tells it of all ranges at once.
    PartBack {
        /// The first slot of the range.
        first_slot: u16,
        /// Its last slot.
        last_slot: u16,
    },
    /// How it is set up can make limits fail; told once for each such thing.
    Finding(&'a Finding),
}

/// Who is told.
pub(crate) type Observer = Box<dyn Fn(StoreEvent<'_>) + Send + Sync>;
