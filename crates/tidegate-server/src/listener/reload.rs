//! SIGHUP: reads certificates again, so that new ones need no restart.

use tokio::task::spawn_blocking;

use super::Tls;

/// Reads the files again whenever the process gets SIGHUP, one reading at a time and on a thread
/// that may block. Errors are logged, and the certificates read before stay in force. Without TLS
/// there is nothing to read, which is logged; the signal is handled nevertheless, because it would
/// end the process otherwise.
#[cfg(unix)]
pub(crate) fn on_hangup(tls: Option<Tls>) {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::hangup()) {
        Ok(mut hangups) => {
            tokio::spawn(async move {
                while hangups.recv().await.is_some() {
                    match tls.clone() {
                        // A panic is logged where it happens.
                        Some(tls) => drop(spawn_blocking(move || reload(&tls)).await),
                        None => {
                            tracing::info!(
                                "SIGHUP: without TLS there is nothing to read again; rules, tokens and settings need a restart"
                            )
                        }
                    }
                }
            });
        }
        Err(error) => {
            tracing::warn!(%error, "can not listen for SIGHUP: new certificates need a restart");
        }
    }
}

/// This system has no such signal.
#[cfg(not(unix))]
pub(crate) fn on_hangup(_: Option<Tls>) {}

#[cfg_attr(not(unix), allow(dead_code, reason = "nothing asks for it"))]
fn reload(tls: &Tls) {
    let certificate = tls.certificate().display();
    match tls.reload() {
        Ok(()) => tracing::info!(
            %certificate,
            "certificates are read again, with their keys and authorities; rules, tokens and settings need a restart"
        ),
        Err(error) => {
            tracing::error!(error, "certificates can not be used; those read before stay in force");
        }
    }
}
