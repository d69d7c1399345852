//! The session of a connection: the state that its commands change, and the outcomes of commands. `connection.rs`
//! owns it, and `dispatch.rs` runs each command on it.

use std::sync::Arc;

use super::bounds::{AUTHENTICATED, InputBounds, UNAUTHENTICATED};
use super::call_limits::LastLimit;
use super::reply::Proto;
use super::state::ListenerState;
use super::tracking::Tracking;
use super::transaction::Transaction;
use crate::audit::Changer;
use crate::listener::{Given, Peer, ReachedAddress, Regrant};
use crate::verbs::PublicVerbs;

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandOutcome {
    /// The reply is written.
    Answered,
    /// The reply is written, and the connection ends.
    Ends,
    /// No reply is written: the command has to wait, for a limiter or for the store.
    Later,
}

/// The state of a connection that commands change.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) state: Arc<ListenerState>,
    pub(super) proto: Proto,
    /// True if the client has authenticated, or need not.
    pub(super) is_authenticated: bool,
    /// The verbs that the client may use.
    pub(super) verbs: PublicVerbs,
    /// The verbs of the connection, with any token.
    of_connection: PublicVerbs,
    /// The client by its certificate, if its name grants something.
    pub(super) peer: Option<Box<Peer>>,
    /// The token of the client, if one was needed.
    token: Option<Given>,
    /// Wrong tokens since the last right token.
    pub(super) wrong_tokens: u32,
    /// Decisions that were made at once.
    pub(super) decided: u64,
    /// The number of the connection, which `CLIENT ID` returns.
    pub(super) number: u64,
    /// The name that the client gave the connection; empty if it gave none.
    pub(super) name: Vec<u8>,
    pub(super) plans: LastLimit,
    /// The address at which the client has reached the server.
    pub(super) reached: ReachedAddress,
    /// The tracking that CLIENT TRACKING turned on.
    pub(super) tracking: Option<Box<Tracking>>,
    /// The commands since MULTI.
    pub(super) transaction: Option<Box<Transaction>>,
    /// Commands that are run before the rest of the input.
    pub(super) to_run: Vec<u8>,
}

impl Session {
    /// A session of a connection to this address, whose clients have these verbs.
    pub(super) fn begin(
        state: Arc<ListenerState>,
        of_connection: PublicVerbs,
        reached: ReachedAddress,
    ) -> Self {
        Self {
            proto: Proto::default(),
            is_authenticated: state.clients.secret.is_none(),
            verbs: of_connection,
            of_connection,
            peer: None,
            token: None,
            wrong_tokens: 0,
            decided: 0,
            number: state.begin(),
            name: Vec::new(),
            plans: LastLimit::default(),
            reached,
            tracking: None,
            transaction: None,
            to_run: Vec::new(),
            state,
        }
    }

    /// Lets in a client whose token grants these verbs.
    pub(super) fn authenticated(&mut self, granted: PublicVerbs, token: Option<Given>) {
        self.verbs = self.of_connection.and(granted);
        self.token = token;
        self.is_authenticated = true;
        self.wrong_tokens = 0;
    }

    /// Follows the tokens, which an operator may have changed: the client keeps what its token grants now.
    pub(super) fn follow_tokens(&mut self) {
        let Some(secret) = &self.state.clients.secret else { return };
        let Some(given) = &mut self.token else { return };
        match secret.granted_since(given) {
            Regrant::Unchanged => {}
            Regrant::Grants(verbs) => self.verbs = self.of_connection.and(verbs),
            Regrant::Gone => self.forget_token(),
        }
    }

    /// Forgets the token of the client.
    pub(super) fn forget_token(&mut self) {
        self.token = None;
        self.is_authenticated = self.state.clients.secret.is_none();
        self.verbs = self.of_connection;
    }

    /// The client as an audit names it.
    pub(super) fn changer(&self) -> Changer {
        let token = self.token.as_ref().map(Given::token);
        Changer::client(&self.state.clients, self.peer.as_deref().cloned(), token)
    }

    /// The bounds of its input and unread replies.
    pub(super) const fn bounds(&self) -> &'static InputBounds {
        if self.is_authenticated { &AUTHENTICATED } else { &UNAUTHENTICATED }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.state.end();
    }
}
