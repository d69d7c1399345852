//! A wait for a clock, whatever runtime or test drives it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What a [`Timer`](crate::Timer) gives: a future that ends when its time has come.
pub struct Sleep(Pin<Box<dyn Future<Output = ()> + Send>>);

impl Sleep {
    /// A wait that ends when `timer`, the future of some runtime's timer, does.
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
