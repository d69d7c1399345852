//! Polls futures in place first, and spawns a task only for those that have to wait.
//!
//! A decision in memory waits for nothing, and a task for each call would cost more than the
//! decision. Its answer wakes the connection, which is polled already and sends it next: such a
//! wake-up would only have the connection polled once more, with nothing to do. `connection.rs` gives hyper [`Inline`] as
//! its executor, and runs the connection of hyper within [`InlineConnection`].

use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use hyper::rt::Executor;
use tokio::io::AsyncWrite;

use super::gathered::Gathered;
use crate::listener::{WatchedStream, source};

thread_local! {
    /// The number of the connection that is polled, and of the connection that polls a call in place; 0 for none.
    static POLLED: Cell<usize> = const { Cell::new(0) };
    static CALLED: Cell<usize> = const { Cell::new(0) };
}

/// Polls a future once and spawns it if it is not done; the task ends if its answer is not taken
/// for this long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inline(pub(super) Duration);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Inline {
    fn execute(&self, future: F) {
        let mut future = WatchedStream::new(future, self.0);
        // A guard, because a panic in the call must not leave the mark of its connection set.
        let called = PolledInPlace::begin();
        // A task polls the future again immediately, and registers its own waker then.
        let polled = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop()));
        drop(called);
        if polled == Poll::Pending {
            tokio::spawn(source::carried(future));
        }
    }
}

/// A call that is polled in place, until this is dropped.
struct PolledInPlace;

impl PolledInPlace {
    fn begin() -> Self {
        CALLED.set(POLLED.get());
        Self
    }
}

impl Drop for PolledInPlace {
    fn drop(&mut self) {
        CALLED.set(0);
    }
}

/// A connection of hyper that is not woken by the calls that it polls in place, because it goes on
/// after each of them until it has nothing more to do. Then it sends all their answers together.
pub(super) struct InlineConnection<C, S> {
    connection: Pin<Box<C>>,
    stream: Gathered<S>,
    /// True if other tasks had their turn since it had something to send.
    has_yielded: bool,
    /// The waker of its task, and the waker that it is polled with, which has its number.
    task: Waker,
    quiet: Waker,
    number: usize,
}

impl<C, S> InlineConnection<C, S> {
    /// A connection that writes to `stream`.
    pub(super) fn new(connection: C, stream: Gathered<S>) -> Self {
        Self {
            connection: Box::pin(connection),
            stream,
            has_yielded: false,
            task: Waker::noop().clone(),
            quiet: Waker::noop().clone(),
            number: 0,
        }
    }

    pub(super) fn inner(&mut self) -> Pin<&mut C> {
        self.connection.as_mut()
    }
}

impl<C: Future, S: AsyncWrite + Unpin> Future for InlineConnection<C, S> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let this = self.get_mut();
        // A waker is made once for a task, and not for each poll. Its address is its number.
        if this.number == 0 || !this.task.will_wake(cx.waker()) {
            let quiet = Arc::new(Quiet(cx.waker().clone()));
            this.task.clone_from(cx.waker());
            this.number = quiet.number();
            this.quiet = quiet.into();
        }
        // Never reset: a call begins only while a connection is polled, which sets its own number first.
        POLLED.set(this.number);
        let polled = this.connection.as_mut().poll(&mut Context::from_waker(&this.quiet));
        if this.stream.has_unsent() {
            // Tasks that have a decision to answer run in between, and their answers join these. The second time the
            // bytes are sent, so that no answer waits for more than one turn of the other tasks.
            this.has_yielded = polled.is_pending() && !this.has_yielded;
            if this.has_yielded {
                cx.waker().wake_by_ref();
            } else {
                this.stream.send(cx);
            }
        }
        polled
    }
}

/// A waker that ignores the call that its connection polls in place.
struct Quiet(Waker);

impl Quiet {
    fn number(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }
}

