//! The revision of a policy's values over a store: the number of the policy, and when the values were loaded by
//! the store's clock.

use std::sync::LazyLock;

use tidegate_core::Timestamp;
use tokio::time::Instant;

use super::RedisStore;
use crate::clock::Clock;
use crate::step::ValuesSource;
use crate::store::redis::script::{JoinedScript, RedisReply, Revision};
use crate::store::{KeyAsk, StoreError};

/// Reads the store's clock.
static TIME: LazyLock<JoinedScript> = LazyLock::new(|| {
    let text = "local time = redis.call('TIME')\nreturn time[1] * 1000000 + time[2]";
    JoinedScript::new(text.to_owned())
});

/// Returns whether the values of a limiter have a revision: values of a plan and from the request have none.
const fn has_revision(ask: &KeyAsk) -> bool {
    matches!(ask.source, ValuesSource::Rule | ValuesSource::NoPlan)
}

/// Dates the first policy by the store's clock, if a limiter is asked under its values. The store is asked
/// once.
///
/// # Errors
/// The store did not reply.
pub(super) async fn know_revision(
    store: &RedisStore,
    asks: &[KeyAsk],
    deadline: Instant,
) -> Result<(), StoreError> {
    match asks.iter().find(|ask| has_revision(ask)) {
        Some(first) => know_loaded(store, &first.fingerprint, deadline).await,
        None => Ok(()),
    }
}

/// Dates the first policy by the clock of the shard of `key`. A policy that another node loads after this
/// has ended is newer.
///
/// # Errors
/// The store did not reply.
pub(super) async fn know_loaded(
    store: &RedisStore,
    key: &[u8],
    deadline: Instant,
) -> Result<(), StoreError> {
    if store.loaded.there.get().is_some() {
        return Ok(());
    }
    // Measured before the question: the date may then be a little too late, but never too early.
    let passed = store.host.now().since(store.loaded.here);
    let reply = store.client.run(&TIME, &[key.to_vec()], &[], deadline).await?;
    let now = match reply {
        RedisReply::Int(now) => u64::try_from(now).ok().map(Timestamp::from_micros),
        _ => None,
    };
    let now = now.ok_or_else(|| StoreError::Answer("no time".to_owned()))?;
    // If several calls ask together, the first reply counts for all.
    store.loaded.there.get_or_init(|| now.minus(passed));
    Ok(())
}

/// Returns the revision of the values that a limiter is asked under: the number of the policy, and when the
/// values of its rule came in force. A replay has none, because no other node asks about its limiters.
pub(super) fn revision(store: &RedisStore, ask: &KeyAsk) -> Revision {
    let Some(loaded) = store.loaded.there.get().filter(|_| has_revision(ask)) else {
        return Revision::NONE;
    };
    let passed = store.generation.since(ask.rule).since(store.loaded.here);
    Revision::new(store.policy().revision().map_or(0, u32::from), loaded.plus(passed))
}
