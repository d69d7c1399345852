//! Spans by the OpenTelemetry SDK, sent in batches by a thread of its own. HTTP and gRPC begin a span when they
//! read a request for a decision, and end it with the answer.

use std::sync::OnceLock;

use hyper::HeaderMap;
use hyper::header::HeaderName;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span as _, SpanKind, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tidegate::Answer;

use super::{CollectorAddress, TRACEPARENT};
use crate::counts::RequestOutcome;
use crate::failure::Failure;

/// Set once, at the start, if spans are sent.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Returns whether spans are sent.
#[inline]
pub(crate) fn is_on() -> bool {
    TRACER.get().is_some()
}

/// The span of one request; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Span(opentelemetry_sdk::trace::Span);

impl Span {
    /// Begins a span in the trace of the caller, if that is sampled.
    #[inline]
    pub(crate) fn begin(name: &'static str, headers: &HeaderMap) -> Option<Self> {
        let tracer = TRACER.get()?;
        if headers.contains_key(TRACEPARENT) { Self::of(tracer, name, headers) } else { None }
    }

    fn of(tracer: &SdkTracer, name: &'static str, headers: &HeaderMap) -> Option<Self> {
        let caller = TraceContextPropagator::new().extract(&HeaderExtractor(headers));
        if !caller.span().span_context().is_sampled() {
            return None;
        }
        let builder = tracer.span_builder(name).with_kind(SpanKind::Server);
        Some(Self(builder.start_with_context(tracer, &caller)))
    }

    /// Sets the decision as attributes. No attribute holds an entry of the request.
    pub(crate) fn end(&mut self, domain: &str, answer: &Answer<'_>) {
        let span = &mut self.0;
        span.set_attribute(KeyValue::new("tidegate.domain", domain.to_owned()));
        if let Some(reported) = answer.reported() {
            span.set_attribute(KeyValue::new("tidegate.rule", reported.rule().name().to_owned()));
        }
        span.set_attribute(KeyValue::new("tidegate.outcome", RequestOutcome::of(answer).name()));
        span.set_attribute(KeyValue::new("tidegate.degraded", answer.is_degraded()));
        span.end();
    }
}

/// Header fields, as the SDK reads them.
struct HeaderExtractor<'a>(&'a HeaderMap);

impl Extractor for HeaderExtractor<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

/// Sends spans until it ends.
#[derive(Debug)]
pub(crate) struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Begins to send spans, inside the runtime. A collector that is away is tried again with each batch.
    ///
    /// # Errors
    /// Returns an error if the exporter cannot be made.
    pub(crate) fn begin(endpoint: Option<&CollectorAddress>) -> Result<Option<Self>, Failure> {
        let Some(CollectorAddress(url)) = endpoint else { return Ok(None) };
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(url)
            .build()
            .map_err(|error| Failure::new(format!("spans cannot be sent to {url}: {error}")))?;
        let version = env!("CARGO_PKG_VERSION");
        let resource = Resource::builder().with_service_name("tidegate");
        let resource = resource.with_attribute(KeyValue::new("service.version", version)).build();
        let provider = SdkTracerProvider::builder().with_resource(resource);
        let provider = provider.with_batch_exporter(exporter).build();
        let scope = InstrumentationScope::builder("tidegate").with_version(version).build();
        let _ = TRACER.set(provider.tracer_with_scope(scope));
        Ok(Some(Self(provider)))
    }

    /// Sends the remaining spans, within some seconds.
    pub(crate) fn end(self) {
        if let Err(error) = self.0.shutdown() {
            tracing::warn!(%error, "the last spans were not sent");
        }
    }
}
