//! Accepts a bounded number of connections until asked to stop; then waits for the connections under way. This is the
//! first code that a request meets: `cli/listeners.rs` starts it once for each listener, and it hands every
//! connection to the [`Handler`] of its protocol, within a [`Shell`].

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use super::socket::Socket;
use super::source;
use super::stream::Transport;
use super::{AcceptOptions, Bounds, ByteBudget, Handler, Shell, Stream, Tls};
use crate::stop::Stop;

/// A pause for the system to recover when it cannot accept connections, for example because file
/// handles ran out.
const BREATH: Duration = Duration::from_millis(100);

/// Failures no further apart than this are one outage, and are logged once.
const OUTAGE: Duration = Duration::from_secs(60);

/// The outage that was logged last, if connections still cannot be accepted.
#[derive(Default)]
struct AcceptOutage {
    failed: Option<Instant>,
}

/// Reasons that keep a listener from accepting.
#[derive(Default)]
struct Outages {
    /// The listener has as many connections as allowed.
    full: AcceptOutage,
    /// The system refuses, for example because file handles ran out.
    refused: AcceptOutage,
}

impl AcceptOutage {
    /// Notes a failure; returns whether it begins an outage.
    fn is_new(&mut self, now: Instant) -> bool {
        let before = self.failed.replace(now);
        before.is_none_or(|before| now.duration_since(before) > OUTAGE)
    }
}

/// Serves `handler` until `stop`; returns how many connections were cut because they did not end in
/// time.
pub(crate) async fn serve(
    listener: TcpListener,
    options: AcceptOptions,
    handler: impl Handler,
    stop: Stop,
) -> usize {
    let Bounds { kept_bytes, kept_bytes_of_all, .. } = options.bounds;
    let budget = Arc::new(ByteBudget::of(kept_bytes, kept_bytes_of_all));
    serve_within(listener, options, handler, budget, stop).await
}

/// Like [`serve`], with a budget of bytes for all connections.
pub(crate) async fn serve_within<H: Handler>(
    listener: TcpListener,
    mut options: AcceptOptions,
    handler: H,
    budget: Arc<ByteBudget>,
    mut stop: Stop,
) -> usize {
    options.tls = options.tls.map(|tls| tls.speaking(H::PROTOCOLS, H::NEEDS_TLS));
    let permits = Arc::new(Semaphore::new(options.bounds.connections as usize));
    let mut outages = Outages::default();
    loop {
        let (stream, permit) = tokio::select! {
            // The stop comes first, so that a full queue of clients does not keep the listener accepting.
            biased;
            () = stop.draining() => break,
            next = next(&listener, &permits, &mut outages) => next,
        };
        begin(stream, permit, &options, &handler, &budget, &stop);
    }
    // A socket that was passed stays open, and its connections wait for the next server.
    let left = if options.is_passed { Vec::new() } else { waiting(listener, &permits) };
    for (stream, permit) in left {
        begin(stream, permit, &options, &handler, &budget, &stop);
    }
    drained(&permits, options.bounds, stop).await
}

/// Serves a connection, which holds its permit until it ends.
fn begin(
    stream: TcpStream,
    permit: OwnedSemaphorePermit,
    options: &AcceptOptions,
    handler: &impl Handler,
    budget: &Arc<ByteBudget>,
    stop: &Stop,
) {
    let tls = options.tls.clone();
    let handler = handler.clone();
    let shell = Shell { bounds: options.bounds, account: budget.open(), stop: stop.clone() };
    // Counted here and not in the task, which may begin late on a busy thread.
    let open = options.counts.accept();
    let listener = options.counts.listener;
    options.threads.serve(stream, move |stream| async move {
        // Released also if the connection ends by a panic.
        let _held = (permit, open);
        let peer = stream.peer_addr().ok();
        source::number(listener, peer, one(stream, tls, handler, shell)).await;
    });
}

