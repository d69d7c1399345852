//! Why there can be no gate over a store.

use std::fmt;

use crate::rules::PolicyErrors;
use crate::settings::SettingsError;
use crate::store::redis::StoreError;

/// Why there can be no gate over a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedGateError {
    /// Settings that can not be; never empty.
    Settings(Vec<SettingsError>),
    /// The password or the certificates to trust can not be read: [`StoreError::Unreadable`].
    Unreadable(StoreError),
    /// The rules can not be kept in this store, or not with a part of their limits.
    Policy(PolicyErrors),
}

impl fmt::Display for SharedGateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(mistakes) => {
                for (number, mistake) in mistakes.iter().enumerate() {
                    write!(f, "{}{mistake}", if number == 0 { "" } else { "\n" })?;
                }
                Ok(())
            }
            Self::Unreadable(error) => error.fmt(f),
            Self::Policy(errors) => errors.fmt(f),
        }
    }
}

impl std::error::Error for SharedGateError {}
