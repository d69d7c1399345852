//! Where the limiters of the keys live.

pub(crate) mod memory;

pub use memory::OnFull;
