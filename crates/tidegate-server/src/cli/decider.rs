//! The decider of `tidegate replay`: limiters in this process or in a store.

use std::time::Duration;

use tidegate::{Answer, Policy, SharedReplay, StoreError, StoreUrl, Timestamp};
use tidegate_lab::replay::Replay;
use tidegate_lab::trace::Event;
use tokio::runtime::{Builder, Runtime};

use crate::failure::Failure;
use crate::policy;
use crate::stop::Stop;

/// The longest time that a single decision of a replay may take in a store.
const PATIENCE: Duration = Duration::from_secs(10);

/// Limiters that start fresh and use the time of the trace.
pub(super) enum ReplayDecider {
    Here(Box<Replay>),
    Store(Box<InStore>),
}

/// A replay in a store, which ends early, and cleanly, when the process is asked to stop.
pub(super) struct InStore {
    replay: SharedReplay,
    runtime: Runtime,
    stop: Stop,
}

impl ReplayDecider {
    /// Limiters in the store at `store`, else in this process.
    ///
    /// # Errors
    /// Returns an error if the store cannot be reached, or a rule cannot be kept in it.
    pub(super) fn new(policy: Policy, store: Option<&StoreUrl>) -> Result<Self, Failure> {
        let Some(url) = store else { return Ok(Self::Here(Box::new(Replay::new(policy)))) };
        let mut settings = policy::settings_over(&policy, url.clone());
        settings.timeout = PATIENCE;
        let built = Builder::new_current_thread().enable_all().build();
        let runtime =
            built.map_err(|error| Failure::new(format!("cannot start the runtime: {error}")))?;
        let (replay, stop) = runtime.block_on(async {
            let replay = SharedReplay::new(policy, settings).map_err(Failure::usage)?;
            let found = replay.gate().store().connected().await;
            found.map_err(|error| Failure::new(format!("--store {url}: {error}")))?;
            // Signals are caught from here on, before the run has any key that its end must remove.
            Ok::<_, Failure>((replay, Stop::on_signals(Duration::ZERO, Duration::ZERO)?))
        })?;
        Ok(Self::Store(Box::new(InStore { replay, runtime, stop })))
    }

    /// Decides one request at its recorded time.
    ///
    /// # Errors
    /// Returns an error if the store did not reply, or the process is asked to stop.
    pub(super) fn decide(&self, event: &Event<'_>) -> Result<Answer<'_>, Failure> {
        let InStore { replay, runtime, stop } = match self {
            Self::Here(replay) => return Ok(replay.decide(event)),
            Self::Store(in_store) => in_store.as_ref(),
        };
        let mut stop = stop.clone();
        let at = Timestamp::from_micros(event.at_us);
        event.request(
            || replay.gate().policy(),
            |request| {
                runtime.block_on(async {
                    tokio::select! {
                        // A stop comes before the next decision, which would write another key.
                        biased;
                        () = stop.draining() => Err(Failure::new("the replay was stopped before its end")),
                        answer = replay.decide(request, at) => answer.map_err(away),
                    }
                })
            },
        )
    }

    /// Removes the keys of this run, however far the replay came. The run knows them, so no other
    /// keys are read.
    ///
    /// # Errors
    /// Returns an error if the store did not reply; some keys of the run are then still there.
    pub(super) fn end(self) -> Result<(), Failure> {
        match self {
            Self::Here(_) => Ok(()),
            Self::Store(in_store) => {
                let InStore { replay, runtime, .. } = *in_store;
                let prefix = replay.gate().store().settings().key_prefix.clone();
                runtime.block_on(replay.end()).map_err(|error| {
                    Failure::new(format!(
                        "keys of this run are left in the store, which begin with `{prefix}`: {error}"
                    ))
                })
            }
        }
    }
}

fn away(error: StoreError) -> Failure {
    Failure::new(format!("the replay ended early: {error}"))
}
