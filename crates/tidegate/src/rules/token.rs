//! The identity of a rule without its texts, and what an observer keeps for the rule.

use std::any::Any;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, OnceLock};

/// The identity of a rule without its texts: shared by its copies and by the rules that it is changed to. A rule that
/// is made for one answer has none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Token(Option<Arc<OnceLock<Kept>>>);

/// What the first observer of a rule keeps for it. Whoever has an answer reads this without a guard.
#[derive(Debug)]
struct Kept {
    observer: Token,
    of_rule: Arc<dyn Any + Send + Sync>,
}

/// Statistics are counts, each consistent by itself at any moment.
impl RefUnwindSafe for Kept {}
impl UnwindSafe for Kept {}

impl Token {
    pub(crate) fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// A number that differs between rules as long as they exist; 0 if there is none.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        self.0.as_ref().map_or(0, |token| Arc::as_ptr(token).addr())
    }

    pub(crate) const fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// Whether anything else has a copy of it.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.as_ref().is_some_and(|token| Arc::strong_count(token) > 1)
    }

    /// Lets the rule keep something for an observer, unless it does so for another.
    pub(crate) fn keep(&self, observer: &Self, of_rule: Arc<dyn Any + Send + Sync>) {
        if let Some(kept) = &self.0 {
            kept.get_or_init(|| Kept { observer: observer.clone(), of_rule });
        }
    }

    /// Returns what the rule keeps for an observer.
    #[inline]
    pub(crate) fn kept_for<T: Any>(&self, observer: &Self) -> Option<&T> {
        let kept = self.0.as_ref()?.get()?;
        (kept.observer.address() == observer.address()).then(|| kept.of_rule.downcast_ref())?
    }
}
