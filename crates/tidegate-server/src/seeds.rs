//! The fuzzer's seeds for ordinary tests, and inputs close to them.

use std::fs;
use std::path::Path;

use testkit::traffic::Rng;

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");

/// The seeds of a fuzz target.
pub(crate) fn of(target: &str) -> Vec<Vec<u8>> {
    let files = fs::read_dir(Path::new(FUZZ).join("seeds").join(target)).unwrap();
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

/// Judges inputs further from the seeds: pieces of two of them, with some bytes changed and some of the
/// target's words inserted. They are the same on every run, and 50 times as many with `TIDEGATE_LONG`.
pub(crate) fn judge_far(target: &str, judge: impl Fn(&[u8])) {
    let path = Path::new(FUZZ).join("words").join(target).with_extension("dict");
    let words = fs::read_to_string(path).unwrap();
    let words: Vec<_> = words.lines().map(|word| bytes_of(word.trim_matches('"'))).collect();
    let seeds = of(target);
    let times = if testkit::threads::long() { 50 } else { 1 };
    let mut rng = Rng::new(0);
    for _ in 0..3_000 * times {
        let mut far = one_of(&mut rng, &seeds).clone();
        let other = one_of(&mut rng, &seeds);
        far.truncate(below(&mut rng, far.len() + 1));
        far.extend_from_slice(&other[below(&mut rng, other.len() + 1)..]);
        for _ in 0..rng.below(6) {
            let at = below(&mut rng, far.len() + 1);
            match rng.below(4) {
                0 => far.truncate(at.max(far.len() / 2)),
                1 => drop(far.drain(at..(at + below(&mut rng, 4)).min(far.len()))),
                2 => drop(far.splice(at..at, one_of(&mut rng, &words).iter().copied())),
                _ => drop(far.splice(at..at, [rng.below(256) as u8])),
            }
        }
        judge(&far);
    }
}

/// The bytes of a word, of which some are written as `\xHH`.
fn bytes_of(word: &str) -> Vec<u8> {
    let mut parts = word.split(r"\x");
    let mut bytes = parts.next().unwrap().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

fn below(rng: &mut Rng, end: usize) -> usize {
    rng.below(end as u64) as usize
}

fn one_of<'t, T>(rng: &mut Rng, all: &'t [T]) -> &'t T {
    &all[below(rng, all.len())]
}
