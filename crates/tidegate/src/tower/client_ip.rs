//! An extractor of a caller's address: the peer's, or the address that trusted proxies report.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Once};

#[cfg(feature = "axum")]
use axum::extract::connect_info::{ConnectInfo, MockConnectInfo};
use http::HeaderValue;
use http::request::Parts;

use super::extract::Extract;
use crate::address::{ClientAddress, NetworkError};

type PeerOf = dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync;

/// An extractor of the caller's network address.
///
/// The address is the address of the connection's peer ([`PeerAddr`](super::PeerAddr), or the extension that axum and
/// tonic add with the features of their names) unless the peer belongs to a configured network of proxies. Then, and
/// only then, one header field is trusted, from right to left: the caller is the last address that is not itself such a
/// proxy. An unreadable entry ends the walk at the proxy that passed it on. Header fields of any other peer are never
/// read.
///
/// IPv4 addresses are used in full (`192.0.2.1`), v4-mapped IPv6 as IPv4, IPv6 by its network, /64
/// by default (`2001:db8::/64`): a subscriber has 2^64 addresses and more. A caller without a known
/// address has no value; the layer then refuses the request with 500
/// ([`Reason::NoAddress`](super::Reason::NoAddress)) if an enforced rule of its domain looks at the
/// entry, and prints once on standard error how a server passes addresses on.
///
/// ```
/// use std::net::SocketAddr;
/// use tidegate::tower::{ClientIp, Extract, PeerAddr};
///
/// let peer = |text: &str| PeerAddr(text.parse::<SocketAddr>().unwrap());
/// let ask = http::Request::get("/").header("x-forwarded-for", "6.6.6.6, 192.0.2.7, 10.0.0.2");
/// let (mut parts, ()) = ask.body(()).unwrap().into_parts();
///
/// let behind = ClientIp::x_forwarded_for(["10.0.0.0/8"])?;
/// parts.extensions.insert(peer("10.0.0.1:4000"));
/// assert_eq!(behind.extract(&parts).as_deref(), Some("192.0.2.7"));
///
/// parts.extensions.insert(peer("198.51.100.9:4000"));
/// assert_eq!(behind.extract(&parts).as_deref(), Some("198.51.100.9"));
/// # Ok::<(), tidegate::NetworkError>(())
/// ```
#[derive(Clone)]
pub struct ClientIp {
    peer: Arc<PeerOf>,
    address: ClientAddress,
}

impl ClientIp {
    /// The peer's address; no header field is trusted.
    #[must_use]
    pub fn peer() -> Self {
        Self::of(ClientAddress::peer())
    }

    fn of(address: ClientAddress) -> Self {
        Self { peer: Arc::new(peer_of), address }
    }

    /// Trusts `X-Forwarded-For` from proxies in these networks.
    ///
    /// # Errors
    /// Returns the first text that is not a network such as `10.0.0.0/8`.
    pub fn x_forwarded_for<T: AsRef<str>>(
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, NetworkError> {
        ClientAddress::x_forwarded_for(proxies).map(Self::of)
    }

    /// Trusts `Forwarded` (RFC 7239) from proxies in these networks.
    ///
    /// # Errors
    /// Returns the first text that is not a network such as `10.0.0.0/8`.
    pub fn forwarded<T: AsRef<str>>(
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, NetworkError> {
        ClientAddress::forwarded(proxies).map(Self::of)
    }

    /// Reads the peer's address from elsewhere, such as another extension of the request.
    #[must_use]
    pub fn peer_from(
        mut self,
        peer: impl Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
    ) -> Self {
        self.peer = Arc::new(peer);
        self
    }

    /// Also trusts a peer without an address, such as a proxy that connects by a Unix socket. Only
    /// for servers that no one else can reach.
    #[must_use]
    pub fn trust_unknown_peer(mut self) -> Self {
        self.address = self.address.trust_unknown_peer();
        self
    }

    /// Sets how many leading bits of an IPv6 address distinguish callers, 64 by default; more than
    /// 128 count as 128. Fewer bits also limit a caller who has a larger network (a /56 or a /48).
    #[must_use]
    pub fn ipv6_bits(mut self, bits: u8) -> Self {
        self.address = self.address.ipv6_bits(bits);
        self
    }

    fn address(&self, parts: &Parts) -> Option<IpAddr> {
        let peer = (self.peer)(parts);
        let Some(field) = self.address.field() else {
            return self.address.caller(peer, std::iter::empty());
        };
        let lines = parts.headers.get_all(field).iter();
        self.address.caller(peer, lines.map(HeaderValue::as_bytes))
    }

    /// The address that identifies the caller, without text; `None` for a caller without a known address.
    pub(super) fn caller(&self, parts: &Parts) -> Option<IpAddr> {
        self.address(parts).map(|ip| self.address.network(ip))
    }
}

impl Extract for ClientIp {
    fn extract(&self, parts: &Parts) -> Option<String> {
        self.read(parts).map(Cow::into_owned)
    }

    fn read<'a>(&self, parts: &'a Parts) -> Option<Cow<'a, str>> {
        self.address(parts).map(|ip| Cow::Owned(self.address.text(ip)))
    }

    fn is_address(&self) -> bool {
        true
    }
}

impl fmt::Debug for ClientIp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIp").field("address", &self.address).finish_non_exhaustive()
    }
}

/// The address of the peer of a connection, as an extension of its requests, for servers that add
/// none of their own, such as hyper alone.
///
/// With the feature `axum` the address from `into_make_service_with_connect_info::<SocketAddr>()`
/// is found as well, or from `MockConnectInfo` in a test, and with the feature `tonic` the address from its TCP server, with and without TLS.
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
pub(super) fn report_missing_peer() {
    static REPORTED: Once = Once::new();
    REPORTED.call_once(|| {
        // The reader may be gone, which is no reason to panic.
        let _ = writeln!(
            std::io::stderr(),
            "tidegate: RateLimitLayer refuses requests with 500, because a limit needs the address of their peer and \
             they have none; in axum, {IN_AXUM}, elsewhere insert the extension `tidegate::tower::PeerAddr`"
        );
    });
}

/// The way in which an axum server passes addresses on.
#[cfg(feature = "axum")]
const IN_AXUM: &str = "serve with `into_make_service_with_connect_info::<SocketAddr>()` (in a test, put the layer \
                       `MockConnectInfo` around the limits)";
#[cfg(not(feature = "axum"))]
const IN_AXUM: &str = "enable the feature `axum` of tidegate, and serve with \
                       `into_make_service_with_connect_info::<SocketAddr>()`";

/// The peer's address, from whichever extension has it.
fn peer_of(parts: &Parts) -> Option<IpAddr> {
    // The extension of the program goes before the extensions of servers.
    let peer = parts.extensions.get::<PeerAddr>().map(|PeerAddr(socket)| *socket);
    #[cfg(feature = "axum")]
    let peer = peer
        .or_else(|| parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0))
        .or_else(|| parts.extensions.get::<MockConnectInfo<SocketAddr>>().map(|mock| mock.0));
    #[cfg(feature = "tonic")]
    let peer = peer.or_else(|| {
        parts.extensions.get::<tonic::transport::server::TcpConnectInfo>()?.remote_addr()
    });
    peer.map(|socket| socket.ip())
}

#[cfg(test)]
mod tests;
