//! Spans of the requests that belong to a trace of their callers (W3C Trace Context), sent over OTLP.
//!
//! A request whose `traceparent` says that its trace is sampled gets a span of its own in that trace; no other request
//! gets one, so callers choose the traced requests. RESP carries no context. Without the feature `otlp` there are no
//! spans.

#[cfg(not(feature = "otlp"))]
mod none;
#[cfg(feature = "otlp")]
mod spans;

#[cfg(not(feature = "otlp"))]
pub(crate) use none::{Exporter, Span, is_on};
#[cfg(feature = "otlp")]
pub(crate) use spans::{Exporter, Span, is_on};

/// The header field that names a trace.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// The address of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectorAddress(String);

/// Reads the address of a collector.
///
/// # Errors
/// Returns the expected text.
pub(crate) fn endpoint(text: &str) -> Result<CollectorAddress, &'static str> {
    let expected = "expected the address of a collector that speaks OTLP over gRPC in clear text, such as \
                    http://127.0.0.1:4317";
    let uri: hyper::Uri = text.parse().map_err(|_| expected)?;
    let is_plain =
        uri.scheme_str() == Some("http") && uri.host().is_some_and(|host| !host.is_empty());
    if is_plain && uri.path() == "/" {
        Ok(CollectorAddress(text.to_owned()))
    } else {
        Err(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_is_a_plain_address() {
        for right in ["http://127.0.0.1:4317", "http://collector:4317/"] {
            assert_eq!(endpoint(right), Ok(CollectorAddress(right.to_owned())));
        }
        for wrong in ["127.0.0.1:4317", "https://a:4317", "http://a:4317/v1/traces", "http://", ""]
        {
            assert!(endpoint(wrong).unwrap_err().contains("http://127.0.0.1:4317"), "{wrong}");
        }
    }
}
