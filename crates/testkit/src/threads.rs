//! Threads that start together, and how long a test is to run.
//!
//! For tests of counts and limits that must hold under any concurrency.

use std::sync::Barrier;
use std::thread;

use crate::traffic::Rng;

/// Returns whether many more cases are requested (`TIDEGATE_LONG`).
pub fn long() -> bool {
    std::env::var_os("TIDEGATE_LONG").is_some()
}

/// Runs `work` on this many threads that start together, each with its number and a generator.
///
/// # Panics
/// Panics if the work of a thread does.
pub fn together(threads: u64, work: impl Fn(u64, &mut Rng) + Sync) {
    let start = Barrier::new(usize::try_from(threads).unwrap_or(usize::MAX));
    thread::scope(|scope| {
        for number in 0..threads {
            let (start, work) = (&start, &work);
            scope.spawn(move || {
                // They start together, so that their work overlaps.
                start.wait();
                work(number, &mut Rng::new(number));
            });
        }
    });
}
