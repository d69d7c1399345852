//! The parameters of limiters, shared by limiters that were created close together.
//!
//! A caller may supply a new rule with each call, so a shard keeps only the last few: equal rules share memory, and a
//! rule that comes once goes with its limiter.

use std::any::Any;
use std::sync::Arc;

use tidegate_core::Algorithm;

use crate::store::memory::parameters::Parameters;

/// The number of recent parameters that are compared for a new limiter.
const RECENT: usize = 4;

/// The parameters under which limiters came recently. Most limiters have one of a few: shared parameters are in the
/// cache, and take no more memory.
#[derive(Debug, Default)]
pub(in crate::store::memory) struct Recent([Option<Arc<dyn Any + Send + Sync>>; RECENT]);

impl Recent {
    /// Returns the parameters of an algorithm, shared if they are among the recent ones.
    pub(super) fn parameters<R: Algorithm>(&mut self, algorithm: &R) -> Arc<Parameters<R>> {
        self.find(algorithm)
            .unwrap_or_else(|| self.add(Arc::new(Parameters::new(algorithm.clone()))))
    }

    fn find<R: Algorithm>(&self, algorithm: &R) -> Option<Arc<Parameters<R>>> {
        let mut all = self.0.iter().flatten();
        all.find_map(|one| {
            let parameters = one.downcast_ref::<Parameters<R>>()?;
            (parameters.algorithm == *algorithm).then(|| Arc::clone(one).downcast().ok())?
        })
    }

    fn add<R: Algorithm>(&mut self, parameters: Arc<Parameters<R>>) -> Arc<Parameters<R>> {
        self.0.rotate_right(1);
        self.0[0] = Some(parameters.clone());
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate_core::{AlgorithmKind, Rule, Spec, Visitor};

    /// Returns whether the parameters of each of these limits in turn are shared with recent ones.
    fn are_shared(limits: &[u64]) -> Vec<bool> {
        struct Twice<'a>(&'a mut Recent);
        impl Visitor for Twice<'_> {
            type Out = bool;
            fn visit<R: Algorithm>(self, algorithm: &R) -> bool {
                let before = self.0.find(algorithm);
                let parameters = self.0.parameters(algorithm);
                assert_eq!(parameters.algorithm, *algorithm);
                before.is_some_and(|before| Arc::ptr_eq(&before, &parameters))
            }
        }
        let mut recent = Recent::default();
        let shared = |limit: &u64| {
            let spec = Spec::new(AlgorithmKind::TokenBucket, *limit, Duration::from_secs(1));
            Rule::new(spec).unwrap().visit(Twice(&mut recent)).unwrap()
        };
        limits.iter().map(shared).collect()
    }

    #[test]
    fn those_who_come_together_share_their_parameters_and_no_more_are_kept() {
        assert_eq!(are_shared(&[1, 1, 2, 1, 2]), [false, true, false, true, true]);
        assert_eq!(are_shared(&[1, 2, 3, 4, 5, 1]), [false; 6], "the first is forgotten");
    }
}