impl Wake for Quiet {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // A call of this connection runs within its poll, which goes on to send the answer. Any other wake-up counts.
        if CALLED.get() != self.number() {
            self.0.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use tokio::io::{AsyncReadExt, Sink, duplex, sink};
    use tokio::sync::oneshot;

    const STALLED: Duration = Duration::from_secs(30);

    #[test]
    fn what_is_ready_needs_no_runtime() {
        let (done, mut seen) = oneshot::channel();
        Inline(STALLED).execute(async move { done.send(()).unwrap() });
        assert_eq!(seen.try_recv(), Ok(()));
    }

    #[tokio::test]
    async fn what_must_wait_is_woken_later() {
        let (go, wait) = oneshot::channel::<()>();
        let (done, seen) = oneshot::channel();
        Inline(STALLED).execute(async move {
            wait.await.unwrap();
            done.send(()).unwrap();
        });
        go.send(()).unwrap();
        seen.await.unwrap();
    }

    /// Counts how often it is woken.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    /// A connection that writes nothing.
    fn of<C: Future>(connection: C) -> InlineConnection<C, Sink> {
        InlineConnection::new(connection, Gathered::new(sink()))
    }

    #[tokio::test]
    async fn what_a_connection_writes_is_sent_when_other_tasks_had_their_turn() {
        let (one, mut other) = duplex(64);
        let (gathered, counting) = (Gathered::new(one), Arc::new(Counting::default()));
        let waker = Waker::from(Arc::clone(&counting));
        let mut io = gathered.clone();
        let mut writes = Vec::from([b"two", b"one"]);
        let connection = poll_fn(move |cx| {
            if let Some(bytes) = writes.pop() {
                assert!(Pin::new(&mut io).poll_write(cx, bytes).is_ready());
            }
            Poll::<()>::Pending
        });
        let mut connection = InlineConnection::new(connection, gathered.clone());
        let mut poll = || Pin::new(&mut connection).poll(&mut Context::from_waker(&waker));
        assert!(poll().is_pending() && gathered.has_unsent());
        assert_eq!(counting.0.load(Relaxed), 1, "it is polled once more");
        assert!(poll().is_pending() && !gathered.has_unsent());
        let mut read = [0; 6];
        other.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"onetwo");
        assert!(poll().is_pending());
        assert_eq!(counting.0.load(Relaxed), 1, "nothing is left to send");
    }

    #[test]
    fn a_call_in_place_does_not_wake_its_own_connection_but_any_other() {
        let counting = [(); 2].map(|()| Arc::new(Counting::default()));
        let [one, other] = [0, 1].map(|number: usize| Waker::from(Arc::clone(&counting[number])));
        let woken = || [0, 1].map(|number: usize| counting[number].0.load(Relaxed));
        let (give, given) = std::sync::mpsc::channel::<Waker>();
        // The other connection waits for an effect of this connection's call.
        let mut waits = of(poll_fn(|cx| {
            give.send(cx.waker().clone()).unwrap();
            Poll::<()>::Pending
        }));
        assert!(Pin::new(&mut waits).poll(&mut Context::from_waker(&other)).is_pending());
        let waiting = given.try_recv().unwrap();
        let mut calls = of(poll_fn(|cx| {
            let (own, waiting) = (cx.waker().clone(), waiting.clone());
            Inline(STALLED).execute(async move {
                own.wake_by_ref();
                waiting.wake();
            });
            Poll::<()>::Pending
        }));
        assert!(Pin::new(&mut calls).poll(&mut Context::from_waker(&one)).is_pending());
        assert_eq!(woken(), [0, 1]);
    }

    #[test]
    fn what_wakes_a_connection_after_a_call_does() {
        let counting = Arc::new(Counting::default());
        let waker = Waker::from(Arc::clone(&counting));
        let mut connection = of(poll_fn(|cx| {
            Inline(STALLED).execute(async {});
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        assert!(Pin::new(&mut connection).poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(counting.0.load(Relaxed), 1);
    }
}