/// Accepts the connections that already wait, as far as there are permits, so that their requests
/// are answered as well. No others are accepted afterwards.
fn waiting(
    listener: TcpListener,
    permits: &Arc<Semaphore>,
) -> Vec<(TcpStream, OwnedSemaphorePermit)> {
    let Ok(listener) = listener.into_std() else { return Vec::new() };
    let next = std::iter::from_fn(|| {
        let permit = Arc::clone(permits).try_acquire_owned().ok()?;
        // The socket does not block: the queue is empty when it would.
        let stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if only_theirs(&error) => {}
                Err(_) => return None,
            }
        };
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, permit))
    });
    next.collect()
}

/// The next connection, and its permit.
async fn next(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    outages: &mut Outages,
) -> (TcpStream, OwnedSemaphorePermit) {
    loop {
        // The permit comes first: until there is one, clients stay in the queue of the system.
        let permit = permit(listener, permits, &mut outages.full).await;
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(error) if only_theirs(&error) => tracing::debug!(%error, "a connection went away"),
            Err(error) => {
                if outages.refused.is_new(Instant::now()) {
                    tracing::warn!(%error, "cannot accept connections; goes on trying");
                }
                // File handles that ran out stay so for a while, and an accept that fails returns at once.
                sleep(BREATH).await;
            }
        }
    }
}

/// A permit for one more connection; logs a warning if it has to wait.
async fn permit(
    listener: &TcpListener,
    permits: &Arc<Semaphore>,
    full: &mut AcceptOutage,
) -> OwnedSemaphorePermit {
    if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
        return permit;
    }
    if full.is_new(Instant::now()) {
        let at = listener.local_addr().ok().map(tracing::field::display);
        tracing::warn!(
            at,
            "a listener holds as many connections as it may (--max-connections, or its share of the file \
             handles): more clients wait until one leaves"
        );
    }
    match Arc::clone(permits).acquire_owned().await {
        Ok(permit) => permit,
        // The semaphore is never closed.
        Err(_) => std::future::pending().await,
    }
}

/// Returns whether the error concerns only one connection, so that the next can be accepted immediately.
fn only_theirs(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// One connection, from its first byte to its last.
async fn one(stream: TcpStream, tls: Option<Tls>, handler: impl Handler, shell: Shell) {
    // Otherwise a small answer may wait for the acknowledgement of the answer before it.
    let _ = stream.set_nodelay(true);
    let stream = Socket::new(stream, shell.bounds.stalled);
    let stream = match tls {
        None => Some(Stream::from(Transport::Plain(stream))),
        Some(tls) => encrypted(stream, &tls, shell.bounds, shell.stop.clone()).await,
    };
    if let Some(stream) = stream {
        handler.serve(stream, shell).await;
    }
}

/// The stream after the handshake; `None` if that takes too long, or the process drains before,
/// when no request is under way yet.
async fn encrypted(stream: Socket, tls: &Tls, bounds: Bounds, mut stop: Stop) -> Option<Stream> {
    let agreed = tokio::select! {
        agreed = timeout(bounds.handshake, tls.accept(stream)) => agreed,
        () = stop.draining() => return None,
    };
    match agreed {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%error, "a client did not agree on TLS"),
        Err(_) => tracing::debug!("a client did not agree on TLS in time"),
    }
    None
}

