//! The harness of all commands: cases with subjects, which are asked in turn, round by round.

use crate::table::{self, Column};
use clap::Args;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

/// The options of every command.
#[derive(Args)]
pub struct Options {
    /// Only what has all these texts in `case/subject`, and the subject that it is compared with
    #[arg(long, value_name = "TEXT")]
    pub filter: Vec<String>,
    /// Print the cases and their subjects, and measure none
    #[arg(long)]
    list: bool,
    /// One JSON object per line instead of tables
    #[arg(long)]
    json: bool,
    /// Also put each table in place of the table with its name in `bench/results`
    #[arg(long)]
    write: bool,
    /// Rounds over all the subjects of a case; the values are their medians
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// The time for which each subject is asked in each round
    #[arg(long)]
    seconds: Option<f64>,
    /// The server's program, in place of the program that is built from these sources
    #[arg(long, value_name = "FILE")]
    pub tidegate: Option<PathBuf>,
    /// The program without observers, likewise: built with `--cfg unwatched`
    #[arg(long, value_name = "FILE")]
    pub unwatched: Option<PathBuf>,
    /// Of `in-process`: let the processor overlap decisions, which measures the highest rate of a core
    #[arg(long)]
    pub overlap: bool,
    /// Of `overload`: the counting of limits that many callers ask for
    #[arg(long, value_enum, default_value_t)]
    pub mode: crate::overload::Mode,
}

/// Something that is measured over several subjects.
pub struct Case {
    pub name: String,
    /// The subject that the others are compared with.
    pub base: &'static str,
    pub columns: &'static [Column],
    /// The number of rounds, and the time for each subject in a round, unless the options say otherwise.
    pub rounds: u32,
    pub length: Duration,
    pub subjects: Vec<Entry>,
}

impl Case {
    /// A case that is measured once.
    pub fn once(name: impl Into<String>, columns: &'static [Column], subjects: Vec<Entry>) -> Self {
        Self { name: name.into(), base: "", columns, rounds: 1, length: Duration::ZERO, subjects }
    }
}

/// A subject that is not ready yet.
pub struct Entry {
    pub name: String,
    begin: Box<dyn FnOnce() -> Result<Box<dyn Asked>, String>>,
}

impl Entry {
    /// A subject that `begin` makes ready.
    pub fn new<A: Asked + 'static>(
        name: impl Into<String>,
        begin: impl FnOnce() -> Result<A, String> + 'static,
    ) -> Self {
        Self { name: name.into(), begin: Box::new(|| Ok(Box::new(begin()?))) }
    }

    /// A subject that `measure` begins and ends in each round.
    pub fn each(
        name: impl Into<String>,
        measure: impl FnMut(Duration) -> Result<Sample, String> + 'static,
    ) -> Self {
        Self::new(name, || Ok(Whole(measure)))
    }
}

/// A subject that is ready to be asked.
pub trait Asked {
    /// Asks for about so long.
    ///
    /// # Errors
    /// When an answer is not what its case expects, or a program has ended.
    fn sample(&mut self, length: Duration) -> Result<Sample, String>;

    /// Values that are no round's.
    ///
    /// # Errors
    /// When it does not answer as it did at first.
    fn finish(&mut self) -> Result<Sample, String> {
        Ok(Sample::new())
    }
}

/// A subject that is a function.
struct Whole<F>(F);

impl<F: FnMut(Duration) -> Result<Sample, String>> Asked for Whole<F> {
    fn sample(&mut self, length: Duration) -> Result<Sample, String> {
        (self.0)(length)
    }
}

/// The values of a round, by name.
pub type Sample = Vec<(&'static str, f64)>;

/// A subject with the samples of its rounds.
pub struct Measured {
    pub name: String,
    pub samples: Vec<Sample>,
}

impl Measured {
    /// The values of all rounds that have one of this name.
    pub fn values(&self, name: &str) -> Vec<f64> {
        let all = self.samples.iter().flatten().filter(|(own, _)| *own == name);
        all.map(|(_, value)| *value).collect()
    }
}

/// Measures what is wanted, and prints a table of each case.
///
/// # Errors
/// When a subject cannot be asked, or nothing is wanted.
pub fn run(options: &Options, cases: Vec<Case>) -> Result<(), String> {
    let mut is_any = false;
    for mut case in cases {
        case.subjects = options.wanted(&case.name, case.base, case.subjects);
        is_any |= !case.subjects.is_empty();
        if options.list {
            case.subjects.iter().for_each(|subject| println!("{}/{}", case.name, subject.name));
        } else if !case.subjects.is_empty() {
            let measured = options.measure(&mut case)?;
            let printed = if options.json {
                table::json(&case, &measured)
            } else {
                table::markdown(&case, &measured)
            };
            println!("{printed}");
            if options.write && !options.json {
                table::write(&case.name, &printed)?;
            }
        }
    }
    is_any.then_some(()).ok_or_else(|| "nothing measured: no case matched".to_owned())
}

impl Options {
    /// The subjects that are wanted; with them their base.
    fn wanted(&self, case: &str, base: &str, mut subjects: Vec<Entry>) -> Vec<Entry> {
        let is_wanted = |subject: &Entry| {
            let path = format!("{case}/{}", subject.name);
            self.filter.iter().all(|text| path.contains(text))
        };
        let is_any = subjects.iter().any(is_wanted);
        subjects.retain(|subject| is_wanted(subject) || (is_any && subject.name == base));
        subjects
    }

    /// All subjects are made ready first. Each round begins with another subject, so that drift hits all alike.
    fn measure(&self, case: &mut Case) -> Result<Vec<Measured>, String> {
        let length = self.seconds.map_or(case.length, Duration::from_secs_f64);
        let rounds = self.rounds.unwrap_or(case.rounds) as usize;
        let mut ready = Vec::new();
        for subject in case.subjects.drain(..) {
            progress(&case.name, &subject.name, "begins");
            let measured = Measured { name: subject.name, samples: Vec::new() };
            let begun = (subject.begin)();
            ready.push((begun.map_err(problem(&case.name, &measured.name))?, measured));
        }
        for round in 0..rounds {
            for place in 0..ready.len() {
                let turn = (round + place) % ready.len();
                let (subject, measured) = &mut ready[turn];
                progress(&case.name, &measured.name, &format!("{} of {rounds}", round + 1));
                let sample = subject.sample(length);
                measured.samples.push(sample.map_err(problem(&case.name, &measured.name))?);
            }
        }
        let mut all = Vec::new();
        for (mut subject, mut measured) in ready {
            let rest = subject.finish().map_err(problem(&case.name, &measured.name))?;
            measured.samples.push(rest);
            all.push(measured);
        }
        progress("", "", "");
        Ok(all)
    }
}

/// Names the subject of a problem.
fn problem(case: &str, subject: &str) -> impl Fn(String) -> String {
    move |problem| format!("{case}/{subject}: {problem}")
}

/// Writes on standard error, if that is a terminal, what is measured.
fn progress(case: &str, subject: &str, place: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{case} {subject} {place}");
    }
}

/// The middle one; the upper one of two.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// The smallest of the sorted times that is not below a share of them; 0 if there is none.
pub fn least_above(times: &[u32], share: f64) -> f64 {
    let place = (times.len() as f64 * share) as usize;
    times.get(place.min(times.len().saturating_sub(1))).copied().unwrap_or_default().into()
}

/// A duration in microseconds, or the largest number.
pub fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX)
}
