//! Accepts connections, so many at once, until asked to stop; then waits for those under way.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

use super::{Limits, connection};
use crate::stop::Stop;

/// What is left to the system to recover when it can not accept, for example for want of file handles.
const BREATH: Duration = Duration::from_millis(100);

/// Serves `router` until `stop`; answers how many connections were cut because they did not end in time.
pub(super) async fn serve(
    listener: TcpListener,
    router: Router,
    limits: Limits,
    mut stop: Stop,
) -> usize {
    let places = Arc::new(Semaphore::new(limits.connections as usize));
    loop {
        let (stream, place) = tokio::select! {
            biased;
            () = stop.draining() => break,
            next = next(&listener, &places) => next,
        };
        let served = connection::serve(stream, router.clone(), limits, stop.clone());
        tokio::spawn(async move {
            served.await;
            drop(place);
        });
    }
    drop(listener);
    drained(&places, limits, stop).await
}

/// The next connection, and its place among those that may be open at once.
async fn next(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    loop {
        let Ok(place) = Arc::clone(places).acquire_owned().await else {
            // Nobody closes the semaphore.
            return std::future::pending().await;
        };
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) if only_theirs(&error) => tracing::debug!(%error, "a connection went away"),
            Err(error) => {
                tracing::warn!(%error, "can not accept a connection");
                sleep(BREATH).await;
            }
        }
    }
}

/// Whether only the one connection is concerned, so that the next can be accepted at once.
fn only_theirs(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Waits until every place is free again, not for ever; answers how many are not.
async fn drained(places: &Semaphore, limits: Limits, mut stop: Stop) -> usize {
    tokio::select! {
        _ = timeout(limits.drain, places.acquire_many(limits.connections)) => {}
        () = stop.ending() => {}
    }
    (limits.connections as usize).saturating_sub(places.available_permits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::testing;
    use axum::routing::post;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn what_does_not_end_in_time_is_cut_and_counted() {
        let limits = Limits { drain: Duration::from_millis(30), ..Limits::default() };
        let routes = Router::new().route("/", post(|body: String| async { body }));
        let server = testing::serve(routes, limits).await;
        let mut stream = server.connect().await;
        let head =
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        // The answer to `expect` shows that the request is under way.
        stream.read_u8().await.unwrap();
        server.stop.drain();
        assert_eq!(server.done.await.unwrap(), 1);
    }

    #[tokio::test]
    async fn a_listener_at_its_cap_goes_on_once_a_place_is_free() {
        let limits = Limits { connections: 1, ..Limits::default() };
        let server = testing::serve(Router::new(), limits).await;
        let first = server.connect().await;
        let mut waiting = server.connect().await;
        waiting.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        drop(first);
        let answer = testing::until_closed(&mut waiting).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    }

    #[tokio::test]
    async fn no_more_connections_are_served_at_once_than_the_cap() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let places = Arc::new(Semaphore::new(1));
        let _clients = (TcpStream::connect(at).await, TcpStream::connect(at).await);
        let (_stream, place) = next(&listener, &places).await;
        assert!(is_pending(next(&listener, &places)).await);
        drop(place);
        drop(next(&listener, &places).await);
    }

    /// Whether a future is not ready when it is polled once, after everything else had its turn.
    async fn is_pending<T>(future: impl Future<Output = T>) -> bool {
        tokio::select! {
            biased;
            _ = future => false,
            () = tokio::task::yield_now() => true,
        }
    }
}
