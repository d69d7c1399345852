//! SIGHUP: files are read again, so that new contents need no restart. `cli/serve.rs` says which files; the
//! configuration, certificates and tokens are among them.

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// One kind of files that are read again, on a thread that may block.
pub(crate) type Again = std::sync::Arc<dyn Fn() + Send + Sync>;

/// Reads all files again whenever the process gets SIGHUP, all kinds at a time: a file that hangs
/// delays only the next signal, until it is given up. The signal is handled also if there is nothing
/// to read, because it would end the process otherwise.
pub(crate) fn on_hangup(files: Vec<Again>) {
    match signal(SignalKind::hangup()) {
        Ok(mut hangups) => {
            tokio::spawn(async move {
                while hangups.recv().await.is_some() {
                    let mut reads = JoinSet::new();
                    for again in files.iter().cloned() {
                        reads.spawn_blocking(move || again());
                    }
                    // All end before the next signal is heard: old contents never replace new contents. A panic is
                    // logged where it happens.
                    while reads.join_next().await.is_some() {}
                }
            });
        }
        Err(error) => {
            tracing::warn!(%error, "cannot listen for SIGHUP: certificates and tokens need a restart");
        }
    }
}
