//! Counts of events that clients can cause without bound, logged once a minute while `serve` runs: withheld log
//! lines, and wrong tokens. Reports of callers are in `limiters/reports.rs`.

use std::time::Duration;

use tokio::time::sleep;

use crate::listener::ListenerSecret;
use crate::logging::Log;

const MINUTE: Duration = Duration::from_secs(60);

/// The counters that are read.
pub(crate) struct Reports<'a> {
    pub(crate) log: &'a Log,
    /// The secret of the listeners for clients.
    pub(crate) clients: Option<ListenerSecret>,
    pub(crate) admin: Option<ListenerSecret>,
}

impl Reports<'_> {
    /// Logs the counts once a minute while `work` runs, and at its end.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> T {
        let every_minute = async {
            loop {
                sleep(MINUTE).await;
                self.report();
            }
        };
        let done = tokio::select! {
            done = work => done,
            never = every_minute => never,
        };
        self.report();
        done
    }

    fn report(&self) {
        self.log.log_withheld();
        let [clients, admin] = [&self.clients, &self.admin]
            .map(|secret| secret.as_ref().map_or(0, ListenerSecret::refused));
        if clients + admin > 0 {
            tracing::warn!(clients, admin, "calls were refused for want of a known token");
        }
    }
}