/// Waits a bounded time until every permit is released; returns how many are not.
async fn drained(permits: &Semaphore, bounds: Bounds, mut stop: Stop) -> usize {
    tokio::select! {
        // All permits together are free only when no connection is left.
        _ = timeout(bounds.drain, permits.acquire_many(bounds.connections)) => {}
        () = stop.ending() => {}
    }
    (bounds.connections as usize).saturating_sub(permits.available_permits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::Threads;
    use crate::listener::testing::Server;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Echoes each byte; panics at `p`; ends when the client does.
    #[derive(Clone)]
    struct Echo;

    impl Handler for Echo {
        async fn serve(self, mut stream: Stream, _: Shell) {
            while let Ok(byte) = stream.read_u8().await {
                assert_ne!(byte, b'p', "asked to");
                stream.write_u8(byte).await.unwrap();
            }
        }
    }

    const SHORT: Duration = Duration::from_millis(30);

    async fn serving(bounds: Bounds, threads: Threads) -> Server {
        Server::of(
            Echo,
            AcceptOptions { bounds, threads, ..AcceptOptions::default() },
            Arc::default(),
        )
        .await
    }

    /// A connection that has been echoed to.
    async fn served(server: &Server) -> TcpStream {
        let mut stream = server.connect().await;
        stream.write_u8(b'a').await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'a');
        stream
    }

    #[tokio::test]
    async fn what_does_not_end_in_time_is_cut_and_counted() {
        for threads in Threads::of_both_kinds() {
            let bounds = Bounds { drain: SHORT, ..Bounds::default() };
            let server = serving(bounds, threads).await;
            let _stay = (served(&server).await, served(&server).await);
            server.stop.drain();
            assert_eq!(server.done.await.unwrap(), 2);
        }
    }

    /// Sends its client more than any system buffers.
    #[derive(Clone)]
    struct Talks;

    impl Handler for Talks {
        async fn serve(self, mut stream: Stream, _: Shell) {
            while stream.write_all(&[0; 64 << 10]).await.is_ok() {}
        }
    }

    #[tokio::test]
    async fn a_client_that_never_reads_does_not_keep_its_permit() {
        let bounds = Bounds { connections: 1, stalled: SHORT, ..Bounds::default() };
        let options = AcceptOptions { bounds, ..AcceptOptions::default() };
        let server = Server::of(Talks, options, Arc::default()).await;
        let _reads_nothing = server.connect().await;
        let mut next = server.connect().await;
        assert_eq!(next.read_u8().await.unwrap(), 0, "it has the place now");
    }

    #[tokio::test]
    async fn a_listener_at_its_cap_goes_on_once_a_permit_is_free() {
        for threads in Threads::of_both_kinds() {
            let bounds = Bounds { connections: 1, ..Bounds::default() };
            let server = serving(bounds, threads).await;
            let first = served(&server).await;
            let mut waiting = server.connect().await;
            waiting.write_u8(b'b').await.unwrap();
            drop(first);
            assert_eq!(waiting.read_u8().await.unwrap(), b'b');
        }
    }

    #[tokio::test]
    async fn a_connection_that_panics_releases_its_permit() {
        for threads in Threads::of_both_kinds() {
            let bounds = Bounds { connections: 1, ..Bounds::default() };
            let server = serving(bounds, threads).await;
            for _ in 0..3 {
                let mut stream = served(&server).await;
                stream.write_u8(b'p').await.unwrap();
                assert!(stream.read_u8().await.is_err());
            }
            server.stop.drain();
            assert_eq!(server.done.await.unwrap(), 0);
        }
    }

    #[tokio::test]
    async fn no_more_connections_are_served_concurrently_than_the_cap() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = listener.local_addr().unwrap();
        let permits = Arc::new(Semaphore::new(1));
        let _clients = (TcpStream::connect(at).await, TcpStream::connect(at).await);
        let outages = &mut Outages::default();
        let (_stream, permit) = next(&listener, &permits, outages).await;
        assert!(is_pending(next(&listener, &permits, outages)).await);
        drop(permit);
        drop(next(&listener, &permits, outages).await);
    }

    #[test]
    fn tries_that_fail_one_soon_after_the_other_are_one_outage() {
        let (mut outage, began) = (AcceptOutage::default(), Instant::now());
        assert!(outage.is_new(began));
        assert!(!outage.is_new(began + BREATH));
        assert!(!outage.is_new(began + BREATH + OUTAGE));
        assert!(outage.is_new(began + BREATH + 3 * OUTAGE));
    }

    /// Returns whether a future is pending when it is polled once, after every other task had its turn.
    async fn is_pending<T>(future: impl Future<Output = T>) -> bool {
        tokio::select! {
            biased;
            _ = future => false,
            () = tokio::task::yield_now() => true,
        }
    }
}
