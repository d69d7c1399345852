//! Whether rules can be decided in a store.

use super::share::Share;
use super::{SharedGate, SharedGateError};
use crate::{Policy, StoreSettings};

impl SharedGate {
    /// Whether there can be a gate for these rules over the store of `settings`. Nothing is asked, and neither a
    /// password nor a certificate looked up.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Micros, Policy, RuleSpec, SharedGate, Spec, StoreSettings};
    ///
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 2, Micros::from_secs(1));
    /// let mut settings = StoreSettings::new("redis://127.0.0.1".parse()?);
    /// settings.nodes = Some(0);
    /// let told = SharedGate::fits(&Policy::new(vec![RuleSpec::new("few", spec)])?, &settings).unwrap_err();
    /// assert!(told.to_string().contains("`nodes` of the store: expected"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// What can not be of the settings, of the rules in such a store, or of a rule's part of its limit.
    pub fn fits(policy: &Policy, settings: &StoreSettings) -> Result<(), SharedGateError> {
        let mistakes = settings.mistakes();
        if !mistakes.is_empty() {
            return Err(SharedGateError::Settings(mistakes));
        }
        policy.fits(settings).map_err(SharedGateError::Policy)?;
        Share::of(settings.nodes).check(policy).map_err(SharedGateError::Policy)
    }
}
