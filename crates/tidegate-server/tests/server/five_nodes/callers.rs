//! Callers that ask at their own times, without waiting for answers to earlier requests.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, RedisResult, Value, cmd};
use tokio::task::JoinSet;
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

/// Asks over one connection until `ends`, with these pauses between requests, and waits for all answers. A server that
/// has ended answers none.
pub(super) async fn call_until(
    server: SocketAddr,
    begun: Instant,
    ends: Instant,
    mut pause: impl FnMut(Instant) -> Duration,
) -> Calls {
    let client = Client::open(format!("redis://{server}")).unwrap();
    // A server that stands still answers later.
    let patient = AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
    let (mut calls, mut next) = (JoinSet::new(), Instant::now());
    while next < ends {
        sleep_until(next).await;
        let (mut connection, now) =
            (connection.clone(), move || begun.elapsed().as_micros() as u64);
        calls.spawn(async move {
            let asked = now();
            let asks = cmd("TG.CHECK").arg("default").clone();
            let reply: RedisResult<HashMap<String, Value>> =
                asks.query_async(&mut connection).await;
            // Only a server that has ended leaves calls without an answer.
            let reply = reply.map_err(|error| assert!(error.is_io_error(), "{error}")).ok()?;
            Some(Call { asked, answered: now(), allowed: reply["allowed"] == Value::Int(1) })
        });
        next += pause(next);
    }
    Calls { answered: calls.join_all().await.into_iter().flatten().collect() }
}
