//! Requests of any bytes: a request is admitted at most as often as its limit says, with any bytes that a caller sends.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use http::uri::PathAndQuery;
use http::{HeaderName, HeaderValue, Request, Response, Uri};
use proptest::prelude::*;
use proptest::sample::select;
use tidegate::tower::{ClientIp, Entries, PeerAddr, RateLimitLayer, header, host, path};
use tidegate::{Gate, Policy, RuleSpec};
use tokio::runtime::Builder;
use tower::{Layer, ServiceExt, service_fn};

/// Requests that a caller is admitted in a day.
const LIMIT: usize = 3;
const PER_CALLER: &str = "3/d";

/// Fields that the layer, or a server, gives a meaning.
const FIELDS: [&str; 12] = [
    "accept",
    "authorization",
    "connection",
    "content-type",
    "cookie",
    "forwarded",
    "grpc-timeout",
    "host",
    "te",
    "traceparent",
    "x-forwarded-for",
    "x-user-id",
];

/// Pieces that readers of keys, addresses and paths may trip over.
const PIECES: [&[u8]; 28] = [
    b"",
    b"\t",
    b" ",
    b"\x80",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xff",
    "ü".as_bytes(),
    "u\u{308}".as_bytes(),
    "🦀".as_bytes(),
    "\u{202e}".as_bytes(),
    "\u{61c}".as_bytes(),
    "\u{feff}".as_bytes(),
    "\u{fffd}".as_bytes(),
    b"%FF",
    b"%",
    b"%00",
    br"\",
    br"\x",
    br"\x5c",
    br"\xff",
    b"\"",
    b",",
    b";",
    b"for=",
    b"[2001:db8::1]:80",
    b"10.0.0.1",
    b"x",
];

/// The bytes of a field, chosen or by chance, as many as a proxy takes. A server refuses control characters.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let chosen = prop::collection::vec(select(&PIECES[..]), 0..9).prop_map(|some| some.concat());
    let any = prop_oneof![
        10 => chosen.clone(),
        10 => prop::collection::vec(any::<u8>(), 0..80),
        1 => chosen.prop_map(|some| some.repeat((60 << 10) / some.len().max(1))),
    ];
    any.prop_map(|mut bytes| {
        let controls = bytes.iter_mut().filter(|byte| **byte != b'\t' && byte.is_ascii_control());
        controls.for_each(|byte| *byte |= 0x80);
        bytes
    })
}

/// A request with these fields.
fn request(peer: [u8; 4], fields: &[(&'static str, &[u8])]) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    request.extensions_mut().insert(PeerAddr(SocketAddr::from((peer, 4_000))));
    for (name, value) in fields {
        let value = HeaderValue::from_bytes(value).unwrap();
        request.headers_mut().append(HeaderName::from_static(name), value);
    }
    request
}

/// Asks for the path of these bytes, if any request can.
fn at(path: &[u8], mut request: Request<Body>) -> Request<Body> {
    let path = [b"/", path].concat();
    if let Ok(path) = PathAndQuery::try_from(path) {
        *request.uri_mut() = Uri::from(path);
    }
    request
}

/// A layer over a limit for each value of the entry `caller`.
fn of_callers(entries: Entries) -> RateLimitLayer {
    let rule = RuleSpec::new("per-caller", PER_CALLER).key(["caller"]);
    RateLimitLayer::new(Arc::new(Gate::new(Policy::new(vec![rule]).unwrap()))).descriptor(entries)
}

/// The number of these requests that pass the layer.
fn admitted(layer: &RateLimitLayer, requests: impl IntoIterator<Item = Request<Body>>) -> usize {
    let runtime = Builder::new_current_thread().build().unwrap();
    let seen = AtomicUsize::new(0);
    let service = layer.layer(service_fn(async |_: Request<Body>| {
        seen.fetch_add(1, Ordering::Relaxed);
        Ok::<_, Infallible>(Response::new(Body::empty()))
    }));
    for request in requests {
        runtime.block_on(service.clone().oneshot(request)).unwrap();
    }
    seen.load(Ordering::Relaxed)
}

proptest! {
    #[test]
    fn n_requests_with_a_value_of_any_bytes_are_admitted_as_often_as_the_limit_says(
        value in bytes(),
        other in bytes(),
        is_grpc in any::<bool>(),
    ) {
        let layers = [
            of_callers(Entries::new().entry("caller", header("x-user").unwrap())),
            of_callers(Entries::new().entry("caller", host)),
            RateLimitLayer::per_header("x-user", PER_CALLER).unwrap(),
        ];
        let kind: &[u8] = if is_grpc { b"application/grpc" } else { b"text/plain" };
        let asked = |value: &[u8]| {
            let fields = [("x-user", value), ("host", value), ("content-type", kind)];
            (0..3 * LIMIT).map(|_| request([192, 0, 2, 1], &fields)).collect::<Vec<_>>()
        };
        for layer in &layers {
            prop_assert_eq!(admitted(layer, asked(&value)), LIMIT);
        }
        // Another value is another caller, and takes nothing from the first.
        if other != value {
            prop_assert_eq!(admitted(&layers[0], asked(&other)), LIMIT);
            prop_assert_eq!(admitted(&layers[2], asked(&other)), LIMIT);
        }
    }

    #[test]
    fn no_bytes_elsewhere_in_a_request_make_it_another_callers(
        requests in prop::collection::vec((bytes(), bytes(), select(&FIELDS[..])), 3 * LIMIT),
    ) {
        let entries = || Entries::new().entry("path", path).entry("host", host);
        let layers = [
            of_callers(entries().entry("caller", ClientIp::peer())),
            of_callers(entries().entry("caller", header("x-user").unwrap())),
            RateLimitLayer::per_ip(PER_CALLER).unwrap(),
            RateLimitLayer::per_header("x-user", PER_CALLER).unwrap(),
        ];
        for layer in &layers {
            let asked = requests.iter().map(|(value, path, name)| {
                at(path, request([192, 0, 2, 1], &[("x-user", b"ada"), (name, value)]))
            });
            prop_assert_eq!(admitted(layer, asked), LIMIT);
        }
    }

    /// The proxy adds a line with the address that it saw, or adds it to the line that came.
    #[test]
    fn no_bytes_before_what_a_proxy_adds_make_a_request_another_callers(
        came in prop::collection::vec((bytes(), any::<bool>()), 3 * LIMIT),
    ) {
        let proxies = ["10.0.0.0/8"];
        let layers: [(_, &'static str, &[u8]); 2] = [
            (ClientIp::x_forwarded_for(proxies).unwrap(), "x-forwarded-for", b"192.0.2.7"),
            (ClientIp::forwarded(proxies).unwrap(), "forwarded", b"for=192.0.2.7;proto=https"),
        ];
        for (address, name, added) in layers {
            let layer = of_callers(Entries::new().entry("caller", address));
            let asked = came.iter().map(|(bytes, is_one_line)| match is_one_line {
                true => request([10, 0, 0, 1], &[(name, &[bytes, &b", "[..], added].concat())]),
                false => request([10, 0, 0, 1], &[(name, bytes), (name, added)]),
            });
            prop_assert!(admitted(&layer, asked) <= LIMIT, "{}", name);
        }
    }
}
