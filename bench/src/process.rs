//! The CPU time and the memory of another process, as the system counts them.

use std::fs;
use std::time::Duration;

/// CPU time of process `pid` and of its children that run, in user and kernel mode together
/// (`utime` + `stime` of `/proc/PID/stat`); in steps of a clock tick, which is 10 ms.
///
/// # Errors
/// When there is no such process, or no `/proc`.
pub fn cpu(pid: u32) -> Result<Duration, String> {
    family(pid).into_iter().map(own_cpu).sum()
}

/// The largest memory that process `pid` and its children have had at once, each (`VmHWM`), in bytes.
///
/// # Errors
/// When there is no such process, or no `/proc`.
pub fn peak_bytes(pid: u32) -> Result<u64, String> {
    family(pid).into_iter().map(|pid| bytes_of(pid, "VmHWM:")).sum()
}

/// The memory that process `pid` and its children have now (`VmRSS`), in bytes.
///
/// # Errors
/// When there is no such process, or no `/proc`.
pub fn resident_bytes(pid: u32) -> Result<u64, String> {
    family(pid).into_iter().map(|pid| bytes_of(pid, "VmRSS:")).sum()
}

/// A process and its children.
fn family(pid: u32) -> Vec<u32> {
    let children = read(pid, &format!("task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|word| word.parse().ok());
    std::iter::once(pid).chain(children).collect()
}

fn own_cpu(pid: u32) -> Result<Duration, String> {
    let stat = read(pid, "stat")?;
    let ticks = ticks(&stat).ok_or_else(|| format!("/proc/{pid}/stat is not understood"))?;
    let per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// The 14th and 15th field; the second is a name in parentheses, which may hold anything.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut field = || fields.next()?.parse::<u64>().ok();
    Some(field()? + field()?)
}

/// The bytes of a line of `/proc/PID/status`.
fn bytes_of(pid: u32, name: &str) -> Result<u64, String> {
    let status = read(pid, "status")?;
    let kib = status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
    let kib: Option<u64> = kib.and_then(|kib| kib.parse().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| format!("/proc/{pid}/status has no {name}"))
}

fn read(pid: u32, file: &str) -> Result<String, String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_may_hold_spaces_and_parentheses() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4 10 0 0 0 120 34 0 0 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(154));
        assert_eq!(ticks("7 (cut off) S 1"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_taken_time_and_memory() {
        let this = std::process::id();
        assert!(peak_bytes(this).unwrap() >= resident_bytes(this).unwrap());
        assert!(resident_bytes(this).unwrap() > 100_000);
        assert!(cpu(this).unwrap() < Duration::from_secs(86_400));
        assert!(cpu(u32::MAX).is_err());
    }
}
