//! Envoy's rate limit service, called by a client with the same messages.

mod listener;
mod own_limits;

use hyper::http::uri::PathAndQuery;
use prost_types::value::Kind;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code as Failure, IntoRequest, Response, Status};
use tonic_prost::ProstCodec;

use crate::envoy_api::{
    Code, DescriptorStatus, Entry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse, Unit,
};
use crate::process::Server;

const RULES: &str = r#"
rule = [
    { name = "per-user", domain = "edge", key = ["user"], algorithm = "sliding_log", rate = "3/1d" },
    { name = "per-path", domain = "edge", key = ["path"], algorithm = "token_bucket", rate = "10/2h", capacity = 20 },
    { name = "login", domain = "edge", when = { path = "/login" }, algorithm = "fixed_window", rate = "2/90s", anchor = "first_request" },
    { name = "watched", domain = "edge", mode = "shadow", key = ["user"], algorithm = "sliding_log", rate = "1/1d" },
    { name = "per-route", domain = "edge", key = ["tenant", "route"], algorithm = "sliding_log", rate = "2/1d" },
    { name = "free", domain = "edge", key = ["free"], algorithm = "sliding_log", limit = -1, window = "1s" },
]
"#;

/// A client of the service.
#[derive(Clone)]
pub(crate) struct RateLimitServiceClient(Grpc<Channel>);

impl RateLimitServiceClient {
    pub(crate) fn new(channel: Channel) -> Self {
        Self(Grpc::new(channel))
    }

    pub(crate) async fn connect(url: String) -> Result<Self, tonic::transport::Error> {
        Ok(Self::new(Endpoint::from_shared(url)?.connect().await?))
    }

    pub(crate) async fn should_rate_limit(
        &mut self,
        request: impl IntoRequest<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        self.0.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
        let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
        let path = PathAndQuery::from_static(path);
        self.0.unary(request.into_request(), path, ProstCodec::default()).await
    }
}

/// A connection to the gRPC listener.
pub(crate) async fn channel(server: &Server) -> Channel {
    let url = format!("http://{}", server.grpc);
    Endpoint::from_shared(url).unwrap().connect().await.unwrap()
}

/// A client of the service.
pub(crate) async fn client(server: &Server) -> RateLimitServiceClient {
    RateLimitServiceClient::new(channel(server).await)
}

pub(crate) fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).into(), value: (*value).into() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..Default::default() }
}

pub(crate) fn costing(hits: u64, entries: &[(&str, &str)]) -> RateLimitDescriptor {
    RateLimitDescriptor { hits_addend: Some(hits), ..descriptor(entries) }
}

pub(crate) fn giving_back(hits: u64, entries: &[(&str, &str)]) -> RateLimitDescriptor {
    RateLimitDescriptor { is_negative_hits: true, ..costing(hits, entries) }
}

/// A request of the domain of this file's rules.
pub(crate) fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    request_in("edge", descriptors)
}

pub(crate) fn request_in(domain: &str, descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest { domain: domain.to_owned(), descriptors, hits_addend: 0 }
}

/// A server of these rules, and a client.
struct Asked {
    _server: Server,
    client: RateLimitServiceClient,
}

impl Asked {
    async fn new() -> Self {
        let server = Server::granting(RULES, "check,grpc-refund");
        let client = client(&server).await;
        Self { _server: server, client }
    }

    async fn ask(&mut self, descriptors: Vec<RateLimitDescriptor>) -> RateLimitResponse {
        self.try_ask(request(descriptors)).await.unwrap()
    }

    async fn try_ask(&mut self, request: RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.client.should_rate_limit(request).await.map(Response::into_inner)
    }
}

/// The reason of a refusal that no rule made.
pub(crate) fn reason(answer: &RateLimitResponse) -> &str {
    let metadata = answer.dynamic_metadata.as_ref();
    let reason = metadata.and_then(|metadata| metadata.fields["reason"].kind.as_ref());
    match reason {
        Some(Kind::StringValue(reason)) => reason,
        other => panic!("no reason: {other:?}"),
    }
}

