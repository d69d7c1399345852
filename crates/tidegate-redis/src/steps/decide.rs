//! One step over limiters, until it is decided: when it is asked again, and when a call is sent twice.

use std::borrow::Cow;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_core::Micros;
use tokio::sync::oneshot::{self, Receiver};
use tokio::time::{Instant, timeout_at};

use super::late::conclude;
use super::limiters::script_limiters;
use super::{PendingStep, RedisStore, RoutedReply, no_space};
use crate::client::heard;
use crate::error::is_of_other_layout;
use crate::inbox::{LateReply, NoReply, Replied};
use crate::keys::answer_key;
use crate::request::RequestIdentity;
use crate::route::Delivered;
use crate::script::{Call, CallResult, DecidedStep, NewerValues, RedisReply, ScriptLimiter};
use crate::step::{least_remembered_time, remembered_time};
use crate::store::{GaveUp, KeyAsk, KnownUse, Late, LimiterPlaces, StoreError, Verb, is_report};

/// The id of a request, and how long its answer is remembered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Remembered<'a> {
    id: RequestIdentity<'a>,
    time: Micros,
}

/// A call that was handed to the store. If it is dropped before the reply, the units it took are given back if
/// possible.
pub(super) struct SentCall<'a> {
    store: &'a RedisStore,
    call: &'a Arc<Call>,
    pending: PendingStep<'a>,
    /// The values that decide in place of the node's own.
    newer: &'a NewerValues,
    /// `None` after the reply.
    replied: Option<Receiver<Replied>>,
}

impl<'a> SentCall<'a> {
    const fn new(
        store: &'a RedisStore,
        call: &'a Arc<Call>,
        pending: PendingStep<'a>,
        newer: &'a NewerValues,
        replied: Receiver<Replied>,
    ) -> Self {
        Self { store, call, pending, newer, replied: Some(replied) }
    }

    /// Returns whether units of an undelivered reply can be given back. Units of a report cannot, because they were
    /// used, nor units under a remembered id, because asking again returns the first reply.
    fn can_be_undone(&self) -> bool {
        let PendingStep { asks, args, remembered, undoes, .. } = self.pending;
        undoes
            && args.verb == Verb::Ask
            && !is_report(asks)
            && remembered.is_none()
            && asks.iter().any(|ask| ask.cost > 0)
    }

    /// The error of a call that was sent. A call that gives units back is not undone when its reply comes late, so an
    /// error that says that nothing was done would be wrong: units would come back twice if the caller tried again.
    fn sent(&self, error: StoreError) -> StoreError {
        match (self.pending.args.verb, error) {
            (Verb::Settle, StoreError::Away | StoreError::Overloaded { .. }) => StoreError::Timeout,
            (_, error) => error,
        }
    }

    /// Starts to wait for a late reply, to give back its units unless its request was admitted by then.
    fn undo_late(&self, late: LateReply) -> Late {
        if !self.can_be_undone() {
            return Late::default();
        }
        let (keep, kept) = oneshot::channel();
        let replied = Err(NoReply { error: StoreError::Away, late: Some(late) });
        let Self { store, call, pending, newer, .. } = *self;
        conclude(store.clone(), call, pending, newer, async { replied }, kept);
        Late::unless_sent(keep)
    }

    /// Takes a reply in time, or the reason for none.
    fn take(&self, replied: Replied) -> Result<Delivered, GaveUp> {
        let NoReply { error, late } = match replied {
            Ok(delivered) => return Ok(delivered),
            Err(no_reply) => no_reply,
        };
        if let Some(late) = late {
            let late = self.undo_late(late);
            return Err(GaveUp { late, ..GaveUp::from(self.sent(error)) });
        }
        if self.can_be_undone() {
            self.store.count_unanswered(self.pending.asks, &error);
        }
        Err(error.into())
    }
}

impl Future for SentCall<'_> {
    type Output = Result<Delivered, GaveUp>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(replied) = &mut self.replied else {
            return Poll::Ready(Err(StoreError::Away.into()));
        };
        let Poll::Ready(replied) = Pin::new(replied).poll(context) else { return Poll::Pending };
        self.replied = None;
        Poll::Ready(self.take(heard(replied)))
    }
}

