//! gRPC's health service: SERVING only if a decision can be made, as far as [`Probe`] finds. tonic runs it, and
//! `routes.rs` calls it before it asks for a token.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::limiters::Limiters;
use crate::probe::Probe;

/// The service whose health is reported.
const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

/// The time between two checks of the health for a client that watches it.
const EVERY: Duration = Duration::from_secs(1);

/// One message of a watch.
type HealthReply = Result<HealthCheckResponse, Status>;

/// The service; all its calls share one probe.
#[derive(Clone)]
struct Asks(Arc<Probe>);

/// The service for these limiters; a decision must come `within` this time.
pub(super) fn server(limiters: Arc<Limiters>, within: Duration) -> HealthServer<impl Health> {
    HealthServer::new(Asks(Arc::new(Probe::new(limiters, within))))
}

impl Asks {
    async fn status(&self) -> ServingStatus {
        match self.0.is_answered().await {
            Some(true) => ServingStatus::Serving,
            Some(false) | None => {
                tracing::error!("not healthy: a decision did not come, or not in time");
                ServingStatus::NotServing
            }
        }
    }

    /// Reports every change to a watching client, until it leaves.
    async fn watch_for(self, to: mpsc::Sender<HealthReply>) {
        let mut last = None;
        while !to.is_closed() {
            let status = self.status().await;
            // The first status is always sent, because the client waits for it.
            if last.replace(status) != Some(status) && to.send(Ok(reply(status))).await.is_err() {
                return;
            }
            tokio::select! {
                () = sleep(EVERY) => {}
                () = to.closed() => return,
            }
        }
    }
}

#[tonic::async_trait]
impl Health for Asks {
    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        let service = request.into_inner().service;
        if !is_known(&service) {
            let expected = format!("no service `{service}`: expected `{SERVICE}`, or none for all");
            return Err(Status::not_found(expected));
        }
        Ok(Response::new(reply(self.status().await)))
    }

    type WatchStream = Pin<Box<ReceiverStream<HealthReply>>>;

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let (to, stream) = mpsc::channel(1);
        if is_known(&request.into_inner().service) {
            tokio::spawn(self.clone().watch_for(to));
        } else {
            let unknown = reply(ServingStatus::ServiceUnknown);
            tokio::spawn(async move {
                // The service never becomes known; the client has to end the call.
                let _ = to.send(Ok(unknown)).await;
                to.closed().await;
            });
        }
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

fn is_known(service: &str) -> bool {
    service.is_empty() || service == SERVICE
}

fn reply(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse { status: status.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::Policy;
    use tokio_stream::StreamExt;

    fn asks(within: Duration) -> Asks {
        let limiters = Arc::new(Limiters::of(Policy::default()).unwrap());
        Asks(Arc::new(Probe::new(limiters, within)))
    }

    fn about(service: &str) -> Request<HealthCheckRequest> {
        Request::new(HealthCheckRequest { service: service.to_owned() })
    }

    #[tokio::test]
    async fn a_server_whose_decisions_hang_does_not_say_serving() {
        let asks = asks(Duration::from_millis(30));
        let _hanging = asks.0.hang();
        let answer = asks.check(about(SERVICE)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::NotServing);
        let mut watched = asks.watch(about("")).await.unwrap().into_inner();
        let first = watched.next().await.unwrap().unwrap();
        assert_eq!(first.status(), ServingStatus::NotServing);
    }

    #[tokio::test]
    async fn an_unknown_service_is_reported_as_unknown() {
        let asks = asks(Duration::from_secs(60));
        assert_eq!(asks.check(about("x")).await.unwrap_err().code(), tonic::Code::NotFound);
        let mut watched = asks.watch(about("x")).await.unwrap().into_inner();
        let first = watched.next().await.unwrap().unwrap();
        assert_eq!(first.status(), ServingStatus::ServiceUnknown);
        let answer = asks.check(about("")).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving);
    }
}
