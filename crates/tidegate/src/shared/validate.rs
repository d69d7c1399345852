//! Checks whether rules can be decided in a store.

use super::SharedGateError;
use crate::layers::Share;
use crate::rules::Policy;
use crate::settings::StoreSettings;

impl StoreSettings {
    /// Checks whether a [`SharedGate`](crate::SharedGate) for these rules can exist over the store of these settings. The
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
