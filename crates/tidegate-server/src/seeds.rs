//! The fuzzer's seeds for ordinary tests: each of them, and what lies close to it.

use std::fs;
use std::path::Path;

const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");

/// The seeds of a fuzz target.
pub(crate) fn of(target: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(Path::new(SEEDS).join(target)).unwrap();
    files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
}

/// Judges each seed, each beginning of it, and it with one byte replaced by each of `others`; answers how
/// many of the last there were.
pub(crate) fn judge_near(seeds: &[Vec<u8>], others: &[u8], judge: impl Fn(&[u8])) -> usize {
    let mut judged = 0;
    for seed in seeds {
        judge(seed);
        for place in 0..seed.len() {
            judge(&seed[..place]);
            for other in others {
                let mut near = seed.clone();
                near[place] = *other;
                judge(&near);
                judged += 1;
            }
        }
    }
    judged
}
