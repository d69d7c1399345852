//! The fuzzer's seeds for ordinary tests, and inputs close to them.

use std::fs;
use std::path::Path;

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");

/// The seeds of a fuzz target.
pub(crate) fn of(target: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(Path::new(SEEDS).join(target)).unwrap();
    files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
}

/// Judges each seed, each prefix of it, and the seed with one byte replaced by each of `others`;
/// returns how many of the last there were.
pub(crate) fn judge_near(seeds: &[Vec<u8>], others: &[u8], judge: impl Fn(&[u8])) -> usize {
    let mut judged = 0;
    for seed in seeds {
        judge(seed);
        for index in 0..seed.len() {
            judge(&seed[..index]);
            for other in others {
                let mut near = seed.clone();
                near[index] = *other;
                judge(&near);
                judged += 1;
            }
        }
    }
    judged
}

/// Judges inputs further from the seeds: pieces of two of them, with some bytes changed and some of
/// `words` inserted. They are the same on every run, and 50 times as many with `TIDEGATE_LONG`.
pub(crate) fn judge_far(seeds: &[Vec<u8>], words: &[&[u8]], judge: impl Fn(&[u8])) {
    let times = if std::env::var_os("TIDEGATE_LONG").is_some() { 50 } else { 1 };
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for _ in 0..3_000 * times {
        let mut far = dice.one_of(seeds).clone();
        let other = dice.one_of(seeds);
        far.truncate(dice.below(far.len() + 1));
        far.extend_from_slice(&other[dice.below(other.len() + 1)..]);
        for _ in 0..dice.below(6) {
            let at = dice.below(far.len() + 1);
            match dice.below(4) {
                0 => far.truncate(at.max(far.len() / 2)),
                1 => drop(far.drain(at.min(far.len())..(at + dice.below(4)).min(far.len()))),
                2 => drop(far.splice(at..at, dice.one_of(words).iter().copied())),
                _ => drop(far.splice(at..at, [dice.below(256) as u8])),
            }
        }
        judge(&far);
    }
}

/// Pseudo-random numbers that are the same on every run (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound.max(1) as u64) as usize
    }

    fn one_of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }
}
