//! The data of observers for the rules of a policy.
//!
//! An observer keeps the counters of rules with their policy, so that both are dropped together.

use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

/// Values that live as long as a policy, one for each owner. A copy of the policy begins without any.
#[derive(Default)]
pub(crate) struct Attached(OnceLock<Box<AttachedValue>>);

struct AttachedValue {
    owner: usize,
    value: Box<dyn Any + Send + Sync>,
    next: Attached,
}

impl Attached {
    /// Returns the value of an owner, which is made if there is none; `None` if it is of another type.
    #[inline]
    pub(crate) fn of<T: Any + Send + Sync>(
        &self,
        owner: usize,
        make: impl Fn() -> T,
    ) -> Option<&T> {
        let new =
            || Box::new(AttachedValue { owner, value: Box::new(make()), next: Self::default() });
        let mut place = self;
        loop {
            // Of threads that come at once, one puts its node here; the others find it, and go on if it is of another
            // owner.
            let node = place.0.get_or_init(new);
            if node.owner == owner {
                return node.value.downcast_ref();
            }
            place = &node.next;
        }
    }
}

impl Clone for Attached {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached").finish_non_exhaustive()
    }
}
