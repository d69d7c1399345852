//! A wait for a clock, under any runtime or test.
//!
//! A `Timer` returns it, so that no caller names the future of a runtime.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// The future of a [`Timer`](super::Timer), which resolves when its time has come.
pub struct Sleep(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Sleep {
    /// A wait that ends when `timer`, the future of a runtime's timer, resolves.
    pub fn new(timer: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(timer))
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleep")
    }
}

/// A waker that unparks the calling thread.
pub fn unparks_this_thread() -> Waker {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    Waker::from(Arc::new(Unpark(thread::current())))
}
