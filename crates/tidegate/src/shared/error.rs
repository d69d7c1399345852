//! Why there can be no gate over a store.

use std::fmt;

use crate::rules::PolicyErrors;
use crate::store::redis::StoreError;
use crate::store::settings::SettingsError;

/// Why there can be no gate over a store.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedGateError {
    /// Settings that can not be; never empty.
    Settings(Vec<SettingsError>),
    /// A rule that is decided in process while the store is away has less than one unit for each node.
    NoShare {
        /// The rule's name.
        rule: String,
        /// Its limit or capacity.
        units: u64,
        /// The nodes.
        nodes: u64,
    },
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
            Self::NoShare { rule, units, nodes } => write!(
                f,
                "rule `{rule}`: {units} units among {nodes} nodes is less than one each: expected fewer \
                 `nodes`, or another `on_store_error` than \"local\""
            ),
            Self::Unreadable(error) => error.fmt(f),
            Self::Policy(errors) => errors.fmt(f),
        }
    }
}

impl std::error::Error for SharedGateError {}
