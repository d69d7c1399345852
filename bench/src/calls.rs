//! Counts the allocations of decisions and, with valgrind, their instructions.

use crate::cases::{self, Case};
use crate::heap;
use crate::layer;
use crate::pace::Pace;
use crate::programs;
use crate::subjects::{self, Candidate, Subject};
use crate::workload::{self, Ask};
use clap::Args;
use std::hint::black_box;
use std::process::Command;

/// The number of calls that are counted.
const CALLS: u64 = 20_000;
/// Only the instructions of [`repeat`] are counted.
const COUNTED: &str = "--toggle-collect=*calls*repeat*";

/// The subject to ask, and the number of decisions.
#[derive(Args)]
pub struct Calls {
    /// The name of the case, with or without its group.
    case: String,
    /// The name of the subject.
    subject: String,
    /// The number of decisions, after the decisions that make every key known.
    calls: u64,
}

/// Decides and ends.
///
/// # Errors
/// When there is no such case or subject.
pub fn run(wanted: &Calls) -> Result<(), String> {
    let mut cases = cases::ALL.iter().chain(cases::LAYER);
    let name = wanted.case.rsplit('/').next();
    let case = cases.find(|case| name == Some(case.name)).ok_or("no such case")?;
    let mut candidates = subjects::offers(case).into_iter().chain(layer::offers(case));
    let candidate = candidates.find(|one| one.name == wanted.subject).ok_or("no such subject")?;
    let (subject, asks) = ready(&candidate, case);
    repeat(&*subject, &asks, black_box(wanted.calls));
    Ok(())
}

/// Allocations of a decision, reallocations included.
pub fn allocations(candidate: &Candidate, case: &Case) -> f64 {
    let (subject, asks) = ready(candidate, case);
    heap::allocations_of(|| repeat(&*subject, &asks, CALLS)) as f64 / CALLS as f64
}

/// Instructions of a decision; `None` where valgrind, which counts them, is missing.
///
/// # Errors
/// If this program cannot be found.
pub fn instructions(candidate: &Candidate, case: &Case) -> Result<Option<f64>, String> {
    let this = std::env::current_exe().map_err(|error| format!("own path: {error}"))?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-fd=1", COUNTED])
        .arg(this);
    valgrind.args(["calls", case.name, candidate.name, &CALLS.to_string()]);
    match programs::output(&mut valgrind) {
        Ok(said) => Ok(read(&said).map(|count| count / CALLS as f64)),
        Err(problem) => {
            eprintln!("instructions are not counted: {problem}");
            Ok(None)
        }
    }
}

/// The number in the line about all that was counted.
fn read(said: &str) -> Option<f64> {
    let (_, count) = said.lines().find_map(|line| line.split_once("Collected :"))?;
    count.trim().parse().ok()
}

/// A subject that every key has asked once.
fn ready(candidate: &Candidate, case: &Case) -> (Box<dyn Subject>, Vec<Ask>) {
    let (subject, asks) = (candidate.build(), workload::sequence(case.keys, case.order));
    let keys: Vec<Ask> = (0..case.keys).map(Ask::of).collect();
    subject.run(&keys, Pace::Overlapping);
    (subject, asks)
}

/// Asks a subject `calls` times.
#[inline(never)]
fn repeat(subject: &dyn Subject, asks: &[Ask], calls: u64) {
    for start in (0..calls as usize).step_by(asks.len()) {
        let left = (calls as usize - start).min(asks.len());
        subject.run(&asks[..left], Pace::Overlapping);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_valgrind_says_is_read() {
        let said = "==7== Events    : Ir\n==7== Collected : 4034261\n==7==\n==7== I   refs:      4,034,261\n";
        assert_eq!(read(said), Some(4_034_261.0));
        assert_eq!(read(""), None);
    }
}
