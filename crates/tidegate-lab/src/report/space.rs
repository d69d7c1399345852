//! A budget of bytes that several users share. Half of it is split evenly, so that even the last user has room; the
//! other half goes to the first users that ask.

/// The users report how much each holds; this adds it up.
#[derive(Clone, Debug)]
pub(super) struct Space {
    total: usize,
    /// The bytes that each user is guaranteed.
    sure: usize,
    /// The bytes that are held, and the bytes reserved for users that hold less than they are guaranteed.
    claimed: usize,
}

impl Space {
    /// `total` bytes for `sharers` users, which hold nothing yet.
    pub(super) fn new(total: usize, sharers: usize) -> Self {
        let sure = total / 2 / sharers.max(1);
        Self { total, sure, claimed: sure * sharers }
    }

    /// The maximum that a user that holds `held` bytes may hold; for a single user it is everything.
    pub(super) fn for_one(&self, held: usize) -> usize {
        // `claimed` has this user's own part, which it may use again.
        (self.total + held.max(self.sure)).saturating_sub(self.claimed)
    }

    /// Notes that a user that held `before` bytes holds `now`.
    pub(super) fn changed(&mut self, before: usize, now: usize) {
        // In this order it never falls below 0, because `claimed` includes `before`.
        self.claimed = self.claimed - before.max(self.sure) + now.max(self.sure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_alone_may_hold_everything() {
        let mut space = Space::new(1_001, 1);
        assert_eq!(space.for_one(0), 1_001);
        space.changed(0, 900);
        assert_eq!(space.for_one(900), 1_001);
    }

    #[test]
    fn whoever_comes_late_has_what_is_kept() {
        let mut space = Space::new(1_000, 5);
        assert_eq!(space.for_one(0), 600);
        space.changed(0, 600);
        assert_eq!((space.for_one(600), space.for_one(0)), (600, 100));
        space.changed(600, 300);
        assert_eq!((space.for_one(300), space.for_one(0)), (600, 400));
    }

    proptest! {
        #[test]
        fn together_they_never_hold_more_and_none_less_than_it_is_sure_of(
            total in 0_usize..10_000,
            sharers in 1_usize..9,
            wants in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..10_000), 0..60),
        ) {
            let (mut space, mut held) = (Space::new(total, sharers), vec![0; sharers]);
            for (who, want) in wants {
                let who = who.index(sharers);
                let most = space.for_one(held[who]);
                prop_assert!(most >= held[who] && most >= total / 2 / sharers);
                space.changed(held[who], want.min(most));
                held[who] = want.min(most);
                prop_assert!(held.iter().sum::<usize>() <= total);
            }
        }
    }
}
