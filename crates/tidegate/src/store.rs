//! Where the limiters of the keys live.

pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
