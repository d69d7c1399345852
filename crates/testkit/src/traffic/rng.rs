//! xoshiro256** seeded by splitmix64: small, fast, and the same on every machine.
//!
//! It is here and not of a library, because a seed must give the same test for ever.

/// A random number generator; equal seeds give equal numbers for ever. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator; every seed is good, 0 too.
    pub fn new(seed: u64) -> Self {
        let mut seed = seed;
        Self { state: std::array::from_fn(|_| splitmix64(&mut seed)) }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let (c2, d2) = (c ^ a, d ^ b);
        self.state = [a ^ d2, b ^ c2, c2 ^ (b << 17), d2.rotate_left(45)];
        b.wrapping_mul(5).rotate_left(7).wrapping_mul(9)
    }

    /// A number below `end`; 0 when `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(end);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included; `low` when they are the wrong way round.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.saturating_sub(low).checked_add(1) {
            Some(count) => low + self.below(count),
            None => self.next_u64(),
        }
    }

    /// True about `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the items, each as likely; name one twice to have it twice as often.
    pub fn pick<T: Copy, const COUNT: usize>(&mut self, items: [T; COUNT]) -> T {
        const { assert!(COUNT > 0, "there must be something to pick from") };
        let index = self.below(COUNT as u64);
        items[usize::try_from(index).unwrap_or(0)]
    }

    /// A number from 1 to `high`, small ones far more often: each magnitude is as likely.
    pub fn skewed(&mut self, high: u64) -> u64 {
        let magnitude = self.between(0, u64::from(high.max(1).ilog2()));
        let top = (2_u64 << magnitude).wrapping_sub(1);
        self.between(1 << magnitude, top.min(high.max(1)))
    }
}

fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Rng, splitmix64};

    #[test]
    fn splitmix_gives_its_published_numbers() {
        let mut state = 1_234_567;
        let three = [(); 3].map(|()| splitmix64(&mut state));
        assert_eq!(
            three,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn xoshiro_gives_its_published_numbers() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let three = [(); 3].map(|()| rng.next_u64());
        assert_eq!(three, [11_520, 0, 1_509_978_240]);
    }

    #[test]
    fn ranges_are_kept_and_reached() {
        let mut rng = Rng::new(1);
        let seen: std::collections::BTreeSet<u64> = (0..200).map(|_| rng.between(3, 6)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        assert!((0..1_000).all(|_| (1..=1_000).contains(&rng.skewed(1_000))));
        assert_eq!((rng.below(0), rng.between(9, 9), rng.skewed(0), rng.skewed(1)), (0, 9, 1, 1));
        assert!((0..100).all(|_| rng.skewed(u64::MAX) > 0));
    }
}
