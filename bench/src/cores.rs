//! The processor's cores: counts them, and keeps a thread on a core.

/// The number of threads that can run at once.
pub fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the calling thread on the `number`th of the cores it may run on, so that threads that are
/// measured together do run together; which one that is, as the system counts them. Nothing where that cannot be
/// said: the system goes on choosing.
#[cfg(target_os = "linux")]
pub fn stay_on(number: usize) -> Option<usize> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let allowed = sched_getaffinity(None).ok()?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core));
    let core = cores.nth(number)?;
    let mut only = CpuSet::new();
    only.set(core);
    sched_setaffinity(None, &only).ok().map(|()| core)
}

/// The system goes on choosing.
#[cfg(not(target_os = "linux"))]
pub fn stay_on(_number: usize) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_thread_stays_on_one_core() {
        let stayed = || {
            let core = stay_on(0).unwrap();
            let allowed = rustix::thread::sched_getaffinity(None).unwrap();
            (allowed.count(), allowed.is_set(core))
        };
        assert_eq!(std::thread::spawn(stayed).join().unwrap(), (1, true));
    }
}
