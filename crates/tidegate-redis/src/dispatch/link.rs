//! A connection to one shard, and the scripts that its server has.

use std::collections::{HashSet, VecDeque};

use redis::Cmd;
use redis::aio::MultiplexedConnection;
use tokio::time::Instant;

use super::pending::Pending;
use crate::route::{Delivered, Route, command};
use crate::script::JoinedScript;

/// A new connection to a server, and the id of this run of the server, if it tells.
pub(super) struct FoundServer {
    pub(super) connection: MultiplexedConnection,
    pub(super) run_id: Option<String>,
}

/// A connection that many calls share.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) route: Route,
    /// Which of the shard's connections it is: late errors of an earlier one do not count against
    /// it.
    pub(super) number: u64,
    /// When each write that is not yet answered was sent, earliest first.
    pub(super) sent_at: VecDeque<Instant>,
    /// True if a write waits for the end of a quiet connection to be noticed: no other write may overtake it.
    pub(super) holds_writes: bool,
    /// When its last reply came, by the real clock.
    pub(super) heard_at: Instant,
    /// Limiters that they decide.
    pub(super) limiters: usize,
    /// The scripts, by digest, whose text was sent over it. One that the server has forgotten
    /// nevertheless costs another round trip, and is decided later than its write.
    known: HashSet<String>,
    /// True if the server has told its id.
    pub(crate) tells_id: bool,
}

impl Link {
    /// The connection with this number, to the server with that number.
    pub(crate) fn new(connection: MultiplexedConnection, number: u64, server: u64) -> Self {
        Self {
            route: Route::new(connection, server),
            number,
            sent_at: VecDeque::new(),
            holds_writes: false,
            heard_at: Instant::now(),
            limiters: 0,
            known: HashSet::new(),
            tells_id: true,
        }
    }

    /// Returns whether a request may be sent over it. A request that only another server may run is answered.
    pub(super) fn may_run(&self, request: &Pending) -> bool {
        let may_run = request.asked.may_run_at(self.route.server());
        if !may_run {
            let reply = request.asked.lost();
            request.reply(Ok(Delivered { reply, route: self.route.clone() }));
        }
        may_run
    }

    /// The command that runs a script: by its text the first time, by its digest from then on.
    pub(crate) fn command(
        &mut self,
        script: &JoinedScript,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
    ) -> Cmd {
        if self.known.contains(&script.sha1) {
            return command("EVALSHA", &script.sha1, keys, args);
        }
        self.known.insert(script.sha1.clone());
        command("EVAL", &script.text, keys, args)
    }

    /// Notes that the server has forgotten its scripts.
    pub(crate) fn forget_scripts(&mut self) {
        self.known.clear();
    }
}
