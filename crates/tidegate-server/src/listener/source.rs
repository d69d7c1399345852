//! The number of the connection that a request came over. Connections take turns by it if a store
//! cannot decide every request in time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

tokio::task_local! {
    static SOURCE: u64;
}

/// Runs a connection to its end, with a number of its own.
pub(super) async fn number(connection: impl Future<Output = ()>) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    SOURCE.scope(NEXT.fetch_add(1, Relaxed), connection).await;
}

/// The number of the current task's connection; 0 outside of one.
pub(crate) fn current() -> u64 {
    SOURCE.try_with(|source| *source).unwrap_or_default()
}

/// Makes the future carry the number of the current task's connection, wherever it runs.
pub(crate) fn carried<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    SOURCE.scope(current(), future)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_connection_has_a_number_that_its_tasks_carry() {
        let (send, mut received) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..2 {
            let send = send.clone();
            number(async move {
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
