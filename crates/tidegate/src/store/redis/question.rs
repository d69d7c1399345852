//! One call for the store's thread, and its reply.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::route::Delivered;
use super::script::{Call, JoinedScript};
use crate::store::StoreError;

/// A script and its arguments.
#[derive(Clone, Debug)]
pub(super) enum StoreCall {
    /// A step over limiters, which can be merged with others.
    Step(Arc<Call>),
    /// Any other script.
    Script { script: Arc<JoinedScript>, keys: Vec<Vec<u8>>, args: Vec<Vec<u8>> },
}

impl StoreCall {
    pub(super) fn script(&self) -> &Arc<JoinedScript> {
        match self {
            Self::Step(call) => &call.script,
            Self::Script { script, .. } => script,
        }
    }

    /// Returns whether it counts keys.
    pub(super) fn counts(&self) -> bool {
        matches!(self, Self::Step(call) if call.counts())
    }

    /// Returns whether it only asks whether a request goes on, which can be decided without the store.
    pub(super) fn only_asks(&self) -> bool {
        matches!(self, Self::Step(call) if call.only_asks())
    }

    /// Returns whether no caller waits for it: a lease that is asked for, or units that are given back.
    pub(super) fn is_background(&self) -> bool {
        matches!(self, Self::Step(call) if call.is_background())
    }

    pub(super) fn keys(&self) -> &[Vec<u8>] {
        match self {
            Self::Step(call) => &call.keys,
            Self::Script { keys, .. } => keys,
        }
    }

    pub(super) fn args(&self) -> &[Vec<u8>] {
        match self {
            Self::Step(call) => &call.args,
            Self::Script { args, .. } => args,
        }
    }
}

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
    pub(super) asked: StoreCall,
    pub(super) source: u64,
    pub(super) deadline: Instant,
    pub(super) answer: oneshot::Sender<Replied>,
}
