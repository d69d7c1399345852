//! One call to the store, sent once, or once more if that cannot take twice.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::time::{Instant, timeout_at};

use super::late::SentCall;
use super::{PendingStep, RedisStore};
use crate::dedupe;
use crate::store::redis::Delivered;
use crate::store::redis::script::Call;
use crate::store::{GaveUp, KeyAsk, StepArgs, StoreError, Verb};

/// Sends a call. If the connection is lost, or no reply comes within half of the time, the call is sent
/// once more within the rest, if that is safe. The first reply counts.
pub(super) async fn run(
    store: &RedisStore,
    call: &Arc<Call>,
    pending: PendingStep<'_>,
) -> Result<Delivered, GaveUp> {
    if is_safe_twice(store, pending.asks, pending.args) {
        return Box::pin(run_twice(store, call, pending)).await;
    }
    attempt(store, call, pending).await
}

/// Sends a call once.
fn attempt<'a>(
    store: &'a RedisStore,
    call: &'a Arc<Call>,
    pending: PendingStep<'a>,
) -> SentCall<'a> {
    let replied = store.client.ask(call, pending.args.origin.source, pending.args.deadline);
    SentCall::new(store, call, pending, replied)
}

async fn run_twice(
    store: &RedisStore,
    call: &Arc<Call>,
    pending: PendingStep<'_>,
) -> Result<Delivered, GaveUp> {
    let deadline = pending.args.deadline;
    let mut first = pin!(attempt(store, call, pending));
    // Half of the time that is left for each attempt.
    let half = deadline.duration_since(Instant::now()) / 2;
    let reply = timeout_at(deadline - half, first.as_mut()).await;
    let again = async {
        timeout_at(deadline, store.client.fit()).await.map_err(|_| StoreError::Timeout)?;
        attempt(store, call, pending).await
    };
    match reply {
        Ok(Err(GaveUp { error: StoreError::Timeout | StoreError::Unreachable(_), .. })) => {
            again.await
        }
        Ok(reply) => reply,
        // The first call is still under way, and its reply may yet come first.
        Err(_) => either(first, pin!(again)).await,
    }
}

/// Returns whether a lost call may be sent again: the second reply repeats the first if each rule that can refuse
/// remembers answers for as long as a decision may take.
fn is_safe_twice(store: &RedisStore, asks: &[KeyAsk], args: StepArgs<'_>) -> bool {
    let least = dedupe::least_time(store.policy(), asks);
    args.origin.id.is_some()
        && args.verb == Verb::Ask
        && least.is_some_and(|least| least >= store.client.settings().timeout.into())
}

/// Returns the reply that comes first; an error only if both calls failed.
async fn either<T, E>(
    mut one: impl Future<Output = Result<T, E>> + Unpin,
    mut other: impl Future<Output = Result<T, E>> + Unpin,
) -> Result<T, E> {
    let mut one_failed = None;
    let mut other_failed = None;
    poll_fn(|context| {
        let first = poll_once(&mut one, &mut one_failed, context);
        if let Some(reply) = first.or_else(|| poll_once(&mut other, &mut other_failed, context)) {
            return Poll::Ready(Ok(reply));
        }
        // The first call was sent, and the second perhaps never was, so its error says less.
        match one_failed.take_if(|_| other_failed.is_some()) {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    })
    .await
}

/// Returns the reply of a call if it is there now. A failed call is noted in `failed` and not polled again.
fn poll_once<T, E>(
    one: &mut (impl Future<Output = Result<T, E>> + Unpin),
    failed: &mut Option<E>,
    context: &mut Context<'_>,
) -> Option<T> {
    if failed.is_some() {
        return None;
    }
    match Pin::new(one).poll(context) {
        Poll::Ready(Ok(reply)) => Some(reply),
        Poll::Ready(Err(error)) => {
            *failed = Some(error);
            None
        }
        Poll::Pending => None,
    }
}
