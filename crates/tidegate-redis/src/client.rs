//! The client of a store: it runs a script by a deadline, on a thread that serves no listener.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use tidegate_rules::shared::is_of_server;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use tokio::time::Instant;

use super::counts::RequestCounts;
use super::direct::DirectLinks;
use super::dispatch::run;
use super::inbox::{CheckResult, Inbox, NoReply, Question, Replied, StoreState};
use super::link::Credentials;
use super::script::{Call, RedisReply};
use crate::settings::StoreSettings;
use crate::store::{Host, OnEvent, StoreError, StoreEvent, StoreObserver};

/// A store that requests are sent to. Its connections, and the checks of a shard that is
/// unavailable, are on a thread of their own, which ends with the last clone.
#[derive(Clone)]
pub struct Client(pub(super) Arc<Ends>);

/// Ends the store's thread when it is dropped.
pub(super) struct Ends {
    shared: Arc<StoreState>,
    runtime: Handle,
    direct: Arc<DirectLinks>,
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.shared.inbox.close();
    }
}

/// Answers all waiting callers once the store's thread has ended, by a panic too.
struct Ended(Arc<StoreState>);

impl Drop for Ended {
    fn drop(&mut self) {
        // No call is sent without the thread, which judges whether the store is fit.
        self.0.fit_server.store(0, Relaxed);
        self.0.inbox.abandon();
    }
}

impl Client {
    /// Starts the store's thread, which connects.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] if a secret cannot be read, [`StoreError::Unreachable`] if the system starts
    /// no thread; nothing has begun then.
    pub fn begin(settings: StoreSettings, observer: StoreObserver) -> Result<Self, StoreError> {
        // Secrets are read again for each connection; a secret that is missing from the start is an error.
        Credentials::of(&settings)?;
        let observer: StoreObserver = Box::new(move |event| {
            // A panic of the observer must not end the thread.
            let _ = catch_unwind(AssertUnwindSafe(|| observer(event)));
        });
        let shared = Arc::new(StoreState::new(settings, observer));
        let runtime = start_thread(&shared)
            .map_err(|error| StoreError::Unreachable(format!("no thread for it: {error}")))?;
        let direct = DirectLinks::new(&shared, runtime.id());
        Ok(Self(Arc::new(Ends { shared, runtime, direct })))
    }

    /// The settings of the store.
    pub fn settings(&self) -> &StoreSettings {
        &self.0.shared.settings
    }

    pub(crate) fn counts(&self) -> &RequestCounts {
        &self.0.shared.counts
    }

    /// This process, whose tasks run on the store's thread.
    pub fn host(&self) -> Host {
        Host::on(self.0.runtime.clone(), self.0.shared.deadline)
    }

    /// The runtime of the store's thread.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.0.runtime
    }

    /// Returns a function that reports to the observer as long as the client is used. It does not keep the client.
    pub fn reporter(&self) -> OnEvent {
        let client = Arc::downgrade(&self.0);
        Arc::new(move |event: StoreEvent<'_>| {
            if let Some(ends) = client.upgrade() {
                Self(ends).report(event);
            }
        })
    }

    /// Reports an event to the observer.
    pub(crate) fn report(&self, event: StoreEvent<'_>) {
        (self.0.shared.observer)(event);
    }

    /// Resolves when every shard of the store was checked for the first time. Returns the error if no shard is fit.
    pub(crate) async fn first_found(&self) -> Result<(), StoreError> {
        self.until(|found| found.clone()).await
    }

    /// Resolves when the store is fit.
    pub(crate) async fn fit(&self) {
        self.until(|found| matches!(found, Some(Ok(()))).then_some(())).await;
    }

    /// Resolves when the store is unavailable: immediately, while it is.
    pub(crate) async fn lost(&self) {
        self.until(|found| matches!(found, Some(Err(_))).then_some(())).await;
    }

    async fn until<T>(&self, find: impl Fn(&CheckResult) -> Option<T>) -> T {
        let mut found = self.0.shared.found.subscribe();
        loop {
            if let Some(value) = find(&found.borrow_and_update()) {
                return value;
            }
            if found.changed().await.is_err() {
                // The sender is `self`'s own: it lives as long as this is borrowed.
                std::future::pending::<()>().await;
            }
        }
    }

    /// When a decision that begins now must have ended.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.0.shared.deadline
    }

    /// Sends a call as [`Inbox::ask`], or over a connection of this runtime if the store is idle; in either case after the
    /// calls of this runtime before it.
    pub(crate) fn ask(
        &self,
        call: &Arc<Call>,
        source: u64,
        deadline: Instant,
    ) -> oneshot::Receiver<Replied> {
        let (question, replied) = Question::new(call, source, deadline);
        self.0.direct.ask(question);
        replied
    }

    /// The way to the store's thread.
    pub(crate) fn inbox(&self) -> &Inbox {
        &self.0.shared.inbox
    }

    /// Runs a call that is no step of a request.
    ///
    /// # Errors
    /// The store did not reply by `deadline`, or was not asked.
    pub(crate) async fn run(
        &self,
        call: &Arc<Call>,
        deadline: Instant,
    ) -> Result<RedisReply, StoreError> {
        let replied = self.ask(call, 0, deadline).await;
        heard(replied).map(|answer| answer.reply).map_err(|no_reply| no_reply.error)
    }

    /// Runs a call that is not undone if its reply comes late, such as a reset.
    ///
    /// # Errors
    /// As [`Client::run`]. An error says that nothing was done only if the store was not asked: the caller may repeat the
    /// call then, and otherwise units might come back twice.
    pub(crate) async fn run_for_good(
        &self,
        call: &Arc<Call>,
        deadline: Instant,
    ) -> Result<RedisReply, StoreError> {
        let replied = heard(self.ask(call, 0, deadline).await);
        replied.map(|answer| answer.reply).map_err(|no_reply| match no_reply {
            NoReply { error: StoreError::Away | StoreError::Overloaded { .. }, late: Some(_) } => {
                StoreError::Timeout
            }
            NoReply { error, .. } => error,
        })
    }

    /// Notes a decision that was not taken for a reason that says nothing about the store.
    pub(crate) fn note_undecided(&self, error: &StoreError, key: &[u8]) {
        let is_known = matches!(error, StoreError::Away | StoreError::Overloaded { .. });
        if !is_of_server(error) && !is_known && self.0.shared.undecided(error) {
            self.report(StoreEvent::Undecided { key, error });
        }
    }
}

/// The result of a question; an error if it was dropped because the store's thread has ended.
pub(crate) fn heard(replied: Result<Replied, oneshot::error::RecvError>) -> Replied {
    replied.unwrap_or(Err(NoReply { error: StoreError::Away, late: None }))
}

/// Starts the store's thread, and returns its runtime.
fn start_thread(shared: &Arc<StoreState>) -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    let on_thread = Arc::clone(shared);
    // Dropped when the thread ends, or if it does not start.
    let ended = Ended(Arc::clone(shared));
    thread::Builder::new().name("tidegate-store".to_owned()).spawn(move || {
        let _ended = ended;
        LocalSet::new().block_on(&runtime, run(on_thread));
    })?;
    Ok(handle)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("settings", self.settings()).finish_non_exhaustive()
    }
}
