//! `GET /healthz`: well only if a decision can really be taken.

use std::sync::Arc;

use serde::Serialize;
use tidegate::{Descriptor, Request};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::problem::{Kind, Problem};
use super::{App, Response, answer};
use crate::limiters::Limiters;
use crate::sample::Sample;

/// What a server says that is well.
#[derive(Serialize)]
struct Health {
    status: &'static str,
}

/// Looks at a limiter now and then, one look at a time: looks that hang do not pile up.
pub(super) struct Probe {
    sample: Sample,
    turn: Arc<Semaphore>,
}

impl Probe {
    pub(super) fn new(sample: Sample) -> Self {
        Self { sample, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Whether the limiters answer, and as they must: a cost of 0 is always allowed.
    ///
    /// The look goes through the locks of a real decision, on a thread that may wait for them, and
    /// leaves no trace: it begins no limiter and takes nothing.
    async fn is_answered(&self, limiters: Arc<Limiters>) -> bool {
        let Ok(turn) = Arc::clone(&self.turn).acquire_owned().await else {
            return false;
        };
        let sample = self.sample.clone();
        let runtime = Handle::current();
        let looked = spawn_blocking(move || {
            let allowed = runtime.block_on(look(&limiters, &sample));
            drop(turn);
            allowed
        });
        looked.await.unwrap_or(false)
    }
}

async fn look(limiters: &Limiters, sample: &Sample) -> bool {
    let entries = sample.entries.iter();
    let entries: Vec<_> = entries.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let descriptors = [Descriptor::new(&entries).cost(0)];
    limiters.peek(&Request::new(&sample.domain, &descriptors)).await.is_allowed()
}

/// 200 when a decision was taken in time, else 503.
pub(super) async fn health(app: &App) -> Result<Response, Problem> {
    let answered = app.probe.is_answered(Arc::clone(&app.limiters));
    match timeout(app.limits.probe, answered).await {
        Ok(true) => answer::json(&Health { status: "ok" }),
        Ok(false) => Err(unwell("a cost of 0 was not allowed")),
        Err(_) => Err(unwell("a decision did not come in time")),
    }
}

fn unwell(why: &str) -> Problem {
    tracing::error!(why, "not healthy");
    Problem::new(Kind::Unavailable, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{Limits, Service};
    use std::time::Duration;
    use tidegate::Policy;

    fn app(probe: Duration) -> Arc<App> {
        let limits = Limits { probe, ..Limits::default() };
        Service::new(Arc::new(Limiters::of(Policy::default()).unwrap()), limits).0
    }

    #[tokio::test]
    async fn a_server_that_decides_is_well_again_and_again() {
        let app = app(Duration::from_secs(60));
        for _ in 0..3 {
            assert!(health(&app).await.is_ok());
        }
    }

    #[tokio::test]
    async fn a_server_whose_decisions_hang_does_not_say_ok() {
        let app = app(Duration::from_millis(30));
        let _hanging = Arc::clone(&app.probe.turn).acquire_owned().await.unwrap();
        let problem = health(&app).await.unwrap_err();
        assert_eq!(problem, Problem::new(Kind::Unavailable, "a decision did not come in time"));
    }
}
