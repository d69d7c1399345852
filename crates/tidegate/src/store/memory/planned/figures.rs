//! Figures that limiters are under: those that came together share them.

use std::any::Any;
use std::sync::Arc;

use tidegate_core::Room;

use crate::store::memory::budget::Need;
use crate::store::memory::heap::need_of;

/// The figures of one room.
#[derive(Debug)]
pub(super) struct Figures<R: Room> {
    pub(super) room: R,
    /// What a state under them may take on the heap.
    pub(super) heap: Need,
}

impl<R: Room> Figures<R> {
    fn new(room: &R) -> Self {
        Self { heap: need_of(room), room: room.clone() }
    }
}

/// How many figures are looked through for a limiter that begins.
const RECENT: usize = 4;

/// The figures that limiters came under of late. Most come under the same few: those who share them find
/// them in the cache, and take no memory for them.
#[derive(Debug, Default)]
pub(super) struct Recent([Option<Arc<dyn Any + Send + Sync>>; RECENT]);

impl Recent {
    /// The figures of a room: those that others have, where they came of late.
    pub(super) fn figures<R: Room>(&mut self, room: &R) -> Arc<Figures<R>> {
        self.find(room).unwrap_or_else(|| self.add(Arc::new(Figures::new(room))))
    }

    fn find<R: Room>(&self, room: &R) -> Option<Arc<Figures<R>>> {
        let mut all = self.0.iter().flatten();
        all.find_map(|one| {
            let figures = one.downcast_ref::<Figures<R>>()?;
            (figures.room == *room).then(|| Arc::clone(one).downcast().ok())?
        })
    }

    fn add<R: Room>(&mut self, figures: Arc<Figures<R>>) -> Arc<Figures<R>> {
        self.0.rotate_right(1);
        self.0[0] = Some(figures.clone());
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{Algorithm, Micros, Rule, Spec, Visitor};

    /// Whether the figures of these limits, in turn, are those that came before them.
    fn are_shared(limits: &[u64]) -> Vec<bool> {
        struct Twice<'a>(&'a mut Recent);
        impl Visitor for Twice<'_> {
            type Out = bool;
            fn visit<R: Room>(self, room: &R) -> bool {
                let before = self.0.find(room);
                let figures = self.0.figures(room);
                assert_eq!(figures.room, *room);
                before.is_some_and(|before| Arc::ptr_eq(&before, &figures))
            }
        }
        let mut recent = Recent::default();
        let shared = |limit: &u64| {
            let spec = Spec::new(Algorithm::TokenBucket, *limit, Micros::from_secs(1));
            Rule::new(spec).unwrap().visit(Twice(&mut recent)).unwrap()
        };
        limits.iter().map(shared).collect()
    }

    #[test]
    fn those_who_come_together_share_their_figures_and_no_more_are_kept() {
        assert_eq!(are_shared(&[1, 1, 2, 1, 2]), [false, true, false, true, true]);
        assert_eq!(are_shared(&[1, 2, 3, 4, 5, 1]), [false; 6], "the first is forgotten");
    }
}
