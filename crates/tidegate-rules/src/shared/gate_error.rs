//! Errors of making a gate over a store.

use std::fmt;

use crate::rules::Policy;
use crate::rules::PolicyErrors;
use crate::settings::SettingsError;
use crate::settings::StoreSettings;

use super::share::Share;
use super::store_error::StoreError;

/// An error of making a gate over a store.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Policy, RuleSpec, SharedGate, SharedGateError, StoreSettings};
///
/// let policy = Policy::new(vec![RuleSpec::new("per-user", "10/s").key(["user"])])?;
/// let mut settings = StoreSettings::new("redis://127.0.0.1".parse()?);
/// settings.timeout = Duration::ZERO;
/// match SharedGate::new(policy, settings, |_| {}) {
///     Err(SharedGateError::Settings(mistakes)) => assert_eq!(mistakes[0].field(), "timeout"),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SharedGateError {
    /// The settings are invalid; never empty.
    Settings(Vec<SettingsError>),
    /// The password or the trusted certificates cannot be read: [`StoreError::Unreadable`].
    Unreadable(StoreError),
    /// The rules cannot be kept in this store, or no share can be made of their limits.
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

tidegate_core::debug_as_display!(SharedGateError);

impl std::error::Error for SharedGateError {}

impl StoreSettings {
    /// Checks whether a `SharedGate` for these rules can exist over the store of these settings. The
    /// store is not asked, and no password or certificate is read.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Policy, RuleSpec, Spec, StoreSettings};
    ///
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 2, Duration::from_secs(1));
    /// let mut settings = StoreSettings::new("redis://127.0.0.1".parse()?);
    /// settings.nodes = Some(0);
    /// let error = settings.fits(&Policy::new(vec![RuleSpec::new("few", spec)])?).unwrap_err();
    /// assert!(error.to_string().contains("`nodes` of the store: expected"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The settings are invalid, the rules cannot be kept in such a store, or no share can be made of a rule's
    /// limit.
    pub fn fits(&self, policy: &Policy) -> Result<(), SharedGateError> {
        let mistakes = self.mistakes();
        if !mistakes.is_empty() {
            return Err(SharedGateError::Settings(mistakes));
        }
        policy.fits(self).map_err(SharedGateError::Policy)?;
        Share::of(self.nodes).check(policy).map_err(SharedGateError::Policy)
    }
}
