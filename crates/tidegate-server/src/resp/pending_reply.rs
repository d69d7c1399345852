//! A command that has to wait, with all its data, so that its connection can go on reading. `connection.rs` makes one
//! for each command that answers [`CommandOutcome::Later`](super::session::CommandOutcome), and waits for all
//! together.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::args::{Args, OwnedArgs};
use super::reply::{Proto, RespReply};
use super::session::Session;
use super::state::ListenerState;
use super::table::{self, CommandVerb};
use super::{check, reserve, throttle, undo};
use crate::audit::Changer;
use crate::limiters;
use crate::refusal::RequestRefusal;

/// The length that most replies do not pass, in bytes.
const USUAL: usize = 384;

/// A pending reply.
#[derive(Debug)]
pub(super) enum PendingReply {
    /// The reply of a command that waits for a limiter or for the store.
    Asked { state: Arc<ListenerState>, proto: Proto, args: OwnedArgs, by: Changer },
    /// The known reply of a later command, which must wait its turn.
    Known(Vec<u8>),
}

impl PendingReply {
    pub(super) fn asked(session: &Session, args: Args<'_>) -> Self {
        // The key of a call is bytes, which no rule reads.
        let has_bytes = verb(&args) == Some(CommandVerb::Throttle);
        let args = if has_bytes { args.into() } else { args.to_texts() };
        let state = Arc::clone(&session.state);
        // The client is named now: its connection may authenticate as another before the reply.
        Self::Asked { state, proto: session.proto, args, by: session.changer() }
    }

    /// The verb of a command that waits.
    pub(super) fn verb(&self) -> Option<CommandVerb> {
        match self {
            Self::Asked { args, .. } => verb(&args.as_args()),
            Self::Known(_) => None,
        }
    }

    /// The reply, when it is ready; a panic results in a reply as well.
    pub(super) async fn reply(self) -> Vec<u8> {
        let (state, proto, args, by) = match self {
            Self::Known(reply) => return reply,
            Self::Asked { state, proto, args, by } => (state, proto, args, by),
        };
        let args = args.as_args();
        let decided = decided(&state, proto, &args, &by);
        let replied = AssertUnwindSafe(decided).catch_unwind().await;
        replied.unwrap_or_else(|_| {
            let mut out = Vec::new();
            internal(&mut RespReply::new(&mut out, proto));
            out
        })
    }
}

fn verb(args: &Args<'_>) -> Option<CommandVerb> {
    table::find(args.word(0)).map(|command| command.verb)
}

/// Runs a command that waited, and returns its reply.
async fn decided(state: &ListenerState, proto: Proto, args: &Args<'_>, by: &Changer) -> Vec<u8> {
    let decider = &state.decider;
    let mut out = Vec::with_capacity(USUAL);
    let mut reply = RespReply::new(&mut out, proto);
    match verb(args) {
        Some(CommandVerb::Throttle) => throttle::later(state, args, &mut reply).await,
        Some(CommandVerb::Reserve) => reserve::reserve(decider, args, &mut reply).await,
        Some(CommandVerb::Settle) => reserve::settle(decider, args, &mut reply).await,
        Some(CommandVerb::Renew) => reserve::renew(decider, args, &mut reply).await,
        Some(CommandVerb::Refund) => {
            refused(undo::refund(decider, by, args, &mut reply).await, &mut reply)
        }
        Some(CommandVerb::ResetLimiters) => {
            refused(undo::reset(decider, by, args, &mut reply).await, &mut reply)
        }
        Some(CommandVerb::Peek) => {
            check::later(decider, limiters::RequestVerb::Peek, args, &mut reply).await
        }
        // Only commands that `dispatch.rs` lets wait come here, so the rest are checks.
        _ => check::later(decider, limiters::RequestVerb::Check, args, &mut reply).await,
    }
    out
}

fn refused(done: Result<(), RequestRefusal>, reply: &mut RespReply<'_>) {
    if let Err(why) = done {
        reply.refuse(&why);
    }
}

/// The reply to a request that panicked; the log has the details.
pub(super) fn internal(reply: &mut RespReply<'_>) {
    reply.error("ERR internal error: this request failed, and the log of the server says where");
}
