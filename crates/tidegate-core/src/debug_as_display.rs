//! Errors that print the same text with `Debug` and with `Display`.
//!
//! Errors of all crates use it, because a `main` that returns an error prints it with `Debug`.

/// Makes `Debug` of an error print what `Display` prints.
///
/// A `main` that returns a boxed error prints it with `Debug`: so a user reads the message, with its place in a file,
/// and not the fields of a type.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_display {
    ($error:ty) => {
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    };
}
