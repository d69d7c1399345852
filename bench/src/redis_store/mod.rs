//! The command `redis`: the cost of a decision for a shared store, compared with the smallest cost of any script or
//! command.

mod cases;
mod load;
mod subjects;

use crate::redis_server::RedisServer;
use crate::resp::Connection;
use crate::rounds::{self, By, Form, Sample};
use cases::{Case, State};
use clap::Args;
use load::Load;
use std::time::Duration;
use subjects::Subject;

/// The time for which each subject of a case is asked in each round: fifty steps of the clock of a process.
const BATCH: Duration = Duration::from_millis(500);
/// The time for which it is asked before, untimed.
const WARM_UP: Duration = Duration::from_millis(50);
/// The number of new attempts at a batch whose decisions changed because the machine's pace did.
const TRIES: usize = 20;

/// The options of this command.
#[derive(Args)]
pub struct Redis {
    #[command(flatten)]
    form: Form,
    /// Only what has this text in `case/subject`, and the subject that it is compared with.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Rounds over all the subjects of a case; the figures are the medians of them.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
}

/// A subject of a case, ready to be asked.
struct Ready {
    subject: Subject,
    window: Duration,
    commands: Vec<Vec<u8>>,
    bytes: Option<u64>,
    connection: Connection,
}

/// Measures and prints.
///
/// # Errors
/// When redis-server is missing, a decision is not what its case expects, or nothing is wanted.
pub fn run(wanted: &Redis) -> Result<(), String> {
    let mut measured = 0;
    for case in cases::all() {
        let subjects = wanted.subjects(&case);
        if !subjects.is_empty() {
            measured += subjects.len();
            wanted.measure(&case, &subjects)?.print(wanted.form)?;
        }
    }
    (measured > 0).then_some(()).ok_or_else(|| "nothing measured: no case matched".to_owned())
}

impl Redis {
    /// Those that are wanted; the base of the case too if any is.
    fn subjects(&self, case: &Case) -> Vec<Subject> {
        let wants = |subject: Subject| {
            let path = format!("{}/{}", case.name(), subject.name());
            self.filter.as_ref().is_none_or(|text| path.contains(text))
        };
        let all = Subject::of(case);
        let any = all.iter().any(|subject| wants(*subject));
        let with_base = |subject: &Subject| any && *subject == Subject::base(case);
        all.iter().copied().filter(|subject| wants(*subject) || with_base(subject)).collect()
    }

    /// All subjects on a server of their own, which lives as long as the case.
    fn measure(&self, case: &Case, subjects: &[Subject]) -> Result<rounds::Case, String> {
        let server = RedisServer::start()?;
        let mut load = Load::on(&server)?;
        let ready = subjects.iter().map(|subject| Ready::make(case, *subject, &server, &mut load));
        let mut ready: Vec<Ready> = ready.collect::<Result<_, _>>()?;
        let mut samples = vec![Vec::new(); ready.len()];
        for round in 0..self.rounds as usize {
            for place in 0..ready.len() {
                let turn = (round + place) % ready.len();
                samples[turn].push(ready[turn].sample(case, &mut load)?);
            }
        }
        let subjects = ready.iter().zip(samples).map(|(one, samples)| rounds::Subject {
            name: one.subject.name(),
            samples,
            bytes: one.bytes,
        });
        let (base, subjects) = (Subject::base(case).name(), subjects.collect());
        Ok(rounds::Case { name: case.name(), base, by: By::Cpu, subjects })
    }
}

impl Ready {
    fn make(
        case: &Case,
        subject: Subject,
        server: &RedisServer,
        load: &mut Load<'_>,
    ) -> Result<Self, String> {
        let bytes = load.bytes(case, subject)?;
        let connection = server.connect()?;
        // Far too long a window for a log that slides: the first round finds the right one.
        let mut ready =
            Self { subject, window: Duration::ZERO, commands: Vec::new(), bytes, connection };
        ready.ask_within(case, case.window(1.0))?;
        if case.state == State::Full {
            load.rate(case, subject, &ready.commands, BATCH / 2)?;
        }
        Ok(ready)
    }

    fn sample(&mut self, case: &Case, load: &mut Load<'_>) -> Result<Sample, String> {
        for _ in 0..TRIES {
            self.warm_up(case, load)?;
            match load.sample(case, self.subject, &self.commands, BATCH)? {
                Some(sample) => return Ok(sample),
                None if self.subject.slides(case) => {}
                None => return Err(self.otherwise(case, "")),
            }
        }
        Err(self.otherwise(case, ": the machine is too busy to keep a log at its length"))
    }

    fn otherwise(&self, case: &Case, why: &str) -> String {
        let (name, subject, state) = (case.name(), self.subject.name(), case.state);
        format!("{subject} decided otherwise than `{name}`, which is {state:?}, expects{why}")
    }

    /// A log that slides gets the window that fits the rate of this moment, and is filled by it.
    fn warm_up(&mut self, case: &Case, load: &mut Load<'_>) -> Result<(), String> {
        let mut rate = load.rate(case, self.subject, &self.commands, WARM_UP)?;
        if self.subject.slides(case) {
            // Refusals and admissions have different rates, so this runs twice.
            for _ in 0..2 {
                self.ask_within(case, case.window(rate))?;
                rate = load.rate(case, self.subject, &self.commands, self.window * 2)?;
            }
        }
        Ok(())
    }

    fn ask_within(&mut self, case: &Case, window: Duration) -> Result<(), String> {
        let Self { subject, connection, .. } = self;
        let keys = (0..case.keys).map(|number| subject.key(case, window, number));
        let commands = keys.map(|key| subject.command(case, window, &key, connection));
        self.commands = commands.collect::<Result<_, _>>()?;
        self.window = window;
        Ok(())
    }
}
