//! Where the limiters of the keys live.

pub(crate) mod memory;
#[cfg(feature = "redis")]
pub(crate) mod redis;
pub(crate) mod settings;

pub use memory::OnFull;
pub use settings::{Secret, SettingsError, StoreSettings, StoreUrl, StoreUrlError};
