//! What decides a replay: limiters in this process, or in a store.

use tidegate::{
    Answer, Descriptor, Micros, Policy, Request, SharedReplay, StoreError, StoreUrl, Timestamp,
};
use tidegate_lab::replay::Replay;
use tidegate_lab::trace::Event;
use tokio::runtime::{Builder, Runtime};

use super::Failure;
use crate::policy;

/// Longest that one decision of a replay in a store may take.
const PATIENCE: Micros = Micros::from_secs(10);

/// Limiters that begin as new and live by the trace's time.
pub(super) enum Decider {
    Here(Box<Replay>),
    Store { replay: Box<SharedReplay>, runtime: Runtime },
}

impl Decider {
    /// Limiters in the store at `store`, else in this process.
    ///
    /// # Errors
    /// The store can not be reached, or what can not be with a store.
    pub(super) fn new(policy: Policy, store: Option<&StoreUrl>) -> Result<Self, Failure> {
        let Some(url) = store else { return Ok(Self::Here(Box::new(Replay::new(policy)))) };
        let mut settings = policy::settings_over(&policy, url.clone());
        settings.timeout = PATIENCE;
        let built = Builder::new_current_thread().enable_all().build();
        let runtime =
            built.map_err(|error| Failure::new(format!("can not start the runtime: {error}")))?;
        let replay = runtime.block_on(async {
            let replay = SharedReplay::new(policy, settings)
                .map_err(|error| Failure::configuration(format!("tidegate: {error}")))?;
            let found = replay.gate().connected().await;
            found.map_err(|error| Failure::new(format!("--store {url}: {error}")))?;
            Ok::<_, Failure>(Box::new(replay))
        })?;
        Ok(Self::Store { replay, runtime })
    }

    /// Decides one request at the time it carries.
    ///
    /// # Errors
    /// The store gave no answer.
    pub(super) fn decide(&mut self, event: &Event) -> Result<Answer<'_>, Failure> {
        let (replay, runtime) = match self {
            Self::Here(replay) => return Ok(replay.decide(event)),
            Self::Store { replay, runtime } => (replay, runtime),
        };
        let entries = event.descriptor.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let entries: Vec<_> = entries.collect();
        let descriptors = [Descriptor::new(&entries).cost(event.cost)];
        let request = event.under_id(Request::new(&event.domain, &descriptors));
        let at = Timestamp::from_micros(event.at_us);
        runtime.block_on(replay.decide(&request, at)).map_err(away)
    }

    /// Leaves nothing behind.
    ///
    /// # Errors
    /// The store gave no answer, and some keys of the run are still there.
    pub(super) fn end(self) -> Result<(), Failure> {
        match self {
            Self::Here(_) => Ok(()),
            Self::Store { replay, runtime } => runtime.block_on(replay.end()).map_err(away),
        }
    }
}

fn away(error: StoreError) -> Failure {
    Failure::new(format!("the replay ended early: {error}"))
}
