//! The way in which a rule's limiters learn the usage of a request.

/// The way in which a rule's limiters learn the usage of a request.
///
/// ```
/// use tidegate::{Descriptor, Gate, Policy, RuleSpec, Usage};
///
/// let tokens = RuleSpec::new("tokens", "1000/h").key(["user"]).usage(Usage::Reported);
/// let gate = Gate::new(Policy::new(vec![tokens])?);
/// let ada = Descriptor::new(&[("user", "ada")]);
/// assert!(gate.admits(ada.cost(0)), "a question before the work");
/// let _ = gate.check(ada.cost(1300)); // what it did cost
/// assert!(!gate.admits(ada.cost(0)));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Usage {
    /// A request has a cost, and takes it if it is admitted.
    #[default]
    Requested,
    /// Usage is reported afterwards. A cost of 0 asks whether one unit would be admitted, and takes nothing. A cost
    /// of 1 or more is taken regardless of the limit, even into debt; the answer reports the limiter after that:
    /// allowed if one unit more would be admitted, else denied until it would. No other rule refuses a request that
    /// reports usage to an enforced rule, and the request takes from all of its limiters.
    Reported,
}
