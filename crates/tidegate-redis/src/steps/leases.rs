//! Leases in the store: units that a node takes ahead, and units that come back of them.

use std::slice::from_ref;
use std::sync::Arc;

use tidegate_core::Micros;
use tokio::time::Instant;

use super::limiters::script_limiters;
use super::{MOST_CHANGES, RedisStore};
use crate::client::heard;
use crate::error::is_of_other_layout;
use crate::inbox::NoReply;
use crate::keys::lease_key;
use crate::route::Delivered;
use crate::script::{Call, CallResult, DecidedStep, LeaseRecord, NewerValues, ScriptLimiter};
use crate::store::{
    KeyAsk, LeaseAsk, LeaseReply, LeaseResult, LimiterReport, ReturnReply, StoreError, StoredData,
    Unspent, Wanted,
};

/// Asks for a lease. After the deadline its caller has nothing to wait for, but units of a late reply are to be
/// given back.
pub(super) async fn take_lease(
    store: &RedisStore,
    ask: &KeyAsk,
    lease: LeaseAsk<'_>,
) -> LeaseReply {
    let LeaseAsk { wanted, node, on_late, known } = lease;
    let asked = ask.costing(wanted.units);
    let limiters = script_limiters(
        store,
        from_ref(&asked),
        &[],
        &[Some(wanted.earlier)],
        (&[], &[]),
        from_ref(known),
    );
    let Some(limiter) = limiters.first() else {
        return LeaseReply::new(false, LeaseResult::NotSent);
    };
    let record = lease_record(store, ask, node, wanted.ticket);
    let call = Call::lease(limiter, wanted.life, (&record, wanted.oldest), None);
    let call = Arc::new(call.expecting(known.server()));
    let replied = heard(store.client.ask(&call, 0, store.client.deadline()).await);
    let is_in_time = replied.is_ok();
    let reply = match replied {
        Ok(reply) => Ok(reply),
        Err(NoReply { late: Some(late), .. }) => {
            on_late();
            // A sender that is gone says nothing of the store, which may have granted the lease.
            late.await.unwrap_or(Err(StoreError::Timeout))
        }
        Err(NoReply { error, late: None }) => Err(error),
    };
    let mut data = StoredData::default();
    let mut used = None;
    let result = match reply {
        Ok(Delivered { reply, route }) => match call.answer(from_ref(limiter), &reply) {
            Ok(answer) => {
                data.server = route.server();
                data.is_lost = matches!(answer, CallResult::Lost(_));
                data.carried = call.carried(&reply);
                if let CallResult::Decided(done) = &answer {
                    used = done.replies.first().and_then(|reply| reply.used.clone());
                }
                read(&answer, limiter, wanted)
            }
            Err(_) => LeaseResult::Unknown,
        },
        // The script did nothing, because the key has another layout by now.
        Err(error) if is_of_other_layout(&error) => LeaseResult::Undecided,
        Err(StoreError::Away | StoreError::Overloaded { .. }) => LeaseResult::NotSent,
        Err(_) => LeaseResult::Unknown,
    };
    LeaseReply { used, data, ..LeaseReply::new(is_in_time, result) }
}

/// Gives units of a lease back. A changed limit alone does not change the taken units, so the store is asked again
/// under newer values, until the deadline. Values that go on changing stop it.
///
/// # Errors
/// The store did not reply.
pub(super) async fn return_lease(
    store: &RedisStore,
    rest: &Unspent<KeyAsk>,
    node: u64,
) -> Result<Option<ReturnReply>, StoreError> {
    let ask = rest.key.costing(rest.units);
    let limiters =
        script_limiters(store, from_ref(&ask), &[], &[Some(Micros::ZERO)], (&[], &[]), &[]);
    let record = lease_record(store, &ask, node, rest.ticket);
    let deadline = store.client.deadline();
    let mut newer = NewerValues::default();
    let mut changes = 0;
    loop {
        let limiters = newer.limiters(&limiters);
        let Some(limiter) = limiters.first() else { return Ok(None) };
        let call = Call::give_back_lease(limiter, &record, (rest.kept, rest.earlier), None);
        let call = Arc::new(call);
        let Delivered { reply, route } = match heard(store.client.ask(&call, 0, deadline).await) {
            Ok(delivered) => delivered,
            Err(no_reply) if is_of_other_layout(&no_reply.error) => return Ok(None),
            Err(no_reply) => return Err(no_reply.error),
        };
        match call.answer(&limiters, &reply) {
            Ok(CallResult::Decided(done)) => {
                let Some(report) = report(&done) else { return Ok(None) };
                let used = done.replies.first().and_then(|reply| reply.used.clone());
                let data = StoredData { server: route.server(), ..StoredData::default() };
                let reply = ReturnReply::new(done.lease_given_back(), report);
                return Ok(Some(ReturnReply { used, data, ..reply }));
            }
            Ok(CallResult::Superseded(found))
                if found.count_as(&limiters) && changes < MOST_CHANGES =>
            {
                if Instant::now() >= deadline {
                    return Err(StoreError::Timeout);
                }
                changes += 1;
                newer = newer.and(found);
            }
            // It counts in another way by now, or has changed too often.
            _ => return Ok(None),
        }
    }
}

/// The lease of a node with this ticket, in the record of the limiter.
fn lease_record(store: &RedisStore, ask: &KeyAsk, node: u64, ticket: u64) -> LeaseRecord {
    let key = lease_key(&store.client.settings().key_prefix, &ask.fingerprint);
    LeaseRecord::new(key, node, ticket)
}

/// Returns the standing of the only limiter of a reply.
fn report(done: &DecidedStep) -> Option<LimiterReport> {
    let decision = done.replies.first()?.decision();
    let idle_at = done.at.plus(decision.reset_after);
    Some(LimiterReport { remaining: decision.remaining, at: done.at, idle_at })
}

/// Reads the answer about a lease.
fn read(answer: &CallResult, limiter: &ScriptLimiter<'_>, wanted: &Wanted) -> LeaseResult {
    let CallResult::Decided(done) = answer else { return LeaseResult::Undecided };
    let Some(report) = report(done) else { return LeaseResult::Unknown };
    let end = done.lease_end(limiter, wanted.life);
    LeaseResult::Decided(report, end.map(|end| [done.at, end]))
}
