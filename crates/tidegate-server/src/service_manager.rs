//! Notifications to a service manager such as systemd: the server is ready, the server stops. `cli/serve.rs`
//! runs the server within [`notify_during`].

use std::io;
use std::pin::pin;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::stop::Stop;

/// Longest time that a manager may take to receive a notification.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs `work` to its end. The manager is notified that the server is ready, and that it stops once it drains. Nothing
/// is sent unless the variable `NOTIFY_SOCKET` is set. If the first notification cannot be sent, the error is logged,
/// and the second notification is not tried.
pub(crate) async fn notify_during<T>(work: impl Future<Output = T>, mut stop: Stop) -> T {
    let mut work = pin!(work);
    let is_notified = tokio::select! {
        done = &mut work => return done,
        is_sent = send(NotifyState::Ready) => is_sent,
    };
    if !is_notified {
        return work.await;
    }
    tokio::select! {
        // Work that ends because of a stop may be done in the same moment: the manager is told all the same.
        biased;
        () = stop.draining() => {}
        done = &mut work => return done,
    }
    tokio::join!(work, send(NotifyState::Stopping)).0
}

/// Sends a notification on a thread that may block; returns whether that succeeded. A failure is
/// logged.
async fn send(state: NotifyState<'static>) -> bool {
    let sending = spawn_blocking(move || sd_notify::notify(&[state]));
    let sent = match timeout(PATIENCE, sending).await {
        Ok(Ok(sent)) => sent,
        Ok(Err(panicked)) => Err(io::Error::from(panicked)),
        Err(late) => Err(io::Error::from(late)),
    };
    if let Err(error) = &sent {
        tracing::warn!(%error, "the service manager cannot be notified (NOTIFY_SOCKET)");
    }
    sent.is_ok()
}
