//! `GET /healthz`: healthy only if a decision can be made, which [`Probe`](crate::probe::Probe) tries. The state of
//! the store is added for its reader and does not change the status.

use serde::Serialize;

use super::answer;
use super::app::App;
use super::message::HttpResponse;
use crate::limiters::StoreStanding;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The body of a healthy answer.
#[derive(Serialize)]
struct HealthJson {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<StoreJson>,
}

/// The state of the store, the numbers of requests to it since the start by their outcome, and the number of requests
/// under way.
#[derive(Serialize)]
struct StoreJson {
    state: StoreStanding,
    under_way: u64,
    merged: u64,
    denied_again: u64,
    leased: u64,
    leased_spent: u64,
    leased_returned: u64,
    leased_expired: u64,
    local: u64,
    shed: u64,
    late: u64,
    undone: u64,
}

impl StoreJson {
    fn of(app: &App) -> Option<Self> {
        let counts = app.limiters.shared()?.counts();
        Some(Self {
            state: app.limiters.standing()?,
            under_way: counts.under_way,
            merged: counts.merged,
            denied_again: counts.denied_again,
            leased: counts.leased,
            leased_spent: counts.leased_spent,
            leased_returned: counts.leased_returned,
            leased_expired: counts.leased_expired,
            local: counts.local,
            shed: counts.shed,
            late: counts.late,
            undone: counts.undone,
        })
    }
}

/// Answers 200 if a test decision was made in time, else 503.
pub(super) async fn health(app: &App) -> Result<HttpResponse, RequestRefusal> {
    match app.probe.is_answered().await {
        Some(true) => answer::json(&HealthJson { status: "ok", store: StoreJson::of(app) }),
        Some(false) => Err(unwell("a cost of 0 was not allowed")),
        None => Err(unwell("a decision did not come in time")),
    }
}

fn unwell(why: &str) -> RequestRefusal {
    tracing::error!(why, "not healthy");
    RefusalKind::Unavailable.because(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::HttpService;
    use crate::limiters::Limiters;
    use crate::listener::Bounds;
    use std::sync::Arc;
    use std::time::Duration;
    use tidegate::Policy;

    fn app(probe: Duration) -> Arc<App> {
        let bounds = Bounds { probe, ..Bounds::default() };
        HttpService::new(Arc::new(Limiters::of(Policy::default()).unwrap()), bounds, 100).0
    }

    #[tokio::test]
    async fn a_server_whose_decisions_hang_does_not_say_ok() {
        let app = app(Duration::from_millis(30));
        let _hanging = app.probe.hang();
        let problem = health(&app).await.unwrap_err();
        assert_eq!(problem, RefusalKind::Unavailable.because("a decision did not come in time"));
    }

    #[tokio::test]
    async fn all_probes_during_a_check_get_its_result() {
        let app = app(Duration::from_secs(60));
        let hanging = app.probe.hang();
        let ends = async move { hanging.send_replace(Some(false)) };
        let (one, other, _) = tokio::join!(health(&app), health(&app), ends);
        let found = RefusalKind::Unavailable.because("a cost of 0 was not allowed");
        assert_eq!((one.unwrap_err(), other.unwrap_err()), (found.clone(), found));
        assert!(health(&app).await.is_ok(), "the next request checks again");
    }
}
