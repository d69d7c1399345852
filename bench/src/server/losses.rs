//! The command `losses`: the first decisions after the store came back without its data, in which the server carries the
//! units in use there.

use super::running::{self, Server};
use crate::harness::{Case, Entry, Options, Sample, median};
use crate::redis_server::RedisServer;
use crate::resp::Connection;
use crate::table::{Column, median_of};
use std::time::{Duration, Instant};
use tidegate::script::RedisReply;

const COLUMNS: &[Column] = &[
    median_of("us_before", "a decision before, us", 0),
    median_of("us_first", "the first of a key after, us", 0),
    median_of("first", "first / before", 2),
    median_of("next", "next / before", 2),
    median_of("over", "over all limits", 0),
];
/// The keys that are asked in turn, by one caller.
const KEYS: u32 = 5_000;
/// The units that each key may use in an hour.
const LIMIT: u32 = 5;
/// The time after which a server surely asks a store again that came back.
const PAUSE: Duration = Duration::from_secs(3);
const ALGORITHMS: [&str; 6] = [
    "fixed_window",
    "sliding_window",
    "sliding_counter",
    "sliding_log",
    "token_bucket",
    "leaky_bucket",
];

pub fn cases(options: &'static Options) -> Vec<Case> {
    let subjects =
        ALGORITHMS.map(|algorithm| Entry::each(algorithm, move |_| lost(algorithm, options)));
    let case = Case::once(format!("a store that lost {KEYS} keys"), COLUMNS, subjects.into());
    vec![Case { rounds: 3, ..case }]
}

/// Asks for each key three times, replaces the store by an empty store, and goes on until all limits are used up.
fn lost(algorithm: &str, options: &Options) -> Result<Sample, String> {
    let tidegate = running::tidegate(options)?;
    let store = RedisServer::start()?;
    let values = match algorithm {
        "token_bucket" => format!("rate = \"{LIMIT}/1h\""),
        _ => format!("limit = {LIMIT}\nwindow = \"1h\""),
    };
    let text = format!(
        "[[rule]]\nname = \"a\"\nkey = [\"user\"]\nalgorithm = \"{algorithm}\"\n{values}\n"
    );
    let server = Server::start(&tidegate, &text, &["--resp"], Some(&store))?;
    let mut connection = Connection::open(server.at("--resp")?)?;
    let mut admitted = asked(&mut connection)?.1 + asked(&mut connection)?.1;
    let (before, more) = asked(&mut connection)?;
    admitted += more;

    let empty = store.replaced()?;
    let came_back = Instant::now();
    while came_back.elapsed() < PAUSE {
        decide(&mut connection, KEYS)?;
        std::thread::sleep(Duration::from_millis(50));
    }
    let (first, more) = asked(&mut connection)?;
    admitted += more;
    let (next, more) = asked(&mut connection)?;
    admitted += more;
    admitted += asked(&mut connection)?.1;
    // A server whose store is away takes its time to end.
    drop((connection, server, empty));
    let over = admitted.saturating_sub(LIMIT * KEYS);
    Ok(vec![
        ("us_before", before),
        ("us_first", first),
        ("first", first / before),
        ("next", next / before),
        ("over", over.into()),
    ])
}

/// Asks once for each key; returns the median time in microseconds, and the number of admitted requests.
fn asked(connection: &mut Connection) -> Result<(f64, u32), String> {
    let mut times = Vec::new();
    let mut admitted = 0;
    for key in 0..KEYS {
        let began = Instant::now();
        admitted += u32::from(decide(connection, key)?);
        times.push(began.elapsed().as_secs_f64() * 1e6);
    }
    let median = median(times).ok_or("no key was asked")?;
    Ok((median, admitted))
}

/// Returns whether a request of one unit is admitted.
fn decide(connection: &mut Connection, key: u32) -> Result<bool, String> {
    let user = key.to_string();
    let words = ["TG.CHECK", "default", "user", &user].map(str::as_bytes);
    match connection.ask(&words)? {
        RedisReply::Array(parts) => Ok(parts.get(1) == Some(&RedisReply::Int(1))),
        reply => Err(format!("a decision is {reply:?}")),
    }
}
