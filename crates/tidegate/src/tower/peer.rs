//! The extensions in which servers store the address of a connection's peer.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::Once;

use http::request::Parts;

/// The address of the peer of a connection, as an extension of its requests, for servers that add
/// none of their own, such as hyper alone.
///
/// With the feature `axum` the address from `into_make_service_with_connect_info::<SocketAddr>()`
/// is found as well, and with the feature `tonic` the address from its TCP server, with and without TLS.
///
/// ```
/// use tidegate::tower::PeerAddr;
///
/// let mut request = http::Request::new("");
/// request.extensions_mut().insert(PeerAddr(([192, 0, 2, 1], 4_000).into()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerAddr(pub SocketAddr);

/// Prints once on standard error that requests have no peer address, and how a server passes it on.
pub(super) fn report_missing() {
    static REPORTED: Once = Once::new();
    REPORTED.call_once(|| {
        // The reader may be gone, which is no reason to panic.
        let _ = writeln!(
            std::io::stderr(),
            "tidegate: RateLimitLayer refuses requests with 500, because a limit needs the address of their peer and \
             they have none; in axum, serve with `into_make_service_with_connect_info::<SocketAddr>()`, elsewhere \
             insert the extension `tidegate::tower::PeerAddr`"
        );
    });
}

/// The peer's address, from whichever extension has it.
pub(super) fn of(parts: &Parts) -> Option<IpAddr> {
    let own = parts.extensions.get::<PeerAddr>().map(|PeerAddr(socket)| *socket);
    own.or_else(|| of_axum(parts)).or_else(|| of_tonic(parts)).map(|socket| socket.ip())
}

#[cfg(feature = "axum")]
fn of_axum(parts: &Parts) -> Option<SocketAddr> {
    parts.extensions.get::<axum::extract::ConnectInfo<SocketAddr>>().map(|info| info.0)
}

#[cfg(not(feature = "axum"))]
const fn of_axum(_: &Parts) -> Option<SocketAddr> {
    None
}

#[cfg(feature = "tonic")]
fn of_tonic(parts: &Parts) -> Option<SocketAddr> {
    parts.extensions.get::<tonic::transport::server::TcpConnectInfo>()?.remote_addr()
}

#[cfg(not(feature = "tonic"))]
const fn of_tonic(_: &Parts) -> Option<SocketAddr> {
    None
}
