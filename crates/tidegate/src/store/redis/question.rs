//! One call for the store's thread, and its reply.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::route::Delivered;
use super::script::Call;
use crate::store::StoreError;

/// The reason why there is no reply in time, and a channel for one that comes late.
#[derive(Debug)]
pub(crate) struct NoReply {
    pub(crate) error: StoreError,
    /// The late reply, if the store was asked.
    pub(crate) late: Option<LateReply>,
}

/// A reply that comes after its caller stopped waiting.
pub(crate) type LateReply = oneshot::Receiver<Result<Delivered, StoreError>>;

/// A reply in time, or the reason for none.
pub(crate) type Replied = Result<Delivered, NoReply>;

/// A call as it is handed to the store's thread.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) asked: Arc<Call>,
    pub(super) source: u64,
    pub(super) deadline: Instant,
    pub(super) answer: oneshot::Sender<Replied>,
}
