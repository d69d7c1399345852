//! The command `scale`: the CPU time and latency of decisions over a store, for one hot key, refused callers, distinct
//! keys, several nodes and several primaries, compared with bare round trips.

mod cases;
mod cluster;
mod gates;
mod listeners;
mod raw;
mod table;

use crate::pauses::least_above;
use crate::redis_server::Did;
use crate::rounds::Form;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// The time for which each subject is asked before it is measured for the first time.
const WARM_UP: Duration = Duration::from_millis(500);

/// The options of this command.
#[derive(Args)]
pub struct Scale {
    #[command(flatten)]
    form: Form,
    /// Only cases and subjects that have this text in `case/subject`.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Rounds over all the subjects of a case; the figures are the medians of them.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The time for which each subject is asked in each round, in milliseconds.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(100..))]
    millis: u64,
    /// The server's program, in place of one that is built from these sources.
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// Print the cases and their subjects, and measure none.
    #[arg(long)]
    list: bool,
}

/// The figures of one subject in one round; each is of one decision unless its name says otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub per_s: f64,
    /// Scripts or commands that the store ran.
    pub round_trips: f64,
    /// CPU time of all servers of the store, in microseconds.
    pub redis_cpu_us: f64,
    /// CPU time of who asks the store, in microseconds: of this process, or of the servers over it.
    pub client_cpu_us: f64,
    /// Bytes that the servers of the store read and wrote.
    pub network_bytes: f64,
    /// 99 of 100 answers came sooner, in microseconds.
    pub p99_us: f64,
}

impl Sample {
    /// Makes the figures of `asked` decisions from their wall time, their CPU time, the work of the store, and the
    /// times of some of them in microseconds.
    fn of(asked: u64, wall: Duration, cpu: Duration, did: Did, us: &mut [u32]) -> Self {
        us.sort_unstable();
        let asked = asked.max(1) as f64;
        Self {
            per_s: asked / wall.as_secs_f64(),
            round_trips: did.scripts as f64 / asked,
            redis_cpu_us: did.cpu_us as f64 / asked,
            client_cpu_us: cpu.as_secs_f64() * 1e6 / asked,
            network_bytes: did.network_bytes as f64 / asked,
            p99_us: f64::from(least_above(us, 0.99)),
        }
    }
}

/// One who is asked.
pub trait Subject {
    /// Asks for so long.
    ///
    /// # Errors
    /// When an answer differs from the case's expectation, or a program has ended.
    fn sample(&mut self, length: Duration) -> Result<Sample, String>;
}

/// Measures and prints.
///
/// # Errors
/// When a program is missing, an answer is not what its case expects, or nothing is wanted.
pub fn run(wanted: &Scale) -> Result<(), String> {
    let mut measured = 0;
    for case in cases::all() {
        let is_wanted = |name: &&cases::Named| {
            let path = format!("{}/{}", case.name, name.name);
            wanted.filter.as_ref().is_none_or(|text| path.contains(text))
        };
        let subjects: Vec<_> = case.subjects.iter().filter(is_wanted).collect();
        measured += subjects.len();
        match (subjects.is_empty(), wanted.list) {
            (true, _) => {}
            (false, true) => subjects.iter().for_each(|one| println!("{}/{}", case.name, one.name)),
            (false, false) => table::print(case.name, &wanted.measure(&subjects)?, wanted.form)?,
        }
    }
    (measured > 0).then_some(()).ok_or_else(|| "nothing measured: no case matched".to_owned())
}

impl Scale {
    /// All subjects are started first, and then asked in turn.
    fn measure(&self, subjects: &[&cases::Named]) -> Result<Vec<table::Row>, String> {
        let length = Duration::from_millis(self.millis);
        let begin = |named: &&cases::Named| {
            let message = |problem| format!("{}: {problem}", named.name);
            let mut subject = named.kind.begin(self.tidegate.as_deref()).map_err(message)?;
            subject.sample(WARM_UP).map_err(message)?;
            Ok::<_, String>((named.name, subject, Vec::new()))
        };
        let mut ready: Vec<_> = subjects.iter().map(begin).collect::<Result<_, _>>()?;
        for round in 0..self.rounds as usize {
            for place in 0..ready.len() {
                let turn = (round + place) % ready.len();
                let (name, subject, samples) = &mut ready[turn];
                let message = |problem| format!("{name}: {problem}");
                samples.push(subject.sample(length).map_err(message)?);
            }
        }
        Ok(ready.iter().map(|(name, _, samples)| table::Row::of(name, samples)).collect())
    }
}
