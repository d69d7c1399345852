//! Polls futures in place first, and spawns a task only for those that have to wait.
//!
//! A decision in memory waits for nothing, and a task for each call would cost more than the
//! decision.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hyper::rt::Executor;

use crate::listener::{Watched, source};

/// Polls a future once and spawns it if it is not done; the task ends if its answer is not taken
/// for this long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inline(pub(super) Duration);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Inline {
    fn execute(&self, future: F) {
        let mut future = Watched::new(future, self.0);
        // A task polls the future again immediately, and registers its own waker then.
        if Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
            tokio::spawn(source::carried(future));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
}
