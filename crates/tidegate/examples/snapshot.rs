//! Usage survives a restart: `cargo run --example snapshot`.
//!
//! Another thread decides while the limiters of many keys are written, and the longest of its decisions is printed. With
//! the number of keys it measures: `cargo run --release --example snapshot 1000000`.

use std::env;
use std::error::Error;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use tidegate::{AlgorithmKind, Clock, Gate, Policy, RuleSpec, Spec, SystemClock};

fn main() -> Result<(), Box<dyn Error>> {
    let keys: u32 = env::args().nth(1).map_or(Ok(20_000), |keys| keys.parse())?;
    for algorithm in
        [AlgorithmKind::TokenBucket, AlgorithmKind::SlidingWindow, AlgorithmKind::SlidingLog]
    {
        restart(algorithm, keys)?;
    }
    Ok(())
}

fn restart(algorithm: AlgorithmKind, keys: u32) -> Result<(), Box<dyn Error>> {
    let clock = SystemClock::new();
    let policy = || {
        let rule = RuleSpec::new("per-user", Spec::per_hour(2).algorithm(algorithm)).key(["user"]);
        Policy::new(vec![rule])
    };
    let before = Gate::new(policy()?);
    let ask = |gate: &Gate, key: u32| gate.admits(("default", &[("user", &*key.to_string())]));
    for key in (0..keys).chain(0..keys) {
        assert!(ask(&before, key));
    }

    // As long a time in which this thread is as busy, for comparison.
    let begun = clock.now();
    let busy = || while clock.now().duration_since(begun) < Duration::from_millis(500) {};
    let ((), usual) = beside(&before, &clock, keys, busy)?;

    let mut file = tempfile::NamedTempFile::new()?;
    let (begun, used) = (clock.now(), processor_time());
    let write = || {
        let written = before.write_snapshot(BufWriter::new(file.as_file_mut()));
        (written, clock.now().duration_since(begun), processor_time().saturating_sub(used))
    };
    let ((written, took, used), longest) = beside(&before, &clock, keys, write)?;
    let written = written?;
    println!("{algorithm}: {} limiters, {} bytes", written.limiters, written.bytes);
    println!("  written in {took:.1?}, {used:.1?} of CPU");
    println!("  the longest decision during it {longest:.1?}, during other work {usual:.1?}");

    let begun = clock.now();
    let (after, loaded) =
        Gate::new(policy()?).with_snapshot(BufReader::new(File::open(file.path())?))?;
    println!("  loaded in {:.1?}", clock.now().duration_since(begun));
    assert_eq!(loaded.limiters, u64::from(keys));
    assert!(!ask(&after, 0) && !ask(&after, keys - 1) && ask(&after, keys));
    Ok(())
}

/// The processor time of this thread, if the system reports it.
fn processor_time() -> Duration {
    let message = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = message.split_whitespace().next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Runs `work` while another thread decides; also returns the longest time that a decision took.
fn beside<T>(
    gate: &Gate,
    clock: &SystemClock,
    keys: u32,
    work: impl FnOnce() -> T,
) -> Result<(T, Duration), &'static str> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let deciding = scope.spawn(|| longest(gate, clock, &stop, keys));
        let done = work();
        stop.store(true, Relaxed);
        let longest = deciding.join().map_err(|_| "the thread that decides has panicked")?;
        Ok((done, longest))
    })
}

/// Decides until it is asked to stop; returns the longest time that a decision took.
fn longest(gate: &Gate, clock: &SystemClock, stop: &AtomicBool, keys: u32) -> Duration {
    let mut longest = Duration::ZERO;
    for number in 0_u32.. {
        let user = (number.wrapping_mul(7_919) % keys).to_string();
        let began = clock.now();
        assert!(!gate.admits(("default", &[("user", &*user)])));
        longest = longest.max(clock.now().duration_since(began));
        if stop.load(Relaxed) {
            break;
        }
    }
    longest
}
