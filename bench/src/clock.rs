//! The two clocks a batch is timed with: CPU time of this thread, and wall time.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Both readings at one moment, on one thread.
#[derive(Clone, Copy)]
pub struct Reading {
    cpu: Duration,
    wall: Instant,
}

/// The time that passed on one thread, or on several together.
#[derive(Clone, Copy)]
pub struct Span {
    /// CPU time, summed over the threads.
    pub cpu: Duration,
    /// When the first thread began.
    pub began: Instant,
    /// When the last thread ended.
    pub ended: Instant,
}

impl Reading {
    /// Reads both clocks of the calling thread.
    pub fn now() -> Self {
        Self { cpu: thread_cpu(), wall: Instant::now() }
    }

    /// The time since this reading; to be asked on the same thread.
    pub fn until_now(self) -> Span {
        let ended = Instant::now();
        Span { cpu: thread_cpu().saturating_sub(self.cpu), began: self.wall, ended }
    }
}

impl Span {
    /// From the first beginning to the last end.
    pub fn wall(&self) -> Duration {
        self.ended.saturating_duration_since(self.began)
    }

    /// Two threads' spans as one.
    pub fn join(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            began: self.began.min(other.began),
            ended: self.ended.max(other.ended),
        }
    }
}

fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// CPU time of all threads of this process so far.
pub fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}