/// The code, the rule of the values, and the remaining units.
fn answered(status: &DescriptorStatus) -> (Code, &str, u32) {
    let rule = status.current_limit.as_ref().map_or("", |limit| limit.name.as_str());
    (status.code(), rule, status.limit_remaining)
}

const ADA: &[(&str, &str)] = &[("user", "ada")];

/// Requests in their order, each with the statuses of its descriptors.
#[tokio::test]
async fn each_descriptor_is_answered_by_its_own_rules_in_order() {
    let mut asked = Asked::new().await;
    let user = |hits, name| costing(hits, &[("user", name)]);
    let back = |hits, name| giving_back(hits, &[("user", name)]);
    let all =
        || vec![descriptor(&[("path", "/login")]), descriptor(&[("other", "x")]), descriptor(ADA)];
    let route = |tenant, route| descriptor(&[("tenant", tenant), ("route", route)]);
    let turned = || descriptor(&[("route", "x"), ("other", "o"), ("tenant", "a")]);
    let ok = |rule, left| (Code::Ok, rule, left);
    let over = |left| (Code::OverLimit, "per-user", left);
    let none = ok("", u32::MAX);
    let new = ok("per-route", 1);
    for (descriptors, expected) in [
        // Of two rules, the rule with fewer units is reported.
        (all(), vec![ok("login", 1), none, ok("per-user", 2)]),
        (vec![user(2, "ada")], vec![ok("per-user", 0)]),
        // A descriptor that would have passed is not charged.
        (all(), vec![ok("login", 1), none, over(0)]),
        // A rule of several entries takes them in any order.
        (
            vec![route("a", "x"), route("a", "y"), route("b", "x"), descriptor(&[("tenant", "a")])],
            vec![new, new, new, none],
        ),
        (vec![turned()], vec![ok("per-route", 0)]),
        (vec![turned()], vec![(Code::OverLimit, "per-route", 0)]),
        // Two keys of a rule are distinguished, and a key that is named twice is a key: five of three.
        (
            vec![user(1, "bob"), user(3, "eve"), user(2, "eve")],
            vec![ok("per-user", 3), over(3), over(3)],
        ),
        // No hits only ask.
        (vec![user(0, "eve")], vec![ok("per-user", 3)]),
        (vec![user(0, "eve")], vec![ok("per-user", 3)]),
        (vec![user(3, "eve")], vec![ok("per-user", 0)]),
        (vec![user(0, "eve")], vec![ok("per-user", 0)]),
        // No more is given back than was taken.
        (vec![back(2, "eve")], vec![ok("per-user", 2)]),
        (vec![back(u64::MAX, "eve")], vec![ok("per-user", 3)]),
        // Hits that a request gives back are there for the hits that it asks.
        (vec![user(3, "cy"), user(3, "di")], vec![ok("per-user", 0); 2]),
        (
            vec![back(1, "cy"), user(1, "cy"), back(2, "di")],
            vec![ok("per-user", 1), ok("per-user", 0), ok("per-user", 2)],
        ),
        // Neither a rule without a limit nor a shadow rule tells its limit.
        (vec![costing(9, &[("free", "x")])], vec![none]),
        (vec![user(2, "gus")], vec![ok("per-user", 1)]),
    ] {
        let answer = asked.ask(descriptors).await;
        let statuses: Vec<_> = answer.statuses.iter().map(answered).collect();
        assert_eq!(statuses, expected);
        let is_over = expected.iter().any(|(code, ..)| *code == Code::OverLimit);
        assert_eq!(answer.overall_code() == Code::OverLimit, is_over, "{answer:?}");
        assert!(answer.response_headers_to_add.is_empty());
    }
    let never = asked.ask(vec![user(5, "eve")]).await;
    assert_eq!(never.statuses[0].duration_until_reset, None, "five never fit");
}

