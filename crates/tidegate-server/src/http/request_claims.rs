//! The claims of a request on its connection, from its head until its client has the last byte of the answer: memory,
//! a turn if it is large, and the mark that it is under way. `connection.rs` makes them when the head is read,
//! `body.rs` adds to them, and `unread.rs` holds the rest while the client reads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::message::{HttpRequest, HttpResponse};
use crate::listener::{Account, Activity, KeptBytes, RequestUnderWay, TOO_MUCH};
use crate::refusal::{RefusalKind, RequestRefusal};

/// Most large requests of one connection that are answered at a time.
pub(super) const LARGE_AT_ONCE: usize = 4;
/// Bytes of a body from which a request counts as large.
const LARGE_BYTES: usize = 1 << 10;
/// The most bytes of an answer for which there is always room.
const SHORT_BYTES: usize = 2 << 10;
/// Bytes of any request besides its body and its answer.
const REQUEST_BYTES: usize = 8 << 10;
/// Bytes of each question of a batch while it is decided.
const QUESTION_BYTES: usize = 1 << 10;
/// Bytes of each rule that an answer names.
const RULE_BYTES: usize = 256;

/// The state that all requests of one connection share.
#[derive(Clone)]
pub(super) struct ConnectionState {
    pub(super) activity: Arc<Activity>,
    pub(super) account: Arc<Account>,
    /// A permit for each large request that may be answered at a time.
    permits: Arc<Semaphore>,
}

impl ConnectionState {
    pub(super) fn new(activity: Arc<Activity>, account: Arc<Account>) -> Self {
        Self { activity, account, permits: Arc::new(Semaphore::new(LARGE_AT_ONCE)) }
    }

    /// The claims of a new request.
    ///
    /// # Errors
    /// Returns a problem if the connection, or all connections together, keep too many bytes
    /// already.
    pub(super) fn begin(&self) -> Result<RequestClaims, RequestRefusal> {
        let kept = self.account.take(REQUEST_BYTES).ok_or_else(too_much)?;
        Ok(RequestClaims {
            activity: Arc::clone(&self.activity),
            permits: Arc::clone(&self.permits),
            holdings: Arc::new(Mutex::new(Holdings {
                under_way: Some(self.activity.begin()),
                permit: None,
                kept: Some(kept),
                has_body: false,
            })),
        })
    }
}

/// The claims of one request.
#[derive(Clone)]
pub(super) struct RequestClaims {
    activity: Arc<Activity>,
    permits: Arc<Semaphore>,
    holdings: Arc<Mutex<Holdings>>,
}

/// The parts of a request's claims, until each is over.
struct Holdings {
    /// Counts the request as use of its connection.
    under_way: Option<RequestUnderWay>,
    /// The permit of a large request, while it is decided and its answer read.
    permit: Option<OwnedSemaphorePermit>,
    /// The bytes that count against the connection; `None` once the request is answered.
    kept: Option<KeptBytes>,
    /// True if its body has been read to its end.
    has_body: bool,
}

/// The claims that last until the answer is read.
#[derive(Default)]
pub(super) struct AnswerClaims {
    pub(super) kept: Option<KeptBytes>,
    _permit: Option<OwnedSemaphorePermit>,
    _under_way: Option<RequestUnderWay>,
}

impl RequestClaims {
    /// Takes the claims out of a request, if it came over a connection.
    pub(super) fn take_from(request: &mut HttpRequest) -> Option<Self> {
        request.extensions_mut().remove()
    }

    /// Claims the bytes of a part of the body.
    ///
    /// # Errors
    /// Returns a problem if the connection, or all connections together, keep too many bytes
    /// already.
    pub(super) fn keep(&self, bytes: usize) -> Result<(), RequestRefusal> {
        let fits = self.holdings().kept.as_mut().is_none_or(|kept| kept.add(bytes));
        if fits { Ok(()) } else { Err(too_much()) }
    }

    /// Claims the bytes of the answer before it is made. The claim of the request's body counts towards it, because the
    /// body is gone by then.
    ///
    /// # Errors
    /// Returns a problem as [`Self::keep`] does.
    pub(super) fn keep_answer(&self, bytes: usize) -> Result<(), RequestRefusal> {
        let mut holdings = self.holdings();
        let fits = holdings
            .kept
            .as_mut()
            .is_none_or(|kept| kept.bytes() >= bytes || kept.resize(REQUEST_BYTES + bytes));
        if fits { Ok(()) } else { Err(too_much()) }
    }

    /// Claims the bytes of a number of questions whose answers name so many rules in all.
    ///
    /// # Errors
    /// Returns a problem as [`Self::keep`] does.
    pub(super) fn keep_answers(
        &self,
        questions: usize,
        rules: usize,
    ) -> Result<(), RequestRefusal> {
        let of_questions = questions.saturating_mul(QUESTION_BYTES);
        self.keep(of_questions.saturating_add(rules.saturating_mul(RULE_BYTES)))
    }

    /// Waits for the turn of a request with a body of `bytes`. The waiting request does not count
    /// as use of the connection.
    pub(super) async fn wait_for_turn(&self, bytes: usize) {
        if bytes <= LARGE_BYTES {
            return;
        }
        // Otherwise requests that never get a turn would keep a connection from being idle.
        self.stop_counting();
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let mut holdings = self.holdings();
        // The lock is taken after the wait: a lock that is held across an `await` would stop the other claims of this
        // request.
        holdings.under_way = Some(self.activity.begin());
        holdings.permit = permit;
    }

    /// Stops counting as under way, although a part of the request has not arrived.
    pub(super) fn stop_counting(&self) {
        let under_way = self.holdings().under_way.take();
        // Dropped outside of the lock, because it may wake the connection.
        drop(under_way);
    }

    /// Notes that the body has been read to its end.
    pub(super) fn note_body(&self) {
        self.holdings().has_body = true;
    }

    /// Returns whether the body has been read to its end.
    pub(super) fn has_body(&self) -> bool {
        self.holdings().has_body
    }

    /// Ends the request with an answer: returns it with the claims that last until it is read. An
    /// answer that does not fit is replaced by a problem.
    pub(super) fn answered(self, answer: HttpResponse) -> (HttpResponse, AnswerClaims) {
        let length = answer.body().len();
        if length.is_some() {
            // The rest depends on the client alone, and an unread answer is no use of a connection.
            self.stop_counting();
        }
        let mut holdings = self.holdings();
        let permit = holdings.permit.take();
        let mut kept = holdings.kept.take();
        // A stream of events is under way until its end.
        let under_way = holdings.under_way.take();
        // A short answer takes the space of its request, which is over: it may be about a change that is done, and must not
        // be replaced by an error.
        let length = length.filter(|length| *length > SHORT_BYTES);
        let bytes = REQUEST_BYTES + length.unwrap_or_default();
        let fits = kept.as_mut().is_none_or(|kept| kept.resize(bytes));
        let answer = if fits { answer } else { too_much().into_response() };
        (answer, AnswerClaims { kept, _permit: permit, _under_way: under_way })
    }

    fn holdings(&self) -> MutexGuard<'_, Holdings> {
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn too_much() -> RequestRefusal {
    RefusalKind::TooMuchUnread.because(TOO_MUCH)
}
