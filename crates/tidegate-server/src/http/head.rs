//! Rules for the head of a request over every version of HTTP: a bounded size, one host, and a body in a known coding
//! (RFC 9112, 3.2 and 6.1). hyper accepts more, so `routes.rs` asks [`is_clear`] first: a proxy that reads an unclear
//! head in another way would see other requests.

use hyper::Version;
use hyper::header::{CONNECTION, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::http::uri::Authority;

use super::connection::HEAD_BYTES;
use super::message::HttpRequest;
use crate::refusal::{RefusalKind, RequestRefusal};

/// Refuses a request whose head is too large, whose host is missing, repeated or invalid, or whose
/// body has a coding other than `chunked`.
pub(super) fn is_clear(request: &HttpRequest) -> Result<(), RequestRefusal> {
    // The buffer of a connection over HTTP/1.1 has held its head already.
    if request.version() == Version::HTTP_2 && bytes_over_http_2(request) > HEAD_BYTES as usize {
        let detail = format!("the head is too large: expected at most {HEAD_BYTES} bytes");
        return Err(RefusalKind::HeadTooLarge.because(detail));
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        // RFC 9112, 3.2: over HTTP/2 the host is in `:authority`, and HTTP/1.0 needs none.
        (None, _) if request.version() == Version::HTTP_11 => {
            return Err(no_host("the header field `host` is missing"));
        }
        (Some(host), None) if !is_host(host) => return Err(no_host("`host` is no host")),
        (_, Some(_)) => return Err(no_host("the header field `host` is given twice")),
        _ => {}
    }
    let codings = request.headers().get_all(TRANSFER_ENCODING);
    if codings.iter().any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"chunked")) {
        // The end of such a body is not known, so the next request cannot be found.
        return Err(unknown_coding().with(CONNECTION, HeaderValue::from_static("close")));
    }
    Ok(())
}

/// The bytes of a head without its method and scheme, as HTTP/2 counts them (RFC 9113, 6.5.2).
fn bytes_over_http_2(request: &HttpRequest) -> usize {
    const OF_A_FIELD: usize = 32;
    let uri = request.uri();
    let path = uri.path_and_query().map_or(0, |path| path.as_str().len());
    let authority = uri.authority().map_or(0, |authority| authority.as_str().len());
    let fields = request.headers().iter();
    let fields = fields.map(|(name, value)| name.as_str().len() + value.len() + OF_A_FIELD);
    path + authority + fields.sum::<usize>()
}

/// The problem of a body with a coding other than `chunked`.
fn unknown_coding() -> RequestRefusal {
    let detail = "the body is in a transfer coding that is not known here: expected `transfer-encoding: chunked`, \
                  or none and a content-length";
    RefusalKind::UnknownCoding.because(detail)
}

/// A name or an address, perhaps with a port; it may be empty.
fn is_host(host: &HeaderValue) -> bool {
    let bytes = host.as_bytes();
    // An authority may name a user, and a host may not.
    bytes.is_empty() || Authority::try_from(bytes).is_ok_and(|host| !host.as_str().contains('@'))
}

fn no_host(what: &str) -> RequestRefusal {
    let detail =
        format!("{what}: expected one `host` with the name or address that is asked, and its port");
    RefusalKind::InvalidRequest.because(detail)
}
