//! The counters of a sliding window: few of them in place, more on the heap.
//!
//! Most windows have ten buckets, so that most states need no allocation.

use alloc::boxed::Box;
use alloc::vec;
use core::ops::{Deref, DerefMut};

/// The maximum number of counters that are kept in place: the usual ten, `strict` or not.
pub(super) const FEW: usize = 12;

/// Counters, at first 0. In place there may be more than asked for, which stay 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Slots {
    Few([u32; FEW]),
    Many(Box<[u32]>),
}

impl Slots {
    #[inline]
    pub(super) fn new(span: u64) -> Self {
        match span as usize {
            ..=FEW => Self::Few([0; FEW]),
            many => Self::Many(vec![0; many].into_boxed_slice()),
        }
    }
}

impl Deref for Slots {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        match self {
            Self::Few(few) => few,
            Self::Many(many) => many,
        }
    }
}

impl DerefMut for Slots {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        match self {
            Self::Few(few) => few,
            Self::Many(many) => many,
        }
    }
}
