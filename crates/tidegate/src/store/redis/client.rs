//! The store as decisions see it: one deadline, a bound on what is under way, and a breaker.

use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use super::audit::Told;
use super::breaker::Breaker;
use super::error::{StoreError, Symptom};
use super::event::{Observer, StoreEvent};
use super::keys::slot_of;
use super::link::{Access, Link};
use super::probe;
use super::script::{Reply, Script};
use crate::store::settings::StoreSettings;

/// How long doubtful answers of a cluster are borne since somebody was answered, before it is left alone.
const PATIENCE_US: u64 = 1_000_000;

/// Decisions that were not taken for the same kind of reason are told of so far apart.
const TOLD_AGAIN_US: u64 = 60_000_000;

/// How the store was found when it was last looked at: not yet, fit, or why not.
pub(super) type Found = Option<Result<(), StoreError>>;

/// A store that is connected to, left alone while it is away, and looked after.
#[derive(Clone)]
pub(crate) struct Client(pub(super) Arc<Shared>);

/// What requests and the one that looks after the store share.
pub(super) struct Shared {
    pub(super) settings: StoreSettings,
    pub(super) breaker: Breaker<Link>,
    pub(super) observer: Observer,
    pub(super) found: watch::Sender<Found>,
    pub(super) told: Mutex<Told>,
    /// When it was told last that a decision was not taken, for each kind of reason.
    undecided: Mutex<Vec<(Discriminant<StoreError>, u64)>>,
    in_flight: Semaphore,
    pub(super) deadline: Duration,
    began: Instant,
    pub(super) runtime: Handle,
}

impl Shared {
    /// Since it began.
    pub(super) fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Client {
    /// Begins to connect; needs a tokio runtime around it.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`]: nothing has begun.
    pub(crate) fn begin(settings: StoreSettings, observer: Observer) -> Result<Self, StoreError> {
        // Looked up anew for each connection; what is missing from the start is a mistake.
        Access::of(&settings)?;
        let deadline = Duration::from_micros(settings.timeout.as_micros());
        let patience_us = if settings.url.is_cluster() { PATIENCE_US } else { 0 };
        let shared = Arc::new(Shared {
            breaker: Breaker::open(patience_us),
            observer,
            found: watch::Sender::new(None),
            told: Mutex::default(),
            undecided: Mutex::default(),
            in_flight: Semaphore::new(settings.max_in_flight),
            deadline,
            began: Instant::now(),
            runtime: Handle::current(),
            settings,
        });
        probe::begin(&shared, None);
        Ok(Self(shared))
    }

    pub(crate) fn settings(&self) -> &StoreSettings {
        &self.0.settings
    }

    /// Ends when the store was looked at for the first time: whether it is fit.
    pub(crate) async fn first_found(&self) -> Result<(), StoreError> {
        self.until(|found| found.clone()).await
    }

    /// Ends when the store is found fit.
    pub(crate) async fn fit(&self) {
        let fit = |found: &Found| matches!(found, Some(Ok(()))).then_some(());
        self.until(fit).await;
    }

    /// Ends when the store is found away: at once, while it is.
    pub(crate) async fn lost(&self) {
        let lost = |found: &Found| matches!(found, Some(Err(_))).then_some(());
        self.until(lost).await;
    }

    async fn until<T>(&self, told: impl Fn(&Found) -> Option<T>) -> T {
        let mut found = self.0.found.subscribe();
        loop {
            if let Some(told) = told(&found.borrow_and_update()) {
                return told;
            }
            if found.changed().await.is_err() {
                // The sender is `self.0`'s own: it lives as long as this is borrowed.
                std::future::pending::<()>().await;
            }
        }
    }

    /// When a decision that begins now must have ended.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.0.deadline
    }

