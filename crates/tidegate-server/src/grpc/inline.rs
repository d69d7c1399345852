//! Runs what is ready at once where it stands; only what must wait becomes a task.
//!
//! A decision in memory waits for nothing. A task for each call would cost more than the decision.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use hyper::rt::Executor;

/// Polls once, and hands what is not done to the runtime.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inline;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Inline {
    fn execute(&self, future: F) {
        let mut future: Pin<Box<F>> = Box::pin(future);
        // A task polls it again at once, and leaves its own waker then.
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
            tokio::spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[test]
    fn what_is_ready_needs_no_runtime() {
        let (done, mut seen) = oneshot::channel();
        Inline.execute(async move { done.send(()).unwrap() });
        assert_eq!(seen.try_recv(), Ok(()));
    }

    #[tokio::test]
    async fn what_must_wait_is_woken_later() {
        let (go, wait) = oneshot::channel::<()>();
        let (done, seen) = oneshot::channel();
        Inline.execute(async move {
            wait.await.unwrap();
            done.send(()).unwrap();
        });
        go.send(()).unwrap();
        seen.await.unwrap();
    }
}
