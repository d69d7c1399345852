//! The primaries of a cluster, with equal parts of the slots.

use crate::redis_server::RedisServer;
use std::thread;
use std::time::{Duration, Instant};
use tidegate::script::RedisReply;

/// The time that they may take to know each other.
const PATIENCE: Duration = Duration::from_secs(60);
/// The number of slots of a cluster.
const SLOTS: usize = 16_384;

/// Starts primaries, and waits until each knows all others.
///
/// # Errors
/// When redis-server is missing, or they do not find each other.
pub fn start(count: usize) -> Result<Vec<RedisServer>, String> {
    let mut primaries = Vec::new();
    for place in 0..count {
        let server = RedisServer::start_with(&["--cluster-enabled", "yes"])?;
        let [first, last] = [place, place + 1].map(|part| part * SLOTS / count);
        let [first, last] = [first, last - 1].map(|slot| slot.to_string());
        let mut connection = server.connect()?;
        let slots = [b"ADDSLOTSRANGE".as_slice(), first.as_bytes(), last.as_bytes()];
        connection.ask(&[&[b"CLUSTER".as_slice()][..], &slots].concat())?;
        let epoch = (place + 1).to_string();
        connection.ask(&[b"CLUSTER", b"SET-CONFIG-EPOCH", epoch.as_bytes()])?;
        connection.ask(&[b"CONFIG", b"SET", b"cluster-announce-ip", b"127.0.0.1"])?;
        primaries.push(server);
    }
    meet(&primaries)?;
    Ok(primaries)
}

fn meet(primaries: &[RedisServer]) -> Result<(), String> {
    let begun = Instant::now();
    let mut first = primaries.first().ok_or("no primary")?.connect()?;
    while !is_whole(primaries)? {
        if begun.elapsed() > PATIENCE {
            return Err(format!("the nodes do not find each other in {PATIENCE:?}"));
        }
        for other in primaries {
            let port = other.at().port().to_string();
            first.ask(&[b"CLUSTER", b"MEET", b"127.0.0.1", port.as_bytes()])?;
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

fn is_whole(primaries: &[RedisServer]) -> Result<bool, String> {
    let known = format!("cluster_known_nodes:{}\r", primaries.len());
    for server in primaries {
        let answer = server.connect()?.ask(&[b"CLUSTER", b"INFO"])?;
        let RedisReply::Bytes(answer) = answer else { return Ok(false) };
        let message = String::from_utf8_lossy(&answer).into_owned();
        if !message.contains("cluster_state:ok") || !message.contains(&known) {
            return Ok(false);
        }
    }
    Ok(true)
}
