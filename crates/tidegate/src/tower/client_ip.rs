//! The address of a caller: the peer's, or the one that trusted proxies report.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use http::HeaderMap;
use http::request::Parts;

mod forwarded;
mod networks;
mod node;

pub use networks::NetworkError;

use super::extract::Extract;
use super::peer;
use forwarded::Field;
use networks::Networks;

type PeerOf = dyn Fn(&Parts) -> Option<IpAddr> + Send + Sync;

/// Bits of an IPv6 address that distinguish callers: the smallest network that a subscriber is
/// given.
const DEFAULT_IPV6_BITS: u8 = 64;

/// An extractor of the caller's network address.
///
/// The address is that of the connection's peer ([`PeerAddr`](super::PeerAddr), or the extension
/// that axum and tonic add with the features of their names) unless the peer belongs to a
/// configured network of proxies. Then, and only then, one header field is trusted, from right to
/// left: the caller is the last address that is not itself such a proxy. An unreadable entry ends
/// the walk at the proxy that passed it on. Header fields of any other peer are never read.
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
/// # Ok::<(), tidegate::tower::NetworkError>(())
/// ```
#[derive(Clone)]
pub struct ClientIp {
    peer: Arc<PeerOf>,
    /// The field that the proxies write, and their networks.
    behind: Option<(Field, Networks)>,
    unknown_is_proxy: bool,
    ipv6_bits: u8,
}

impl ClientIp {
    /// The peer's address; no header field is trusted.
    #[must_use]
    pub fn peer() -> Self {
        Self {
            peer: Arc::new(peer::of),
            behind: None,
            unknown_is_proxy: false,
            ipv6_bits: DEFAULT_IPV6_BITS,
        }
    }

    /// Trusts `X-Forwarded-For` from proxies in these networks.
    ///
    /// # Errors
    /// Returns the first text that is not a network such as `10.0.0.0/8`.
    pub fn x_forwarded_for<T: AsRef<str>>(
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, NetworkError> {
        Self::behind(Field::XForwardedFor, proxies)
    }

    /// Trusts `Forwarded` (RFC 7239) from proxies in these networks.
    ///
    /// # Errors
    /// Returns the first text that is not a network such as `10.0.0.0/8`.
    pub fn forwarded<T: AsRef<str>>(
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, NetworkError> {
        Self::behind(Field::Forwarded, proxies)
    }

    fn behind<T: AsRef<str>>(
        field: Field,
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, NetworkError> {
        Ok(Self { behind: Some((field, Networks::parse(proxies)?)), ..Self::peer() })
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
    pub const fn trust_unknown_peer(mut self) -> Self {
        self.unknown_is_proxy = true;
        self
    }

    /// Sets how many leading bits of an IPv6 address distinguish callers, 64 by default; more than
    /// 128 count as 128. Fewer bits also limit a caller who has a larger network (a /56 or a /48).
    #[must_use]
    pub const fn ipv6_bits(mut self, bits: u8) -> Self {
        self.ipv6_bits = if bits > 128 { 128 } else { bits };
        self
    }

    fn address(&self, parts: &Parts) -> Option<IpAddr> {
        let peer = (self.peer)(parts).map(|ip| ip.to_canonical());
        match &self.behind {
            Some((field, proxies)) => self.walk(peer, *field, proxies, &parts.headers),
            None => peer,
        }
    }

    /// From the peer on, reads the address that each hop reports, as long as the hop is trusted.
    fn walk(
        &self,
        peer: Option<IpAddr>,
        field: Field,
        proxies: &Networks,
        headers: &HeaderMap,
    ) -> Option<IpAddr> {
        let mut caller = peer;
        let mut hops = field.hops(headers);
        while caller.map_or(self.unknown_is_proxy, |ip| proxies.contain(ip)) {
            match hops.next() {
                Some(Some(address)) => caller = Some(address),
                Some(None) | None => break,
            }
        }
        caller
    }

    /// The address that identifies a caller, without text; `None` for a caller without a known address.
    pub(super) fn caller(&self, parts: &Parts) -> Option<IpAddr> {
        Some(match self.address(parts)? {
            IpAddr::V4(ip) => IpAddr::V4(ip),
            IpAddr::V6(ip) => IpAddr::V6(masked(ip, self.ipv6_bits)),
        })
    }

    fn shown(&self, ip: IpAddr) -> String {
        match ip {
            IpAddr::V4(ip) => dotted(ip),
            IpAddr::V6(ip) => format!("{}/{}", masked(ip, self.ipv6_bits), self.ipv6_bits),
        }
    }
}

/// Returns the text of `ip.to_string()`, in a fraction of its time.
fn dotted(ip: Ipv4Addr) -> String {
    const LONGEST: usize = "255.255.255.255".len();
    let mut text = String::with_capacity(LONGEST);
    for octet in ip.octets() {
        if !text.is_empty() {
            text.push('.');
        }
        text.push_str(itoa::Buffer::new().format(octet));
    }
    text
}

fn masked(ip: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    Ipv6Addr::from_bits(ip.to_bits() & mask)
}

impl Extract for ClientIp {
    fn extract(&self, parts: &Parts) -> Option<String> {
        self.read(parts).map(Cow::into_owned)
    }

    fn read<'a>(&self, parts: &'a Parts) -> Option<Cow<'a, str>> {
        self.address(parts).map(|ip| Cow::Owned(self.shown(ip)))
    }

    fn is_address(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for ClientIp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { peer: _, behind, unknown_is_proxy, ipv6_bits } = self;
        let mut debug = f.debug_struct("ClientIp");
        debug.field("behind", behind).field("unknown_is_proxy", unknown_is_proxy);
        debug.field("ipv6_bits", ipv6_bits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