#[tokio::test]
async fn values_are_reported_in_units_of_time() {
    let mut asked = Asked::new().await;
    let answer = asked.ask(vec![descriptor(ADA), descriptor(&[("path", "/")])]).await;
    let limits = answer.statuses.iter().map(|status| {
        let limit = status.current_limit.as_ref().unwrap();
        (
            limit.requests_per_unit,
            limit.unit(),
            status.duration_until_reset.as_ref().unwrap().seconds,
        )
    });
    let limits: Vec<_> = limits.collect();
    assert_eq!(limits[0], (3, Unit::Day, 86_400), "as good as new in a day");
    assert_eq!(limits[1], (20, Unit::Hour, 720), "a bucket of 20 that fills in four hours");
    asked.ask(vec![costing(2, ADA)]).await;
    let refused = asked.ask(vec![descriptor(ADA)]).await;
    let wait = refused.statuses[0].duration_until_reset.as_ref().unwrap();
    assert!((1..=86_400).contains(&wait.seconds), "{wait:?}");
}

#[tokio::test]
async fn refunds_that_are_not_granted_change_nothing() {
    let server = Server::with_rules_and(RULES, &["--public-verbs", "check"]);
    let mut client = client(&server).await;
    let mut ask = async |descriptors| client.should_rate_limit(request(descriptors)).await;
    assert!(ask(vec![costing(3, ADA)]).await.is_ok());
    for call in [vec![giving_back(3, ADA)], vec![costing(0, ADA), giving_back(3, ADA)]] {
        let refused = ask(call).await.unwrap_err();
        assert_eq!(refused.code(), Failure::PermissionDenied, "{refused:?}");
        for setting in ["--public-verbs", "`verbs=grpc-refund` after its token"] {
            assert!(refused.message().contains(setting), "{refused:?}");
        }
    }
    let answer = ask(vec![descriptor(ADA)]).await.unwrap().into_inner();
    assert_eq!(answer.overall_code(), Code::OverLimit, "all is used still");
}

#[tokio::test]
async fn as_many_descriptors_as_there_may_be_and_a_domain_without_rules_are_decided() {
    let mut asked = Asked::new().await;
    let many = asked.ask(vec![costing(0, ADA); 63]).await;
    assert_eq!(many.statuses.len(), 63);
    let elsewhere = request_in("none", vec![descriptor(ADA)]);
    let answer = asked.try_ask(elsewhere).await.unwrap();
    assert_eq!(answered(&answer.statuses[0]), (Code::Ok, "", u32::MAX));
}

#[tokio::test]
async fn a_message_too_large_is_refused_and_the_connection_goes_on() {
    let mut asked = Asked::new().await;
    let long = "a".repeat(4 << 20);
    let answer = asked.try_ask(request(vec![descriptor(&[("user", &long)])])).await.unwrap();
    assert_eq!(answer.overall_code(), Code::OverLimit);
    assert!(reason(&answer).contains("at most 4194304 bytes of message"), "{answer:?}");
    let fits = "a".repeat((4 << 20) - 100);
    let answer = asked.ask(vec![descriptor(&[("user", &fits)])]).await;
    assert_eq!(answered(&answer.statuses[0]), (Code::Ok, "per-user", 2), "in many frames");
}

#[tokio::test]
async fn header_fields_are_reported_where_they_are_asked_for() {
    let server =
        Server::with_rules_and(RULES, &["--grpc-headers", "ratelimit,retry-after,x-ratelimit"]);
    let mut client = client(&server).await;
    let mut ask = async |hits| {
        let answer = client.should_rate_limit(request(vec![costing(hits, ADA)])).await.unwrap();
        let fields = answer.into_inner().response_headers_to_add.into_iter();
        fields.map(|field| (field.key, field.value)).collect::<Vec<_>>()
    };
    let fields = [
        ("x-ratelimit-limit", "3"),
        ("x-ratelimit-remaining", "0"),
        ("x-ratelimit-reset", "86400"),
        ("ratelimit-policy", r#""per-user";q=3;w=86400"#),
        ("ratelimit", r#""per-user";r=0;t=86400"#),
    ];
    assert_eq!(ask(3).await, fields.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert!(ask(1).await.iter().any(|(name, _)| name == "retry-after"));
}
