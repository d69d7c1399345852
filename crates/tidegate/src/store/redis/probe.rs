//! Looking after a store that is away: one at a time, at growing pauses, until it is fit again.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::{sleep, timeout};

use super::audit;
use super::client::Shared;
use super::error::StoreError;
use super::event::StoreEvent;
use super::link::Link;

/// The first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(1));
/// How long one look may take.
const LOOK: Duration = Duration::from_secs(2);
/// Writes of which one must be answered within the deadline of a decision.
const TRIES: usize = 3;
/// What nearly every decision does, with a key that lives a second or two. A user who may not do all of it is
/// told so here: one who may write and not say when that expires would leave keys for ever.
const WRITE: &str = "\
local expires = string.format('%d', redis.call('TIME')[1] * 1000 + 2000)
redis.call('SET', KEYS[1], '', 'PXAT', expires)
redis.call('SETRANGE', KEYS[1], '0', '?')
redis.call('PEXPIREAT', KEYS[1], expires)
return redis.call('GET', KEYS[1])";

/// Begins to look after the store; `lost` is why, `None` at the start.
pub(super) fn begin(shared: &Arc<Shared>, lost: Option<StoreError>) {
    tokio::spawn(look_after(Arc::downgrade(shared), lost));
}

/// Ends when the store is fit, or nobody needs it any more.
async fn look_after(shared: Weak<Shared>, lost: Option<StoreError>) {
    let (mut pause, mut told) = (PAUSES.0, lost.is_some());
    if lost.is_some() {
        sleep(spread(pause)).await;
    }
    loop {
        let Some(shared) = shared.upgrade() else { return };
        match look(&shared).await {
            Ok(link) => return found_fit(&shared, link, told).await,
            Err(error) => {
                if !told {
                    (shared.observer)(StoreEvent::Lost(&error));
                    told = true;
                }
                shared.found.send_replace(Some(Err(error)));
            }
        }
        drop(shared);
        sleep(spread(pause)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

async fn found_fit(shared: &Shared, link: Link, was_lost: bool) {
    shared.breaker.close(link.clone(), shared.now_us());
    shared.found.send_replace(Some(Ok(())));
    if was_lost {
        (shared.observer)(StoreEvent::Back);
    }
    // What a server does not tell says nothing.
    let findings = timeout(LOOK, audit::of(link)).await.unwrap_or_default();
    let new =
        shared.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner).new_among(findings);
    new.iter().for_each(|finding| (shared.observer)(StoreEvent::Finding(finding)));
}

/// Connects, and sees whether a decision could be taken.
async fn look(shared: &Shared) -> Result<Link, StoreError> {
    let look = async {
        let mut link = Link::connect(&shared.settings).await?;
        is_primary(&mut link).await?;
        decides_in_time(shared, &mut link).await?;
        Ok(link)
    };
    timeout(LOOK, look).await.unwrap_or(Err(StoreError::Timeout))
}

/// A store that answers, but later than decisions wait, is as good as away: each request would only wait in
/// vain. One late answer says nothing, so it is asked a few times.
async fn decides_in_time(shared: &Shared, link: &mut Link) -> Result<(), StoreError> {
    let write = written(&shared.settings.key_prefix);
    for _ in 0..TRIES {
        if let Ok(answer) = timeout(shared.deadline, link.send(&write)).await {
            return answer.map(|_| ()).map_err(|error| StoreError::of(&error));
        }
    }
    Err(StoreError::Timeout)
}

/// Nothing is ever decided on a replica, also not on one that lets itself be written.
async fn is_primary(link: &mut Link) -> Result<(), StoreError> {
    if matches!(link, Link::Cluster { .. }) {
        return Ok(());
    }
    match link.send(&redis::cmd("ROLE")).await.map_err(|error| StoreError::of(&error)) {
        Ok(Value::Array(told)) => match told.first() {
            Some(Value::BulkString(role)) if role != b"master" => Err(StoreError::ReadOnly),
            _ => Ok(()),
        },
        // A user who may not ask, and what is not quite this server: writing shows the rest.
        Ok(_) | Err(StoreError::Denied(_) | StoreError::Refused(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What every decision needs: to write, in a script. No key of a limiter is like this one.
fn written(prefix: &str) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(WRITE).arg(1).arg(format!("{prefix}?"));
    command
}

/// Somewhere between half of a pause and all of it, so that nodes do not come back as one.
fn spread(pause: Duration) -> Duration {
    let part = RandomState::new().hash_one(0) % 512;
    pause.mul_f64(0.5 + part as f64 / 1024.0)
}
