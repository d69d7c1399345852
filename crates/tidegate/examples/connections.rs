//! A pool of three connections, shared by many tasks, by a limit on what is in flight.
//!
//! `cargo run -p tidegate --example connections --features tokio`
//!
//! Tasks wait for a permit to get a connection, first come, first served. The permit is kept next to the connection and
//! comes back with it: when the work is done, when it panics, when its task is aborted.

use std::error::Error;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::{Concurrency, Permit};
use tokio::task::yield_now;
use tokio::time::sleep;

const CONNECTIONS: usize = 3;
const TASKS: usize = 12;
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The numbers of the free connections, and as many permits as there are connections.
#[derive(Clone)]
struct Pool {
    in_use: Concurrency,
    idle: Arc<Mutex<Vec<usize>>>,
}

impl Pool {
    fn new() -> Self {
        let idle = Arc::new(Mutex::new((0..CONNECTIONS).collect()));
        Self { in_use: Concurrency::new(CONNECTIONS as u64), idle }
    }

    /// A connection, once all who came before have theirs; `None` if that takes too long.
    async fn connection(&self) -> Option<Connection> {
        let permit = self.in_use.acquire(1, LONGEST_WAIT).await?;
        let number = self.idle().pop()?;
        Some(Connection { number, pool: self.clone(), _permit: permit })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<usize>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether nothing is in use, and no task waits.
    fn is_at_rest(&self) -> bool {
        let free = self.in_use.available() == CONNECTIONS as u64;
        free && self.idle().len() == CONNECTIONS && self.in_use.waiting() == 0
    }
}

/// A connection in use. Dropped, it is idle again; then its permit comes back, as fields are dropped
/// after [`Drop::drop`] has run.
struct Connection {
    number: usize,
    pool: Pool,
    _permit: Permit,
}

impl Connection {
    /// Stands for something slow.
    async fn query(&self) {
        sleep(Duration::from_millis(2)).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.pool.idle().push(self.number);
    }
}

/// Many more tasks than connections. Returns the tasks in the order in which they were served, each with its
/// connection.
async fn serve_all(pool: &Pool) -> Result<Vec<(usize, usize)>, Box<dyn Error>> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks = (0..TASKS).map(|task| {
        let (pool, order) = (pool.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            let connection = pool.connection().await?;
            let served = (task, connection.number);
            order.lock().unwrap_or_else(PoisonError::into_inner).push(served);
            connection.query().await;
            Some(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await?.ok_or("a task waited for a minute")?;
    }
    let order = order.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(order.clone())
}

/// A task panics while it has a connection, a task is aborted while it has a connection, and a task is aborted while it
/// waits.
async fn break_off(pool: &Pool) -> Result<(), Box<dyn Error>> {
    let panics = pool.clone();
    let panicked = tokio::spawn(async move {
        let _connection = panics.connection().await;
        resume_unwind(Box::new("the query failed"));
    });
    assert!(panicked.await.is_err_and(|error| error.is_panic()));

    let many: Vec<_> = (0..=CONNECTIONS)
        .map(|_| {
            let pool = pool.clone();
            tokio::spawn(async move {
                let _connection = pool.connection().await;
                std::future::pending::<()>().await;
            })
        })
        .collect();
    while pool.in_use.waiting() == 0 {
        yield_now().await;
    }
    assert_eq!((pool.in_use.available(), pool.in_use.waiting()), (0, 1));
    for task in many {
        task.abort();
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let pool = Pool::new();
    let served = serve_all(&pool).await?;
    println!("(task, connection) in the order they were served: {served:?}");
    assert!(served.iter().map(|(task, _)| *task).eq(0..TASKS), "first come, first served");
    assert!(pool.is_at_rest());

    break_off(&pool).await?;
    assert!(pool.is_at_rest());
    println!("after a panic and after tasks that were aborted, all connections are there again");
    Ok(())
}
