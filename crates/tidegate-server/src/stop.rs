//! The phases of stopping: drain, then end all waits; a second request ends the process immediately. Listeners, connections
//! and waiting requests each hold a [`Stop`] and wait for their phase.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::failure::Failure;

/// A phase; the phases follow each other, and none comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Running,
    /// No connections are accepted, and requests under way are answered.
    Draining,
    /// Requests stop waiting for limiters, which leaves time to answer them.
    Refusing,
    /// Nothing is waited for.
    Ending,
}

/// Notifies all holders of a copy when to stop.
#[derive(Clone, Debug)]
pub(crate) struct Stop(watch::Receiver<Phase>);

impl Stop {
    /// Listens for SIGTERM and SIGINT. It must be called inside the runtime. Requests may wait for a
    /// limiter for `patience` after the drain begins, which takes `drain` at most.
    ///
    /// # Errors
    /// Returns an error if the system does not let the process listen for signals.
    pub(crate) fn on_signals(patience: Duration, drain: Duration) -> Result<Self, Failure> {
        let mut signals = [listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?];
        let (phase, seen) = watch::channel(Phase::Running);
        tokio::spawn(async move {
            next(&mut signals).await;
            tracing::info!(
                ?drain,
                waits_end_after = ?patience,
                "stopping once what is under way is answered; a second signal stops at once, with exit code 1"
            );
            let _ = phase.send(Phase::Draining);
            tokio::select! {
                () = next(&mut signals) => {}
                () = sleep(patience) => {
                    let _ = phase.send(Phase::Refusing);
                    // The listeners end the drain by themselves; only a second signal ends it earlier.
                    next(&mut signals).await;
                }
            }
            let _ = phase.send(Phase::Ending);
        });
        Ok(Self(seen))
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.0.borrow() >= Phase::Draining
    }

    /// Returns whether the process was asked a second time.
    pub(crate) fn is_ending(&self) -> bool {
        *self.0.borrow() >= Phase::Ending
    }

    /// Returns whether requests must stop waiting.
    pub(crate) fn refuses_waits(&self) -> bool {
        *self.0.borrow() >= Phase::Refusing
    }

    /// Returns when the process drains; immediately from then on.
    pub(crate) async fn draining(&mut self) {
        let _ = self.0.wait_for(|phase| *phase >= Phase::Draining).await;
    }

    /// Returns when requests must stop waiting; the rest of the time is for answering them.
    pub(crate) async fn refusing(&mut self) {
        let _ = self.0.wait_for(|phase| *phase >= Phase::Refusing).await;
    }

    /// Returns when the process was asked to stop a second time.
    pub(crate) async fn ending(&mut self) {
        let _ = self.0.wait_for(|phase| *phase >= Phase::Ending).await;
    }
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(format!("cannot listen for signals: {error}")))
}

/// Waits for either signal.
async fn next([one, other]: &mut [Signal; 2]) {
    tokio::select! {
        _ = one.recv() => {}
        _ = other.recv() => {}
    }
}

#[cfg(test)]
impl Stop {
    /// A process that stops when `Trigger::drain` is called.
    pub(crate) fn by_hand() -> (Trigger, Self) {
        let (phase, seen) = watch::channel(Phase::Running);
        (Trigger(phase), Self(seen))
    }
}
/// Stops a server in a test.
#[cfg(test)]
pub(crate) struct Trigger(watch::Sender<Phase>);

#[cfg(test)]
impl Trigger {
    pub(crate) fn drain(&self) {
        self.0.send_replace(Phase::Draining);
    }

    pub(crate) fn refuse(&self) {
        self.0.send_replace(Phase::Refusing);
    }
}
