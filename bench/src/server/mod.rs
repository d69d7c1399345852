//! The command `server`: the answers of the server's listeners in a second and their cost, compared with programs that
//! answer as fast as any.

pub mod asking;
mod cases;
pub mod floor;
pub mod generators;
mod many_rules;
pub mod no_op;
mod open_loop;
pub mod running;
mod scrape;

use crate::host::Stolen;
use crate::process;
use crate::resp::Connection;
use crate::rounds::{self, By, Form, Sample};
use asking::Asking;
use cases::{Case, Listener, Pace, Subject};
use clap::Args;
use floor::Imitated;
use generators::{Load, Request, Version};
pub use many_rules::Rules;
use running::Running;
pub use scrape::Scrape;
use std::path::PathBuf;
use std::time::Duration;
use tidegate::script::RedisReply;

/// Requests to redis-benchmark, which counts and has no clock, until its rate is known.
const FIRST_REQUESTS: u64 = 20_000;

/// The options of this command.
#[derive(Args)]
pub struct Server {
    #[command(flatten)]
    form: Form,
    /// Only what has this text in `case/subject`, and the subject that it is compared with.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Rounds over all the subjects of a case; the figures are the medians of them.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// The time for which each subject is asked in each round.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The server's program, in place of one that is built from these sources.
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// The program without observers, likewise: built with `--cfg unwatched`.
    #[arg(long, value_name = "FILE")]
    unwatched: Option<PathBuf>,
}

/// A subject of a case, ready to be asked.
struct Ready {
    subject: Subject,
    running: Running,
    /// Answers per second, as fast as it goes.
    highest: f64,
}

/// Measures and prints.
///
/// # Errors
/// When a program is missing, an answer is not what it should be, or nothing is wanted.
pub fn run(wanted: &Server) -> Result<(), String> {
    let chosen = || cases::ALL.iter().map(|case| (case, wanted.subjects(case)));
    let unwatched = chosen().any(|(_, subjects)| subjects.contains(&Subject::TidegateUnwatched));
    // This is built first, because the other build is left in its place.
    let unwatched = unwatched.then(|| running::unwatched(wanted.unwatched.as_deref()));
    let unwatched = unwatched.transpose()?.unwrap_or_default();
    let programs = [running::tidegate(wanted.tidegate.as_deref())?, unwatched];
    let mut measured = 0;
    for (case, subjects) in chosen() {
        if !subjects.is_empty() {
            measured += subjects.len();
            wanted.measure(case, &subjects, &programs)?.print(wanted.form)?;
        }
    }
    (measured > 0).then_some(()).ok_or_else(|| "nothing measured: no case matched".to_owned())
}

impl Server {
    /// Those that are wanted; the base of the case too if any is.
    fn subjects(&self, case: &Case) -> Vec<Subject> {
        let wants = |subject: Subject| {
            let path = format!("{}/{}", case.name, case.subject_name(subject));
            self.filter.as_ref().is_none_or(|text| path.contains(text))
        };
        let any = case.subjects.iter().any(|subject| wants(*subject));
        let base = case.subjects.last().filter(|_| any);
        let wanted = |subject: &Subject| wants(*subject) || base == Some(subject);
        case.subjects.iter().copied().filter(wanted).collect()
    }

    fn measure(
        &self,
        case: &Case,
        subjects: &[Subject],
        programs: &[PathBuf; 2],
    ) -> Result<rounds::Case, String> {
        let ready = subjects.iter().map(|subject| {
            let ready = self.ready(case, *subject, programs);
            ready.map_err(|problem| case.answered(*subject, &problem))
        });
        let ready: Vec<Ready> = ready.collect::<Result<_, _>>()?;
        let mut samples = vec![Vec::new(); ready.len()];
        for round in 0..self.rounds as usize {
            for place in 0..ready.len() {
                let turn = (round + place) % ready.len();
                let sample = self.sample(case, &ready[turn]);
                let reported = |problem: String| case.answered(ready[turn].subject, &problem);
                samples[turn].push(sample.map_err(reported)?);
            }
        }
        let reported = ready.iter().zip(samples).map(|(one, samples)| {
            // A program that refuses in the end has done less than it was asked, and generators do not see it.
            let decides = check(&one.running, case.listener, one.subject);
            decides.map_err(|problem| case.answered(one.subject, &problem))?;
            let name = case.subject_name(one.subject);
            let bytes = process::peak_bytes(one.running.pid)?;
            Ok(rounds::Subject { name, samples, bytes: Some(bytes) })
        });
        let subjects = reported.collect::<Result<_, String>>()?;
        let by = if case.pace == Pace::Highest { By::Rate } else { By::Cpu };
        Ok(rounds::Case { name: case.name.to_owned(), base: case.base(), by, subjects })
    }

