//! The processor's cores: how many there are, and staying on one.

/// How many threads can run at once.
pub fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the calling thread on the `number`th of the cores it may run on, so that threads that are
/// measured together do run together. Where that can not be said, the system goes on choosing.
#[cfg(target_os = "linux")]
pub fn stay_on(number: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    if let Some(core) = cores.nth(number) {
        let mut only = CpuSet::new();
        only.set(core);
        // Refused, it is as without: slower threads are seen in the figures.
        let _ = sched_setaffinity(None, &only);
    }
}

/// The system goes on choosing.
#[cfg(not(target_os = "linux"))]
pub fn stay_on(_number: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_stays_on_one_core() {
        let stayed = || {
            stay_on(0);
            rustix::thread::sched_getaffinity(None).unwrap().count()
        };
        assert_eq!(std::thread::spawn(stayed).join().unwrap(), 1);
    }
}
