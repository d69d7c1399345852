//! The fuzzer's seeds for ordinary tests, and inputs close to them.

use std::fs;
use std::path::Path;

use testkit::traffic::Rng;

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
    let mut rng = Rng::new(0);
    for _ in 0..3_000 * times {
        let mut far = one_of(&mut rng, seeds).clone();
        let other = one_of(&mut rng, seeds);
        far.truncate(below(&mut rng, far.len() + 1));
        far.extend_from_slice(&other[below(&mut rng, other.len() + 1)..]);
        for _ in 0..rng.below(6) {
            let at = below(&mut rng, far.len() + 1);
            match rng.below(4) {
                0 => far.truncate(at.max(far.len() / 2)),
                1 => drop(far.drain(at..(at + below(&mut rng, 4)).min(far.len()))),
                2 => drop(far.splice(at..at, one_of(&mut rng, words).iter().copied())),
                _ => drop(far.splice(at..at, [rng.below(256) as u8])),
            }
        }
        judge(&far);
    }
}

fn below(rng: &mut Rng, end: usize) -> usize {
    rng.below(end as u64) as usize
}

fn one_of<'t, T>(rng: &mut Rng, all: &'t [T]) -> &'t T {
    &all[below(rng, all.len())]
}
