//! Plain threads without any runtime: `cargo run --example thread_pool`.
//!
//! Four workers share a queue of jobs. All together they begin at most so many jobs in a time, waiting
//! for their turn; at most two of them work on the database at once.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tidegate::{AlgorithmKind, Concurrency, Limiter, Spec};

const WORKERS: usize = 4;
const JOBS: u64 = 60;
const LONGEST_WAIT: Duration = Duration::from_secs(60);

struct Pool {
    jobs: Mutex<VecDeque<u64>>,
    pace: Limiter,
    database: Concurrency,
    most_at_once: AtomicU64,
}

impl Pool {
    fn new() -> Result<Self, Box<dyn Error>> {
        let mut pace = Spec::new(AlgorithmKind::TokenBucket, 200, Duration::from_secs(1));
        pace.capacity = Some(20);
        Ok(Self {
            jobs: Mutex::new((0..JOBS).collect()),
            pace: Limiter::new(pace)?,
            database: Concurrency::new(2),
            most_at_once: AtomicU64::new(0),
        })
    }

    /// Works until no job is left; returns the number of jobs done.
    fn work(&self) -> u64 {
        let mut done = 0;
        while let Some(job) = self.next_job() {
            let began = self.pace.acquire_blocking(1, LONGEST_WAIT);
            let permit = self.database.acquire_blocking(1, LONGEST_WAIT);
            assert!(began.is_allowed() && permit.is_some(), "job {job} waited for a minute");
            self.most_at_once.fetch_max(self.database.in_flight(), Ordering::Relaxed);
            query(job);
            done += 1;
        }
        done
    }

    fn next_job(&self) -> Option<u64> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Stands for something slow.
fn query(job: u64) {
    let answer = (0..1_000_000).fold(job, |sum, step| std::hint::black_box(sum ^ step));
    std::hint::black_box(answer);
}

fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::new()?;
    let done: Vec<u64> = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(|| pool.work())).collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or_default()).collect()
    });
    let most = pool.most_at_once.into_inner();
    println!("{WORKERS} workers did {done:?} jobs, 20 at once and then 200 a second");
    println!("at most {most} were at the database at once");
    assert_eq!(done.iter().sum::<u64>(), JOBS);
    assert!(most <= 2);
    Ok(())
}
