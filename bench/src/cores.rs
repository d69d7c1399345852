//! The processor's cores: how many there are, and staying on one.

/// How many threads can run at once.
pub fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the calling thread on the `number`th of the cores it may run on, so that threads that are
/// measured together do run together; whether it does. Where that can not be said, the system goes on choosing.
#[cfg(target_os = "linux")]
pub fn stay_on(number: usize) -> bool {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return false };
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let Some(core) = cores.nth(number) else { return false };
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).is_ok()
}

/// The system goes on choosing.
#[cfg(not(target_os = "linux"))]
pub fn stay_on(_number: usize) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_stays_on_one_core() {
        let stayed = || {
            assert!(stay_on(0));
            rustix::thread::sched_getaffinity(None).unwrap().count()
        };
        assert_eq!(std::thread::spawn(stayed).join().unwrap(), 1);
    }
}
