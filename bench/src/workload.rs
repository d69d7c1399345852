//! The order of the questions: keys and their precomputed sequences.
//!
//! A sequence holds each key as it would come from a parsed request: its own `String`, laid out
//! in the order of asking. So reading the *key* is cheap for every subject alike, and what is
//! measured at random is the limiter's own memory.

/// One request: the same key as text and as a number, for whichever a subject takes.
pub struct Ask {
    /// Such as `user:0012345`.
    pub key: String,
    /// Such as `12345`; from 0 to one less than the count of keys.
    pub number: u64,
}

/// The order in which keys are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each key equally often, at random.
    Uniform,
    /// The k-th most frequent key 1/k as often as the first (Zipf, exponent 1).
    Zipf,
}

/// Draws in a sequence over many keys; it is walked round and round.
const DRAWS: usize = 1 << 20;
/// Asks in a sequence over a single key: enough that turning round costs nothing.
const ONE_KEY_ASKS: usize = 1 << 10;
const SEED: u64 = 0x7469_6465_6761_7465;

impl Ask {
    /// The request of key `number`.
    pub fn of(number: u64) -> Self {
        Self { key: format!("user:{number:07}"), number }
    }
}

/// The sequence for `keys` keys in `order`. The same in every run.
pub fn sequence(keys: u64, order: Order) -> Vec<Ask> {
    let mut random = SplitMix(SEED);
    match (keys, order) {
        (0 | 1, _) => (0..ONE_KEY_ASKS).map(|_| Ask::of(0)).collect(),
        (_, Order::Uniform) => (0..draws(keys)).map(|_| Ask::of(random.below(keys))).collect(),
        (_, Order::Zipf) => {
            let zipf = Zipf::new(keys, &mut random);
            (0..draws(keys)).map(|_| Ask::of(zipf.draw(&mut random))).collect()
        }
    }
}

/// Few keys get a short sequence, so that the sequence itself stays in the cache as they do.
fn draws(keys: u64) -> usize {
    usize::try_from(keys.saturating_mul(4)).unwrap_or(DRAWS).min(DRAWS)
}

/// Keys with the frequencies of Zipf's law; which key is the frequent one is shuffled, so that
/// the frequent ones are no neighbours in memory.
struct Zipf {
    cumulative: Vec<f64>,
    key_of_rank: Vec<u64>,
}

impl Zipf {
    fn new(keys: u64, random: &mut SplitMix) -> Self {
        let mut sum = 0.0;
        let cumulative = (1..=keys).map(|rank| add(&mut sum, 1.0 / rank as f64)).collect();
        let mut key_of_rank: Vec<u64> = (0..keys).collect();
        for left in (1..key_of_rank.len()).rev() {
            key_of_rank.swap(left, random.below(left as u64 + 1) as usize);
        }
        Self { cumulative, key_of_rank }
    }

    fn draw(&self, random: &mut SplitMix) -> u64 {
        let total = self.cumulative.last().copied().unwrap_or_default();
        let point = random.unit() * total;
        let rank = self.cumulative.partition_point(|&below| below <= point);
        self.key_of_rank[rank.min(self.key_of_rank.len() - 1)]
    }
}

fn add(sum: &mut f64, term: f64) -> f64 {
    *sum += term;
    *sum
}

/// SplitMix64: small, good enough to scatter, and the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn frequencies(keys: u64, order: Order) -> Vec<usize> {
        let mut counts = HashMap::new();
        for ask in sequence(keys, order) {
            assert!(ask.number < keys);
            *counts.entry(ask.number).or_insert(0) += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    #[test]
    fn uniform_favours_no_key() {
        let counts = frequencies(1000, Order::Uniform);
        assert!(counts[0] < 20, "the most frequent of 4 on average came {} times", counts[0]);
    }

    #[test]
    fn zipf_asks_the_second_key_half_as_often_as_the_first() {
        let counts = frequencies(500_000, Order::Zipf);
        let halves = counts[0] as f64 / counts[1] as f64;
        assert!((1.9..2.1).contains(&halves), "ratio {halves}");
    }

    #[test]
    fn text_and_number_name_the_same_key() {
        assert_eq!(Ask::of(12_345).key, "user:0012345");
        assert!(sequence(1, Order::Uniform).iter().all(|ask| ask.number == 0));
    }
}