    /// Started, asked once to see that it decides, then asked for a second to warm up.
    fn ready(
        &self,
        case: &Case,
        subject: Subject,
        programs: &[PathBuf; 2],
    ) -> Result<Ready, String> {
        let tidegate = &programs[usize::from(subject == Subject::TidegateUnwatched)];
        let running = Running::start(subject, case.listener, tidegate)?;
        check(&running, case.listener, subject)?;
        let second = Duration::from_secs(1);
        let mut ready = Ready { subject, running, highest: FIRST_REQUESTS as f64 };
        ready.highest = ready.as_fast_as_it_goes(case.listener, second)?.per_s;
        if case.pace != Pace::Highest {
            ready.highest = ready.as_fast_as_it_goes(case.listener, self.length())?.per_s;
        }
        Ok(ready)
    }

    fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    fn sample(&self, case: &Case, ready: &Ready) -> Result<Sample, String> {
        let (before, stolen_before) = (process::cpu(ready.running.pid)?, Stolen::now()?);
        let load = match case.pace {
            Pace::Highest => ready.as_fast_as_it_goes(case.listener, self.length())?,
            Pace::Half => ready.at_half(case.listener, self.length())?,
            Pace::HalfInTicks => ready.at_half_in_ticks(case.listener, self.length())?,
        };
        let cpu = process::cpu(ready.running.pid)?.saturating_sub(before);
        let stolen = stolen_before.share_since()?;
        let Load { decisions, per_s, p50_us, p99_us } = load;
        let cpu_us = cpu.as_secs_f64() * 1e6 / decisions as f64;
        Ok(Sample { per_s, cpu_us, p50_us, p99_us, stolen })
    }
}

impl Ready {
    fn as_fast_as_it_goes(&self, listener: Listener, length: Duration) -> Result<Load, String> {
        let at = self.running.at;
        match listener {
            Listener::Resp(pipeline) => {
                let requests = (self.highest * length.as_secs_f64()) as u64;
                generators::redis_benchmarks(at, pipeline, requests, self.subject.command())
            }
            Listener::Http => generators::wrk(at, length),
            Listener::Grpc { streams } => {
                generators::h2load(at, &call(&no_op::body()), streams, length)
            }
        }
    }

    fn at_half(&self, listener: Listener, length: Duration) -> Result<Load, String> {
        let asking = match listener {
            Listener::Resp(_) => Asking::Resp(self.subject.command()),
            Listener::Http => Asking::Http,
            Listener::Grpc { .. } => Asking::Grpc,
        };
        open_loop::run(self.running.at, asking, self.highest / 2.0, length)
    }

    fn at_half_in_ticks(&self, listener: Listener, length: Duration) -> Result<Load, String> {
        let body = no_op::body();
        let request = match listener {
            Listener::Http => CHECK,
            Listener::Grpc { .. } => call(&body),
            Listener::Resp(_) => return Err("h2load does not speak RESP".to_owned()),
        };
        generators::h2load_at(self.running.at, &request, self.highest / 2.0, length)
    }
}

impl Subject {
    /// The command that it is asked over RESP.
    const fn command(self) -> &'static [&'static str] {
        match self {
            Self::RedisSet => &["SET", "user:__rand_int__", "xxx"],
            Self::RedisIncr => &["INCR", "user:__rand_int__"],
            Self::TidegateChecks | Self::TidegateUnwatched => {
                &["TG.CHECK", "bench", "user", "user:__rand_int__"]
            }
            _ => &["CL.THROTTLE", "user:__rand_int__", "1000000", "1000000", "3600"],
        }
    }
}

/// A call of Envoy's service.
fn call(body: &[u8]) -> Request<'_> {
    let headers = &["content-type: application/grpc", "te: trailers"];
    Request { version: Version::Http2, path: no_op::PATH, headers, body }
}

/// A check over HTTP.
const CHECK: Request<'_> = Request {
    version: Version::Http1,
    path: "/v1/check",
    headers: &["content-type: application/json"],
    body: br#"{"domain":"bench","descriptor":{"user":"u000001"}}"#,
};

/// Returns whether it is the answer of a limiter that says no.
fn refuses(subject: Subject, answers: &[RedisReply]) -> bool {
    match subject {
        Subject::Tidegate => answers.first() != Some(&RedisReply::Int(0)),
        // The name of the figure, and the figure.
        Subject::TidegateChecks | Subject::TidegateUnwatched => {
            answers.get(1) != Some(&RedisReply::Int(1))
        }
        _ => false,
    }
}

/// Sees that the answer is a decision: programs that generate load hardly look.
fn check(running: &Running, listener: Listener, subject: Subject) -> Result<(), String> {
    match listener {
        Listener::Http if subject == Subject::Tidegate => Imitated::Check.agrees_with(running.at),
        Listener::Http => Ok(()),
        Listener::Grpc { .. } => no_op::check(running.at),
        Listener::Resp(_) => {
            if subject == Subject::Tidegate {
                Imitated::Throttle.agrees_with(running.at)?;
            }
            let words: Vec<&[u8]> = subject.command().iter().map(|word| word.as_bytes()).collect();
            match Connection::open(running.at)?.ask(&words)? {
                RedisReply::Array(parts) if refuses(subject, &parts) => {
                    Err(format!("{subject:?} refuses a request"))
                }
                _ => Ok(()),
            }
        }
    }
}
