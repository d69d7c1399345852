//! The shell of every connection, for any protocol: its bounds, the bytes that it keeps, and its end.
//! [`serve`](super::serve) makes one for each connection. HTTP and gRPC let [`Shell::run`] drive hyper; RESP and the
//! fast path of HTTP use its parts in loops of their own.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::patience::{ConnectionPatience, Over, looks};
use super::{Account, Activity, Bounds};
use crate::stop::Stop;

/// The time between the start of a drain and the shutdown of a connection, so that bytes that have
/// arrived are read before.
const BREATH: Duration = Duration::from_millis(10);

/// The bounds, the account and the stop signal of one connection, for the protocol that serves it.
#[derive(Clone, Debug)]
pub(crate) struct Shell {
    pub(crate) bounds: Bounds,
    pub(crate) account: Arc<Account>,
    pub(crate) stop: Stop,
}

impl Shell {
    /// Runs a connection of hyper to its end. An idle connection is `shut_down` gracefully, and so
    /// is one that `can_shut_down` when the process drains; a connection with a stalled client is
    /// cut.
    ///
    /// # Errors
    /// Returns the errors of the connection.
    pub(crate) async fn run<C, E>(
        mut self,
        connection: C,
        activity: &Activity,
        can_shut_down: impl Fn() -> bool,
        shut_down: impl Fn(Pin<&mut C>),
    ) -> Result<(), E>
    where
        C: Future<Output = Result<(), E>>,
    {
        let mut connection = pin!(connection);
        let mut patience = ConnectionPatience::of(self.bounds);
        let mut reads = looks(self.bounds.stalled / 2);
        let mut draining = false;
        let mut was_shut_down = false;
        let mut warned = false;
        loop {
            tokio::select! {
                // Bytes that have arrived are read before the connection is shut down.
                biased;
                ended = connection.as_mut() => return ended,
                () = self.stop.draining(), if !draining => draining = true,
                // Asked again and again, because the client may not have shown its version yet. Over HTTP/1.1 the
                // answer stays no: the stream itself ends the connection.
                () = sleep(BREATH), if draining && !was_shut_down => if can_shut_down() {
                    was_shut_down = true;
                    shut_down(connection.as_mut());
                },
                // A piece that a client does not take holds memory, even if other streams of its connection go on.
                _ = reads.tick() => if self.account.has_stalled() {
                    return Ok(());
                },
                () = patience.look() => {
                    let seen = activity.seen();
                    match patience.ends(seen) {
                        // Cut, because a graceful end would wait for the same client.
                        Some(Over::HeldUp) => return Ok(()),
                        // The client was asked to leave one check before, and has neither left nor sent a request.
                        _ if warned && !seen.is_used => return Ok(()),
                        Some(Over::Idle) => {
                            warned = true;
                            shut_down(connection.as_mut());
                        }
                        None => {}
                    }
                }
            }
        }
    }
}
