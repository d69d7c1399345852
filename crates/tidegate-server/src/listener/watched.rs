//! Ends an HTTP/2 stream whose client does not take its answer. It is the executor of hyper for HTTP ([`WatchedTasks`]), and
//! gRPC wraps its calls in a [`WatchedStream`].
//!
//! hyper makes one future of each request: it waits for the answer, then for the client to take it,
//! piece by piece. If it is dropped before its end, it resets the stream. Its progress is not
//! visible from outside, so the service reports the beginning of the answer with [`answer_begins`],
//! and from then on each wake-up is progress.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::{Instant, Sleep, sleep};

use super::source;

thread_local! {
    /// True if the answer of the polled stream has begun.
    static BEGUN: Cell<bool> = const { Cell::new(false) };
}

/// Notes that the service of the polled stream has answered; the rest depends on the client alone.
pub(crate) fn answer_begins() {
    BEGUN.set(true);
}

/// A stream that ends when its answer has waited too long.
pub(crate) struct WatchedStream<F> {
    stream: Pin<Box<F>>,
    within: Duration,
    has_begun: bool,
    /// Runs while the answer waits for the client.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<F> WatchedStream<F> {
    pub(crate) fn new(stream: F, within: Duration) -> Self {
        Self { stream: Box::pin(stream), within, has_begun: false, stalled: None }
    }
}

impl<F: Future<Output = ()>> Future for WatchedStream<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        // Before the stream, which may end or make progress in the same poll.
        let stalled = this.stalled.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready());
        // One poll runs this stream alone, on one thread: a mark that is set when it returns is of this stream.
        BEGUN.set(false);
        if this.stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        this.has_begun |= BEGUN.get();
        if !this.has_begun {
            return Poll::Pending;
        }
        if stalled {
            tracing::debug!(within = ?this.within, "a client took nothing of an answer");
            return Poll::Ready(());
        }
        // A wake-up after the answer has begun means that the client has taken some of it: the time begins again.
        let timer = this.stalled.get_or_insert_with(|| Box::pin(sleep(this.within)));
        timer.as_mut().reset(Instant::now() + this.within);
        timer.as_mut().poll(cx)
    }
}

/// Runs each stream as a watched task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchedTasks(pub(crate) Duration);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for WatchedTasks {
    fn execute(&self, stream: F) {
        tokio::spawn(source::carried(WatchedStream::new(stream, self.0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::sync::Notify;
    use tokio::time::timeout;

    const WITHIN: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_answer_nobody_takes_is_dropped_and_one_that_is_decided_is_not() {
        let stalls = async {
            answer_begins();
            std::future::pending().await
        };
        let began = Instant::now();
        WatchedStream::new(stalls, WITHIN).await;
        assert_eq!(began.elapsed(), WITHIN);
        let waits = WatchedStream::new(std::future::pending(), WITHIN);
        assert!(timeout(100 * WITHIN, waits).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_taken_piece_by_piece_is_waited_for() {
        let taken = Arc::new(Notify::new());
        let pieces = Arc::clone(&taken);
        let stream = tokio::spawn(WatchedStream::new(
            async move {
                answer_begins();
                for _ in 0..5 {
                    pieces.notified().await;
                }
            },
            WITHIN,
        ));
        for _ in 0..5 {
            sleep(WITHIN - Duration::from_secs(1)).await;
            assert!(!stream.is_finished());
            taken.notify_one();
        }
        stream.await.unwrap();
    }
}
