//! Callers that ask at their own times, without waiting for answers to earlier requests.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep_until};

/// A request that was answered; times are microseconds since the beginning of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) asked: u64,
    pub(super) answered: u64,
    pub(super) allowed: bool,
}

/// The requests to one server, without those that it never answered.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub(super) answered: Vec<Call>,
}

/// Asks over one connection until `ends`, or until the server ends, with these pauses between requests, and waits for all
/// answers.
pub(super) async fn call_until(
    server: SocketAddr,
    begun: Instant,
    ends: Instant,
    pause: impl FnMut(Instant) -> Duration + Send + 'static,
) -> Calls {
    let connection = TcpStream::connect(server).await.unwrap();
    connection.set_nodelay(true).unwrap();
    let (replies, requests) = connection.into_split();
    let (asked, waiting) = unbounded_channel();
    let asks = ask(requests, asked, begun, ends, pause);
    tokio::join!(asks, hear(replies, waiting, begun)).1
}

async fn ask(
    mut requests: OwnedWriteHalf,
    asked: UnboundedSender<u64>,
    begun: Instant,
    ends: Instant,
    mut pause: impl FnMut(Instant) -> Duration,
) {
    let request = redis::cmd("TG.CHECK").arg("default").get_packed_command();
    let mut next = Instant::now();
    while next < ends {
        sleep_until(next).await;
        if asked.send(begun.elapsed().as_micros() as u64).is_err()
            || requests.write_all(&request).await.is_err()
        {
            return;
        }
        next += pause(next);
    }
}

async fn hear(
    mut replies: OwnedReadHalf,
    mut waiting: UnboundedReceiver<u64>,
    begun: Instant,
) -> Calls {
    let (mut calls, mut bytes) = (Calls::default(), Vec::new());
    while let Some(asked) = waiting.recv().await {
        let Some(allowed) = reply(&mut replies, &mut bytes).await else { return calls };
        let answered = begun.elapsed().as_micros() as u64;
        calls.answered.push(Call { asked, answered, allowed });
    }
    calls
}

/// The text in a reply before the word of the answer, which is in it once.
const BEFORE: &[u8] = b"$7\r\nallowed\r\n:";

/// Reads the next reply as far as the word whether the request was admitted; `None` if the connection has ended.
async fn reply(replies: &mut OwnedReadHalf, bytes: &mut Vec<u8>) -> Option<bool> {
    loop {
        let found = bytes.windows(BEFORE.len()).position(|window| window == BEFORE);
        let word = found.map(|begins| begins + BEFORE.len());
        if let Some((place, word)) = word.and_then(|place| Some((place, *bytes.get(place)?))) {
            bytes.drain(..place);
            return Some(word == b'1');
        }
        if replies.read_buf(bytes).await.is_ok_and(|read| read > 0) {
            continue;
        }
        return None;
    }
}
