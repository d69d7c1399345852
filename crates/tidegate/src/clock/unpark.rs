//! A waker for a thread that is parked.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

/// A waker that unparks the calling thread.
pub(crate) fn unparks_this_thread() -> Waker {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    Waker::from(Arc::new(Unpark(thread::current())))
}