    /// Runs a script over keys.
    ///
    /// # Errors
    /// The store gave no answer by `deadline`, or was not even asked.
    pub(crate) async fn run(
        &self,
        script: &Script,
        keys: &[Vec<u8>],
        args: &[Vec<u8>],
        deadline: Instant,
    ) -> Result<Reply, StoreError> {
        let shared = &self.0;
        let _permit = shared.in_flight.try_acquire().map_err(|_| StoreError::TooManyInFlight)?;
        let (mut link, number) = shared.breaker.link()?;
        let shards = link.shards();
        let shard = shards.as_ref().zip(keys.first()).and_then(|(all, key)| all.get(slot_of(key)));
        if shard.is_some_and(|shard| !shard.is_asked(shared.now_us())) {
            return Err(StoreError::Away);
        }
        let asked = timeout_at(deadline, evaluate(&mut link, script, keys, args)).await;
        let told = match asked {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(StoreError::of(&error)),
            Err(_) => Err(StoreError::Timeout),
        };
        // Only the breakers of a cluster know of time.
        let at_us = if shards.is_some() { shared.now_us() } else { 0 };
        if let Some(shard) = shard
            && let Some(event) = shard.note(told.as_ref().err(), at_us)
        {
            (shared.observer)(event);
        }
        self.note(number, told.as_ref().err(), at_us);
        told.and_then(reply)
    }

    /// Tells of a decision that was not taken, where that says nothing of the store.
    pub(crate) fn note_undecided(&self, error: &StoreError, key: &[u8]) {
        let of_cluster = self.0.settings.url.is_cluster();
        if error.symptom(of_cluster) != Symptom::None || *error == StoreError::Away {
            return;
        }
        let (kind, now_us) = (discriminant(error), self.0.now_us());
        let mut told = self.0.undecided.lock().unwrap_or_else(PoisonError::into_inner);
        match told.iter_mut().find(|(told, _)| *told == kind) {
            Some((_, at_us)) if now_us.saturating_sub(*at_us) < TOLD_AGAIN_US => return,
            Some((_, at_us)) => *at_us = now_us,
            None => told.push((kind, now_us)),
        }
        drop(told);
        (self.0.observer)(StoreEvent::Undecided { key, error });
    }

    fn note(&self, number: u64, error: Option<&StoreError>, at_us: u64) {
        let of_cluster = self.0.settings.url.is_cluster();
        if self.0.breaker.note(number, error.map(|error| error.symptom(of_cluster)), at_us)
            && let Some(error) = error
        {
            self.0.found.send_replace(Some(Err(error.clone())));
            (self.0.observer)(StoreEvent::Lost(error));
            probe::begin(&self.0, Some(error.clone()));
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

/// Runs a script by its digest, or, where the server does not know it (any more), by its text, from
/// which it learns it. Nothing else is ever sent again, for it may have been run.
async fn evaluate(
    link: &mut Link,
    script: &Script,
    keys: &[Vec<u8>],
    args: &[Vec<u8>],
) -> Result<Value, RedisError> {
    match link.send(&command("EVALSHA", &script.sha1, keys, args)).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            Box::pin(link.send(&command("EVAL", &script.text, keys, args))).await
        }
        told => told,
    }
}

/// Runs a script both ways, to know that both may be gone.
pub(super) async fn by_text_and_digest(
    link: &mut Link,
    script: &Script,
    keys: &[Vec<u8>],
) -> Result<Value, RedisError> {
    link.send(&command("EVAL", &script.text, keys, &[])).await?;
    link.send(&command("EVALSHA", &script.sha1, keys, &[])).await
}

fn command(name: &str, script: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(keys.len()).arg(keys).arg(args);
    command
}

/// What a script answers, in the few kinds of reply that a script has.
fn reply(value: Value) -> Result<Reply, StoreError> {
    match value {
        Value::Nil => Ok(Reply::Nil),
        Value::Int(number) => Ok(Reply::Int(number)),
        Value::BulkString(bytes) => Ok(Reply::Bytes(bytes)),
        Value::Array(parts) => {
            Ok(Reply::Array(parts.into_iter().map(reply).collect::<Result<_, _>>()?))
        }
        other => Err(StoreError::Answer(format!("{other:?}"))),
    }
}
