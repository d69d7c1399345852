//! Envoy's rate limit service as tonic serves it, deciding nothing: the ceiling of that listener. It also has the
//! question to it and to the server.

use clap::Args;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::{
    RateLimitDescriptor, rate_limit_descriptor::Entry,
};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use prost::Message;
use std::net::SocketAddr;
use tonic::transport::Server;
use tonic::{Response, Status};

/// Where the method is.
pub const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Where the service listens.
#[derive(Args)]
pub struct NoOp {
    /// IP:PORT.
    at: SocketAddr,
}

struct Yes;

#[tonic::async_trait]
impl RateLimitService for Yes {
    async fn should_rate_limit(
        &self,
        _request: tonic::Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let overall_code = Code::Ok.into();
        Ok(Response::new(RateLimitResponse { overall_code, ..RateLimitResponse::default() }))
    }
}

/// Serves until it is ended, on tokio's runtime of a thread for each core.
///
/// # Errors
/// If the address is not available.
pub fn run(wanted: &NoOp) -> Result<(), String> {
    let service = Server::builder().add_service(RateLimitServiceServer::new(Yes));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    runtime.block_on(service.serve(wanted.at)).map_err(|error| format!("cannot serve: {error}"))
}

/// The request: one descriptor of one entry.
fn request(domain: &str, user: &str) -> RateLimitRequest {
    let entry = Entry { key: "user".to_owned(), value: user.to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    RateLimitRequest { domain: domain.to_owned(), descriptors: vec![descriptor], hits_addend: 0 }
}

/// The request as it is sent: not compressed, its length, its bytes.
pub fn body(domain: &str, user: &str) -> Vec<u8> {
    let message = request(domain, user).encode_to_vec();
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    [&[0], length.to_be_bytes().as_slice(), &message].concat()
}

/// Asks once, as a client does, for what generates load sees no further than the status of HTTP.
///
/// # Errors
/// When the answer is not a yes.
pub fn check(at: SocketAddr) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    let answer = runtime.block_on(async {
        let client = RateLimitServiceClient::connect(format!("http://{at}")).await;
        let mut client = client.map_err(|error| error.to_string())?;
        client
            .should_rate_limit(request("bench", "u000001"))
            .await
            .map_err(|status| status.to_string())
    });
    match answer.map(|answer| answer.into_inner().overall_code()) {
        Ok(Code::Ok) => Ok(()),
        other => Err(format!("the rate limit service answered {other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_one_message_behind_its_length() {
        let body = body("bench", "ada");
        let [0, a, b, c, d, message @ ..] = body.as_slice() else { panic!("{body:?}") };
        assert_eq!(u32::from_be_bytes([*a, *b, *c, *d]) as usize, message.len());
        assert_eq!(RateLimitRequest::decode(message), Ok(request("bench", "ada")));
    }
}
