//! Threads with connections of their own: one thread serves a connection from its first byte to its
//! last.
//!
//! `cli/serve.rs` makes the threads; [`serve`](super::serve) gives each accepted connection to one of them. Threads
//! that share work wake one another whenever one has several tasks, and take tasks from
//! each other. For many short tasks that costs more than it saves.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::runtime::{Handle, Runtime};

/// The threads that serve the connections of a listener.
#[derive(Clone, Debug, Default)]
pub(crate) enum Threads {
    /// The runtime that accepts connections serves them.
    #[default]
    OfWhoAccepts,
    /// Each connection is served by one of these threads; there is at least one.
    Apart(Arc<[Thread]>),
}

/// A thread, and the number of its connections.
#[derive(Debug)]
pub(crate) struct Thread {
    runtime: Handle,
    /// Cloned for each of its connections.
    open: Arc<()>,
}

impl Thread {
    fn connections(&self) -> usize {
        Arc::strong_count(&self.open) - 1
    }
}

impl Threads {
    /// Distributes connections over these runtimes, which have one thread each. If there are none,
    /// the runtime that accepts a connection serves it.
    pub(crate) fn of(runtimes: &[Runtime]) -> Self {
        if runtimes.is_empty() {
            return Self::OfWhoAccepts;
        }
        let threads = runtimes
            .iter()
            .map(|runtime| Thread { runtime: runtime.handle().clone(), open: Arc::default() });
        Self::Apart(threads.collect())
    }

    /// The number of threads besides the runtime that accepts.
    pub(crate) fn count(&self) -> usize {
        match self {
            Self::OfWhoAccepts => 0,
            Self::Apart(threads) => threads.len(),
        }
    }

    /// Serves a connection on the thread that has the fewest. The connection is closed if the
    /// system fails to move it.
    pub(super) fn serve<S>(
        &self,
        stream: TcpStream,
        served: impl FnOnce(TcpStream) -> S + Send + 'static,
    ) where
        S: Future<Output = ()> + Send + 'static,
    {
        let least = match self {
            Self::OfWhoAccepts => None,
            Self::Apart(threads) => threads.iter().min_by_key(|thread| thread.connections()),
        };
        let Some(thread) = least else {
            tokio::spawn(served(stream));
            return;
        };
        // A stream of tokio belongs to the runtime that made it, so it is moved by way of the standard library's.
        let stream = stream.into_std();
        // Counted here and not in the task: otherwise all connections of a burst would go to one thread.
        let one_more = Arc::clone(&thread.open);
        thread.runtime.spawn(async move {
            // Dropped also if the connection ends by a panic.
            let _one_more = one_more;
            match stream.and_then(TcpStream::from_std) {
                Ok(stream) => served(stream).await,
                Err(error) => tracing::warn!(
                    %error,
                    "a connection could not be handed to the thread that was to serve it"
                ),
            }
        });
    }
}

#[cfg(test)]
impl Threads {
    /// Both variants; the threads last as long as the tests.
    pub(super) fn of_both_kinds() -> [Self; 2] {
        [Self::OfWhoAccepts, Self::of(Box::leak(tests::runtimes(2).into()))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::thread::ThreadId;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::runtime::Builder;
    use tokio::sync::{mpsc, oneshot};

    impl Threads {
        /// The number of connections of all threads.
        fn connections(&self) -> usize {
            match self {
                Self::OfWhoAccepts => 0,
                Self::Apart(all) => all.iter().map(Thread::connections).sum(),
            }
        }
    }

    pub(super) fn runtimes(threads: usize) -> Vec<Runtime> {
        let one = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        (0..threads).map(|_| one()).collect()
    }

    async fn connection(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    /// Connections that report which thread serves them, then echo until their client leaves.
    async fn by_whom(threads: &Threads, connections: usize) -> (Vec<TcpStream>, Vec<ThreadId>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (send, mut received) = mpsc::unbounded_channel();
        let (mut clients, mut whom) = (Vec::new(), Vec::new());
        for _ in 0..connections {
            let (client, stream) = connection(&listener).await;
            let send = send.clone();
            threads.serve(stream, |mut stream| async move {
                send.send(std::thread::current().id()).unwrap();
                while let Ok(byte) = stream.read_u8().await {
                    stream.write_u8(byte).await.unwrap();
                }
            });
            whom.push(received.recv().await.unwrap());
            clients.push(client);
        }
        (clients, whom)
    }

    #[test]
    fn connections_are_dealt_evenly_and_served_where_they_were_dealt_to() {
        let (here, apart) = (runtimes(1), runtimes(3));
        here[0].block_on(async {
            let (mut clients, whom) = by_whom(&Threads::of(&apart), 6).await;
            let mut each = BTreeMap::<_, usize>::new();
            for thread in whom {
                *each.entry(format!("{thread:?}")).or_default() += 1;
            }
            assert_eq!(each.into_values().collect::<Vec<_>>(), [2, 2, 2]);
            for client in &mut clients {
                client.write_u8(b'a').await.unwrap();
                assert_eq!(client.read_u8().await.unwrap(), b'a');
            }
        });
    }

    #[test]
    fn a_connection_that_has_ended_leaves_space_on_its_thread_even_by_a_panic() {
        let (here, apart) = (runtimes(1), runtimes(2));
        here[0].block_on(async {
            let threads = Threads::of(&apart);
            let (_stays, first) = by_whom(&threads, 1).await;
            for _ in 0..3 {
                let (_client, stream) =
                    connection(&TcpListener::bind("127.0.0.1:0").await.unwrap()).await;
                let (send, received) = oneshot::channel();
                threads.serve(stream, |stream| async move {
                    let _stream = stream;
                    send.send(std::thread::current().id()).unwrap();
                    panic!("asked to");
                });
                assert_ne!(received.await.unwrap(), first[0], "the other thread has no connection");
                while threads.connections() > 1 {
                    tokio::task::yield_now().await;
                }
            }
        });
    }

    #[test]
    fn without_threads_of_its_own_a_listener_is_served_by_those_that_accept() {
        let here = runtimes(1);
        let (_clients, whom) = here[0].block_on(async {
            tokio::spawn(async { by_whom(&Threads::of(&[]), 2).await }).await.unwrap()
        });
        let it = here[0]
            .block_on(async { tokio::spawn(async { std::thread::current().id() }).await.unwrap() });
        assert_eq!(whom, [it, it]);
    }
}