impl Drop for SentCall<'_> {
    fn drop(&mut self) {
        let Some(replied) = self.replied.take().filter(|_| self.can_be_undone()) else { return };
        // No caller decides any more that the units are kept.
        let (_, kept) = oneshot::channel();
        let Self { store, call, pending, newer, .. } = *self;
        conclude(store.clone(), call, pending, newer, async { heard(replied.await) }, kept);
    }
}

impl RedisStore {
    /// Runs a step until it is decided, and notes an error.
    ///
    /// It is asked again after a reply that did nothing: a limiter has to change to its new rule first, newer values
    /// decide it, or there is no space for it. Values may change between the questions, any number of times before the
    /// deadline.
    pub(super) async fn decide(
        &self,
        limiters: &[ScriptLimiter<'_>],
        pending: PendingStep<'_>,
    ) -> Result<RoutedReply, GaveUp> {
        let deadline = pending.args.deadline;
        let source = pending.args.origin.source;
        let is_safe_twice = self.is_safe_twice(pending);
        // Newer values add up from reply to reply. Only the last reply says if the next call has to amend.
        let mut newer = NewerValues::default();
        let mut amends = false;
        let mut has_no_memory = false;
        let mut carried = LimiterPlaces::NONE;
        let gave_up = loop {
            let limiters = if newer.is_empty() {
                Cow::Borrowed(limiters)
            } else {
                Cow::Owned(newer.limiters(limiters))
            };
            let mut call = self.call(&limiters, pending);
            if amends {
                call = call.amending();
            }
            if has_no_memory {
                call = call.without_memory();
            }
            let call = Arc::new(call);
            let replied = self.client.ask(&call, source, deadline);
            let sent = SentCall::new(self, &call, pending, &newer, replied);
            let replied = if is_safe_twice {
                Box::pin(self.reply_or_again(sent, &call, pending, &newer)).await
            } else {
                sent.await
            };
            let (reply, route) = match replied {
                Ok(Delivered { reply, route }) => (reply, Some(route)),
                // Nothing was done, so it is safe to send the step again, in a form that writes no new key.
                Err(gave_up) if gave_up.error == StoreError::OutOfMemory && !has_no_memory => {
                    has_no_memory = true;
                    continue;
                }
                // The script did nothing, because a key has another type. The limiter has to change first, as after nil.
                Err(gave_up) if is_of_other_layout(&gave_up.error) => (RedisReply::Nil, None),
                Err(gave_up) => break gave_up,
            };
            has_no_memory = false;
            amends = false;
            carried = carried.and(call.carried(&reply));
            match call.answer(&limiters, &reply) {
                Ok(CallResult::Decided(done)) => {
                    return Ok((done.decided_by(newer).after_carrying(carried), route));
                }
                Ok(CallResult::Changed) => amends = true,
                Ok(CallResult::Superseded(found)) => newer = newer.and(found),
                Ok(CallResult::Lost(_)) => {
                    return Ok((DecidedStep::lost().after_carrying(carried), route));
                }
                Ok(CallResult::NoSpace(lacks)) => {
                    // Boxed, because it leads back here.
                    let rest = no_space::decide_without_space(self, &limiters, &lacks, pending);
                    match Box::pin(rest).await {
                        Ok((done, route)) => {
                            return Ok((done.decided_by(newer).after_carrying(carried), route));
                        }
                        Err(gave_up) => break gave_up,
                    }
                }
                Err(error) => break StoreError::from(error).into(),
            }
            if Instant::now() >= deadline {
                let error = "values that changed until the deadline".to_owned();
                break StoreError::Answer(error).into();
            }
        };
        if let Some(first) = limiters.first() {
            self.client.note_undecided(&gave_up.error, first.key);
        }
        Err(gave_up)
    }

    /// Waits for the reply to a call. If the connection is lost, or no reply comes within half of the time, the call is
    /// sent once more within the rest. The first reply counts.
    async fn reply_or_again(
        &self,
        sent: SentCall<'_>,
        call: &Arc<Call>,
        pending: PendingStep<'_>,
        newer: &NewerValues,
    ) -> Result<Delivered, GaveUp> {
        let deadline = pending.args.deadline;
        let mut first = pin!(sent);
        // Half of the time that is left for each attempt.
        let half = deadline.duration_since(Instant::now()) / 2;
        let reply = timeout_at(deadline - half, first.as_mut()).await;
        let again = async {
            timeout_at(deadline, self.client.fit()).await.map_err(|_| StoreError::Timeout)?;
            let replied = self.client.inbox().ask(call, pending.args.origin.source, deadline);
            SentCall::new(self, call, pending, newer, replied).await
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
    fn is_safe_twice(&self, PendingStep { asks, args, .. }: PendingStep<'_>) -> bool {
        let timeout = self.client.settings().timeout.into();
        args.origin.id.is_some()
            && args.verb == Verb::Ask
            && least_remembered_time(self.policy(), asks).is_some_and(|least| least >= timeout)
    }

    fn call(&self, limiters: &[ScriptLimiter<'_>], pending: PendingStep<'_>) -> Call {
        let call = Call::new(limiters, pending.step, pending.args.at);
        let call = call.expecting(only_server(pending.args.known));
        match pending.remembered {
            Some(known) => {
                let key = self.key_of_answer(known, limiters);
                call.remembering(key, known.time, known.id.reservation)
            }
            None => call,
        }
    }

    /// Returns the key of the remembered answer to a request; `None` if it is not remembered.
    #[doc(hidden)]
    pub fn answer_key(&self, asks: &[KeyAsk], id: Option<RequestIdentity<'_>>) -> Option<Vec<u8>> {
        let limiters = script_limiters(self, asks, &[], &[], (&[], &[]), &[]);
        Some(self.key_of_answer(self.remembered(asks, id)?, &limiters))
    }

    pub(super) fn remembered<'i>(
        &self,
        asks: &[KeyAsk],
        id: Option<RequestIdentity<'i>>,
    ) -> Option<Remembered<'i>> {
        Some(Remembered { id: id?, time: remembered_time(self.policy(), asks)? })
    }

    fn key_of_answer(&self, remembered: Remembered<'_>, limiters: &[ScriptLimiter<'_>]) -> Vec<u8> {
        answer_key(&self.client.settings().key_prefix, remembered.id, limiters)
    }
}

/// The number that no server has.
const NO_SERVER: u64 = 0;

/// Returns the only server that may decide about these limiters, if any: since no server has the states of two, it is
/// [`NO_SERVER`] if they are known from several.
fn only_server(known: &[KnownUse]) -> Option<u64> {
    let mut servers = known.iter().filter_map(KnownUse::server);
    let first = servers.next()?;
    Some(if servers.all(|server| server == first) { first } else { NO_SERVER })
}

/// Returns the reply that comes first; an error only if both calls failed.
async fn either<T, E>(
    mut first: Pin<&mut impl Future<Output = Result<T, E>>>,
    mut again: Pin<&mut impl Future<Output = Result<T, E>>>,
) -> Result<T, E> {
    let mut first_failed = None;
    let mut again_failed = false;
    poll_fn(|context| {
        if first_failed.is_none()
            && let Poll::Ready(reply) = first.as_mut().poll(context)
        {
            match reply {
                Ok(reply) => return Poll::Ready(Ok(reply)),
                Err(error) => first_failed = Some(error),
            }
        }
        if !again_failed && let Poll::Ready(reply) = again.as_mut().poll(context) {
            match reply {
                Ok(reply) => return Poll::Ready(Ok(reply)),
                // The first call was sent, and the second perhaps never was, so its error says less.
                Err(_) => again_failed = true,
            }
        }
        match first_failed.take_if(|_| again_failed) {
            Some(error) => Poll::Ready(Err(error)),
            None => Poll::Pending,
        }
    })
    .await
}

/// Sorts limiters by key, so that the remembered answer is the same in whatever order a request names them.
/// Returns the original places as well.
pub(super) fn by_key(limiters: Vec<ScriptLimiter<'_>>) -> (Vec<usize>, Vec<ScriptLimiter<'_>>) {
    let mut all: Vec<_> = limiters.into_iter().enumerate().collect();
    all.sort_by_key(|(_, one)| one.identity().0);
    all.into_iter().unzip()
}
