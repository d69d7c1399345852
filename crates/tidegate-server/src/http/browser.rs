//! Refuses requests that a browser makes for a web page, from the network of the page's reader. `routes.rs` asks here
//! before any handler.
//!
//! A browser can reach addresses that the page's server cannot: this machine, a private network. If clients need a
//! token, a page has none. Otherwise two things reveal a page: `Origin`, which a browser adds and a page cannot
//! change; and, for a page whose own name resolves to this machine (DNS rebinding), that name as the host.

use std::net::IpAddr;

use hyper::header::{HOST, ORIGIN};

use super::message::HttpRequest;
use crate::refusal::{RefusalKind, RequestRefusal};

/// Refuses requests of a page of another origin.
pub(super) fn check_origin(has_token: bool, request: &HttpRequest) -> Result<(), RequestRefusal> {
    // A browser adds no bearer token by itself, so a page cannot send such a request.
    if has_token {
        return Ok(());
    }
    for origin in request.headers().get_all(ORIGIN) {
        if !is_own(origin.as_bytes(), host(request)) {
            let origin = String::from_utf8_lossy(origin.as_bytes());
            let detail = format!(
                "a web page of {origin:?} asks: expected no header field `origin`, or the origin of this \
                 listener; a server with a token (--token-file) does not mind"
            );
            return Err(RefusalKind::Forbidden.because(detail));
        }
    }
    Ok(())
}

/// Refuses a host that is a name, because any page can have a name that resolves to this machine.
pub(super) fn check_host(has_token: bool, request: &HttpRequest) -> Result<(), RequestRefusal> {
    match host(request).filter(|host| !has_token && !is_address(host)) {
        None => Ok(()),
        Some(host) => {
            let detail = format!(
                "the host is {host:?}: expected an IP address or localhost where no token is asked for; \
                 ask at the address, or give the listener a token (--admin-token-file)"
            );
            Err(RefusalKind::Forbidden.because(detail))
        }
    }
}

/// The host of the request: a name or an address, perhaps with a port.
fn host(request: &HttpRequest) -> Option<&str> {
    // An authority in the target overrides the header field (RFC 9112, 3.2.2).
    let authority = request.uri().authority().map(hyper::http::uri::Authority::as_str);
    // A value that is not text is not a name of this machine.
    authority.or_else(|| Some(request.headers().get(HOST)?.to_str().unwrap_or("?")))
}

/// Returns whether an origin (`scheme://host:port`) is at this host.
fn is_own(origin: &[u8], host: Option<&str>) -> bool {
    // `null`, the origin of a sandboxed page, has no scheme and is never this host.
    let origin = std::str::from_utf8(origin).ok().and_then(|origin| origin.split_once("://"));
    origin.zip(host).is_some_and(|((_, theirs), host)| theirs.eq_ignore_ascii_case(host))
}

fn is_address(host: &str) -> bool {
    let name = without_port(host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    bare.parse::<IpAddr>().is_ok() || name.eq_ignore_ascii_case("localhost")
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // The last part of an IPv6 address in brackets ends with `]`, and is no port.
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_localhost_are_no_names_of_a_page() {
        for host in
            ["127.0.0.1", "10.0.0.7:9090", "[::1]:9090", "[::1]", "localhost:1", "LOCALHOST"]
        {
            assert!(is_address(host), "{host}");
        }
        for host in ["evil.example:9090", "localhost.evil.example", "1.2.3.4.evil.example", "", "?"]
        {
            assert!(!is_address(host), "{host}");
        }
    }

    #[test]
    fn an_origin_is_own_at_the_same_host_and_port() {
        assert!(is_own(b"http://127.0.0.1:9090", Some("127.0.0.1:9090")));
        for foreign in
            ["null", "http://127.0.0.1:8000", "http://evil.example", "127.0.0.1:9090", ""]
        {
            assert!(!is_own(foreign.as_bytes(), Some("127.0.0.1:9090")), "{foreign}");
        }
        assert!(!is_own(b"http://a", None) && !is_own(b"\xff://a", Some("a")));
    }
}
