//! The command `server`: the answers of the server's listeners in a second and their cost, compared with programs that
//! answer as fast as any.

pub mod asking;
mod cases;
pub mod floor;
pub mod generators;
mod http_2;
pub mod load;
pub mod loaded;
pub mod losses;
pub mod no_op;
pub mod rules;
pub mod running;

use crate::harness::{self, Entry, Options, least_above};
use crate::redis_server::RedisServer;
use crate::resp::Connection;
use asking::Template;
use cases::{Case, Pace, Subject, Way};
use floor::Imitated;
use generators::{Load, Request, Version};
use load::Asks;
use loaded::{Ask, BY_CPU, BY_RATE, Loaded};
use running::Running;
use std::net::SocketAddr;
use std::time::Duration;
use tidegate::script::RedisReply;

/// Requests to redis-benchmark, which counts and has no clock, until its rate is known.
const FIRST_REQUESTS: f64 = 20_000.0;
const RULES: &str = include_str!("rules.toml");

/// All cases.
pub fn cases(options: &'static Options) -> Vec<harness::Case> {
    let cases = cases::ALL.iter().map(|case| {
        let subjects = case.subjects.iter().map(|subject| {
            Entry::new(case.subject_name(*subject), || begin(case, *subject, options))
        });
        harness::Case {
            name: case.name.to_owned(),
            base: case.base(),
            columns: if case.pace == Pace::Highest { BY_RATE } else { BY_CPU },
            rounds: 5,
            length: Duration::from_secs(3),
            subjects: subjects.collect(),
        }
    });
    cases.collect()
}

/// Started, asked once to see that it decides, and then as fast as it goes.
fn begin(case: &'static Case, subject: Subject, options: &Options) -> Result<Loaded, String> {
    let way = case.way;
    let started = start(subject, way, options).or_else(|_| start(subject, way, options))?;
    let check = Box::new(move |at| check(at, way, subject));
    let mut loaded = Loaded::begin(started, as_fast_as_it_goes(way, subject), check)?;
    if case.pace != Pace::Highest {
        let highest = (loaded.ask)(loaded.running.at, Duration::from_secs(1))?.per_s;
        loaded.ask = at_a_rate(case, subject, highest / 2.0);
    }
    Ok(loaded)
}

fn start(subject: Subject, way: Way, options: &Options) -> Result<Running, String> {
    let tidegate = |program, store| Running::tidegate(program, RULES, way.listener(), store);
    match subject {
        Subject::Tidegate | Subject::TidegateChecks => tidegate(&running::tidegate(options)?, None),
        Subject::TidegateUnwatched => tidegate(&running::unwatched(options)?, None),
        Subject::TidegateOnRedis => {
            tidegate(&running::tidegate(options)?, Some(RedisServer::start()?))
        }
        Subject::RedisSet | Subject::RedisIncr => Running::redis(),
        Subject::Nginx => Running::nginx(),
        Subject::Floor if way == Way::Http => Running::this(&["floor", "check"]),
        Subject::Floor => Running::this(&["floor", "throttle"]),
        Subject::Tonic => Running::this(&["no-op-rls"]),
    }
}

fn as_fast_as_it_goes(way: Way, subject: Subject) -> Ask {
    match way {
        Way::Resp(pipeline) => {
            let mut rate = FIRST_REQUESTS;
            Box::new(move |at, length| {
                let requests = (rate * length.as_secs_f64()) as u64;
                let load = generators::redis_benchmarks(at, pipeline, requests, subject.command())?;
                rate = load.per_s;
                Ok(load)
            })
        }
        Way::Http => Box::new(|at, length| generators::wrk(generators::CHECKS, at, length)),
        Way::Grpc { streams } => Box::new(move |at, length| {
            generators::h2load(at, &call(&no_op::body("bench", "u000001")), streams, length)
        }),
    }
}

fn at_a_rate(case: &'static Case, subject: Subject, per_s: f64) -> Ask {
    let listener = case.way.listener();
    if case.pace == Pace::Half {
        return Box::new(move |at, length| {
            let template = match case.way {
                Way::Resp(_) => Template::command(subject.command()),
                Way::Http | Way::Grpc { .. } => Template::new(listener, "bench"),
            };
            let connections = generators::CONNECTIONS as usize;
            let pace = load::Pace::Open { per_s };
            evenly(at, Asks { listener, template, callers: 100_000, connections, pace }, length)
        });
    }
    Box::new(move |at, length| {
        let body = no_op::body("bench", "u000001");
        let request = if case.way == Way::Http { CHECK } else { call(&body) };
        generators::h2load_at(at, &request, per_s, length)
    })
}

/// Requests evenly apart, none of which may be refused.
fn evenly(at: SocketAddr, asks: Asks, length: Duration) -> Result<Load, String> {
    let mut answered = load::run(&asks, &[at], length)?;
    let us = &mut answered.exact_us;
    us.sort_unstable();
    let decisions = us.len() as u64;
    let admitted: u64 = answered.admitted.iter().map(|units| u64::from(*units)).sum();
    if answered.unanswered > 0 || admitted < decisions || !answered.other_us.is_empty() {
        return Err(format!(
            "{admitted} of {decisions} admitted, {} unanswered",
            answered.unanswered
        ));
    }
    let per_s = decisions as f64 / length.as_secs_f64();
    Ok(Load { decisions, per_s, p50_us: least_above(us, 0.5), p99_us: least_above(us, 0.99) })
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
        // The name of the value, and the value.
        Subject::TidegateChecks | Subject::TidegateUnwatched => {
            answers.get(1) != Some(&RedisReply::Int(1))
        }
        _ => false,
    }
}

/// Sees that the answer is a decision: programs that generate load hardly look.
fn check(at: SocketAddr, way: Way, subject: Subject) -> Result<(), String> {
    match way {
        Way::Http if subject == Subject::Tidegate => Imitated::Check.agrees_with(at),
        Way::Http => Ok(()),
        Way::Grpc { .. } => no_op::check(at),
        Way::Resp(_) => {
            if subject == Subject::Tidegate {
                Imitated::Throttle.agrees_with(at)?;
            }
            let words: Vec<&[u8]> = subject.command().iter().map(|word| word.as_bytes()).collect();
            match Connection::open(at)?.ask(&words)? {
                RedisReply::Array(parts) if refuses(subject, &parts) => {
                    Err(format!("{subject:?} refuses a request"))
                }
                _ => Ok(()),
            }
        }
    }
}
