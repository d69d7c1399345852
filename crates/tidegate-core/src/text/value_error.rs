//! The error of a text that cannot be read as the expected value.
//!
//! Rates, lengths and sizes share it: a message with the expected form.

use alloc::string::String;
use core::fmt;

/// Why a text is not the value it should be, with the expected form.
#[derive(Clone, PartialEq, Eq)]
pub struct ValueError {
    message: String,
}

impl ValueError {
    /// Creates the error of a text that is read elsewhere.
    #[doc(hidden)]
    #[must_use]
    pub const fn new(message: String) -> Self {
        Self { message }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

debug_as_display!(ValueError);

impl core::error::Error for ValueError {}
