//! The connection of a request: its number, its listener and its peer, kept in a local variable of the task so that
//! no function has to pass them on. Logs name the listener and the peer. If a store cannot decide every request in
//! time, connections take turns by their numbers.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

tokio::task_local! {
    static SOURCE: (u64, &'static str, Option<SocketAddr>);
}

/// Gives a connection of a listener, from this peer, a number of its own.
pub(super) fn number(
    listener: &'static str,
    peer: Option<SocketAddr>,
    connection: impl Future<Output = ()>,
) -> impl Future<Output = ()> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    SOURCE.scope((NEXT.fetch_add(1, Relaxed), listener, peer), connection)
}

/// The number of the current task's connection; 0 outside of one.
pub(crate) fn current() -> u64 {
    SOURCE.try_with(|(number, ..)| *number).unwrap_or_default()
}

/// The listener of the current task's connection; none outside of one.
pub(crate) fn listener() -> Option<&'static str> {
    SOURCE.try_with(|(_, listener, _)| *listener).ok()
}

/// The address of the peer of the current task's connection; none outside of one, or if it had left already.
pub(crate) fn peer() -> Option<SocketAddr> {
    SOURCE.try_with(|(.., peer)| *peer).ok().flatten()
}

/// Makes the future belong to the current task's connection, wherever it runs.
pub(crate) fn carried<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let source = (current(), listener().unwrap_or_default(), peer());
    SOURCE.scope(source, future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_connection_has_a_number_that_its_tasks_carry() {
        let (send, mut received) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..2 {
            let send = send.clone();
            number("http", None, async move {
                send.send(current()).unwrap();
                let carried = carried(async move { send.send(current()).unwrap() });
                tokio::spawn(carried).await.unwrap();
            })
            .await;
        }
        let numbers = [
            received.recv().await,
            received.recv().await,
            received.recv().await,
            received.recv().await,
        ];
        assert!(numbers[0] == numbers[1] && numbers[2] == numbers[3] && numbers[0] != numbers[2]);
        assert!(numbers[0] > Some(0));
        assert_eq!(current(), 0);
    }
}
