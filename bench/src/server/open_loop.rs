//! Requests over RESP at a given rate, however long answers take: what a caller sees whose requests do not
//! wait for each other.

use super::generators::Load;
use crate::pauses::least_above;
use crate::resp::{self, Connection};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Connections, taken in turn.
const CONNECTIONS: usize = 10;
/// How long the sender rests when nothing is due.
const REST: Duration = Duration::from_micros(20);
/// Numbers of the keys that are asked for.
const KEYS: usize = 100_000;

/// When requests are due.
#[derive(Clone, Copy)]
struct Schedule {
    begins: Instant,
    apart: Duration,
    requests: usize,
}

impl Schedule {
    fn due(&self, number: usize) -> Instant {
        self.begins + self.apart.mul_f64(number as f64)
    }

    /// Those of one connection.
    fn of(self, connection: usize) -> impl Iterator<Item = Instant> {
        (connection..self.requests).step_by(CONNECTIONS).map(move |number| self.due(number))
    }
}

/// Asks `per_s` times a second for `length`; `words` make a command, in which `__rand_int__` is a number.
/// Latency counts from when a request was due.
///
/// # Errors
/// When a connection is lost, or an answer is an error.
pub fn run(at: SocketAddr, words: &[&str], per_s: f64, length: Duration) -> Result<Load, String> {
    let requests = (per_s * length.as_secs_f64()) as usize;
    let apart = Duration::from_secs_f64(1.0 / per_s.max(1.0));
    let schedule = Schedule { begins: Instant::now() + Duration::from_millis(50), apart, requests };
    let mut senders = Vec::new();
    let mut readers = Vec::new();
    for number in 0..CONNECTIONS {
        let (sender, mut replies) = Connection::open(at)?.split();
        senders.push(sender);
        readers.push(std::thread::spawn(move || -> Result<Vec<u32>, String> {
            let answered = |due| replies.next().map(|_| micros_since(due));
            schedule.of(number).map(answered).collect()
        }));
    }
    send(&mut senders, words, schedule)?;
    let mut us = Vec::new();
    for reader in readers {
        let latencies = reader.join().map_err(|_| "a reader of replies panicked".to_owned())?;
        us.extend(latencies?);
    }
    us.sort_unstable();
    let wall = schedule.begins.elapsed().as_secs_f64();
    Ok(Load {
        decisions: us.len() as u64,
        per_s: us.len() as f64 / wall,
        p50_us: least_above(&us, 0.5).into(),
        p99_us: least_above(&us, 0.99).into(),
    })
}

/// Sends what is due, until all is sent.
fn send(
    senders: &mut [impl std::io::Write],
    words: &[&str],
    schedule: Schedule,
) -> Result<(), String> {
    for number in 0..schedule.requests {
        let command = command(words, number);
        while Instant::now() < schedule.due(number) {
            std::thread::sleep(REST);
        }
        let sent = senders[number % CONNECTIONS].write_all(&command);
        sent.map_err(|error| format!("the connection was lost: {error}"))?;
    }
    Ok(())
}

/// The numbers are spread, and the same in every run.
fn command(words: &[&str], number: usize) -> Vec<u8> {
    let key = format!("{:012}", number.wrapping_mul(7_919) % KEYS);
    let words: Vec<String> = words.iter().map(|word| word.replace("__rand_int__", &key)).collect();
    resp::command(&words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
}

fn micros_since(due: Instant) -> u32 {
    let passed = Instant::now().saturating_duration_since(due);
    u32::try_from(passed.as_micros()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_connection_has_its_own_requests_and_all_are_had() {
        let begins = Instant::now();
        let schedule = Schedule { begins, apart: Duration::from_millis(1), requests: 25 };
        let all: usize = (0..CONNECTIONS).map(|number| schedule.of(number).count()).sum();
        assert_eq!(all, 25);
        let second = schedule.of(3).nth(1);
        assert_eq!(second, Some(begins + Duration::from_millis(13)));
    }

    #[test]
    fn each_request_asks_for_a_key_of_its_own() {
        let first = command(&["INCR", "key:__rand_int__"], 1);
        assert_eq!(first, resp::command(&[b"INCR", b"key:000000007919"]));
    }
}
