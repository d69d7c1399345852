//! Spans over OTLP, to a collector of the test's own.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};

use crate::grpc;
use crate::process::{Server, run};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let resources = request.into_inner().resource_spans.into_iter();
        let spans =
            resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans);
        self.0.lock().unwrap().extend(spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

async fn collector() -> (SocketAddr, Collector) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (at, collector) = (listener.local_addr().unwrap(), Collector::default());
    let service = TowerToHyperService::new(TraceServiceServer::new(collector.clone()));
    tokio::spawn(async move {
        loop {
            let stream = TokioIo::new(listener.accept().await.unwrap().0);
            let http2 = http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http2.serve_connection(stream, service.clone()));
        }
    });
    (at, collector)
}

fn attribute(span: &Span, name: &str) -> Option<String> {
    let value = span.attributes.iter().find(|one| one.key == name)?.value.clone()?.value?;
    match value {
        Value::StringValue(text) => Some(text),
        Value::BoolValue(is) => Some(is.to_string()),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_a_sampled_trace_has_a_span_in_it() {
    let (at, collector) = collector().await;
    let server = Server::with_arguments(&["--otlp", &format!("http://{at}")]);
    let client = server.client();
    let body = r#"{"domain": "pay", "descriptor": {"biz_type": "transfer", "channel": "demo"}}"#;
    let sampled = format!("00-{TRACE}-{PARENT}-01");
    for traceparent in [&sampled, &format!("00-{TRACE}-{PARENT}-00"), "nonsense", ""] {
        let fields = [("traceparent", traceparent)];
        client.post_with("/v1/check", &fields, body).await.succeeded();
    }
    let mut call = tonic::Request::new(grpc::request(vec![grpc::descriptor(&[("key", "a")])]));
    call.metadata_mut().insert("traceparent", sampled.parse().unwrap());
    grpc::client(&server).await.should_rate_limit(call).await.unwrap();
    tokio::task::spawn_blocking(|| server.stopped()).await.unwrap();

    let spans = collector.0.lock().unwrap();
    assert_eq!(spans.len(), 2, "{spans:?}");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for (span, domain) in spans.iter().zip(["pay", "edge"]) {
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), PARENT.into()));
        assert_eq!(span.name, "check");
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
        assert_eq!(attribute(span, "tidegate.domain").as_deref(), Some(domain));
        let outcome = if domain == "pay" { "allowed" } else { "unlimited" };
        assert_eq!(attribute(span, "tidegate.outcome").as_deref(), Some(outcome));
        assert_eq!(attribute(span, "tidegate.degraded").as_deref(), Some("false"));
        assert!(span.attributes.iter().all(|one| !format!("{one:?}").contains("demo")));
    }
    assert!(attribute(&spans[0], "tidegate.rule").is_some());
}

#[test]
fn a_collector_that_is_away_holds_up_nothing() {
    let server = Server::with_arguments(&["--otlp", "http://127.0.0.1:9"]);
    server.stopped();
    run(&["serve", "--otlp", "https://collector:4317"]).fails(2, "http://127.0.0.1:4317");
}
