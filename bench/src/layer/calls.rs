//! Calls of a layer, counted: what they allocate, and by valgrind the instructions that they run.

use super::services::Service;
use crate::cases::{Case, LAYER_ADMITTED, LAYER_REFUSED};
use crate::heap;
use crate::pace::Pace;
use crate::programs;
use crate::subjects::Subject;
use crate::workload::{self, Ask};
use clap::Args;
use std::hint::black_box;
use std::process::Command;

/// So many calls are counted.
const CALLS: u64 = 20_000;
/// Only what [`repeat`] does is counted.
const COUNTED: &str = "--toggle-collect=*layer*calls*repeat*";

/// The service to call, and the number of calls.
#[derive(Args)]
pub struct LayerCalls {
    /// The name of the case.
    case: String,
    /// The name of the service.
    service: String,
    /// How many calls, behind those that make every peer known.
    calls: u64,
}

/// Calls and ends.
///
/// # Errors
/// When there is no such case or service.
pub fn run(wanted: &LayerCalls) -> Result<(), String> {
    let mut cases = [LAYER_ADMITTED, LAYER_REFUSED].into_iter();
    let case = cases.find(|case| case.name == wanted.case).ok_or("no such case")?;
    let service = Service::named(&wanted.service).ok_or("no such service")?;
    let (subject, asks) = ready(service, &case);
    repeat(&*subject, &asks, black_box(wanted.calls));
    Ok(())
}

/// Allocations of a call, reallocations included.
pub fn allocations(service: Service, case: &Case) -> f64 {
    let (subject, asks) = ready(service, case);
    heap::allocations_of(|| repeat(&*subject, &asks, CALLS)) as f64 / CALLS as f64
}

/// Instructions of a call; `None` where valgrind, which counts them, is missing.
///
/// # Errors
/// If this program cannot be found.
pub fn instructions(service: Service, case: &Case) -> Result<Option<f64>, String> {
    let this = std::env::current_exe().map_err(|error| format!("who am I: {error}"))?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--log-fd=1", COUNTED])
        .arg(this);
    valgrind.args(["layer-calls", case.name, service.name(), &CALLS.to_string()]);
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

/// A service that every peer has asked once.
fn ready(service: Service, case: &Case) -> (Box<dyn Subject>, Vec<Ask>) {
    let (subject, asks) =
        (service.candidate(case.rule).build(), workload::sequence(case.keys, case.order));
    let peers: Vec<Ask> = (0..case.keys).map(Ask::of).collect();
    subject.run(&peers, Pace::Overlapping);
    (subject, asks)
}

/// Calls a service `calls` times.
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
