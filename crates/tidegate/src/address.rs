//! The address that identifies a caller, normalised by one function for the layer and for replays.
//!
//! A layer and a replay must name a caller alike, or a replay would count other keys.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

mod forwarded;
mod networks;
mod node;

pub use networks::NetworkError;

use forwarded::ForwardingField;
use networks::Networks;

/// Bits of an IPv6 address that distinguish callers: the smallest network that a subscriber is
/// given.
const DEFAULT_IPV6_BITS: u8 = 64;

/// Finds the address of a caller, and writes it.
///
/// A caller is the peer of its connection, unless the peer belongs to a configured network of
/// proxies. Then, and only then, one header field is trusted, from right to left: the caller is the
/// last address that is not itself such a proxy. An unreadable entry ends the walk at the proxy that
/// passed it on.
///
/// IPv4 addresses are used in full (`192.0.2.1`), v4-mapped IPv6 as IPv4, IPv6 by its network, /64
/// by default (`2001:db8::/64`).
///
/// ```
/// use tidegate::ClientAddress;
///
/// let address = ClientAddress::x_forwarded_for(["10.0.0.0/8"])?;
/// let proxy = ClientAddress::parse("[::ffff:10.0.0.1]:4000");
/// let field: [&[u8]; 1] = [b"6.6.6.6, 2001:db8::7, 10.0.0.2"];
/// let caller = address.caller(proxy, field.into_iter());
/// assert_eq!(caller.map(|ip| address.text(ip)).as_deref(), Some("2001:db8::/64"));
/// # Ok::<(), tidegate::NetworkError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientAddress {
    /// The field that the proxies write, and their networks.
    behind: Option<(ForwardingField, Networks)>,
    unknown_is_proxy: bool,
    ipv6_bits: u8,
}

impl ClientAddress {
    /// The peer's address; no header field is trusted.
    #[must_use]
    pub const fn peer() -> Self {
        Self { behind: None, unknown_is_proxy: false, ipv6_bits: DEFAULT_IPV6_BITS }
    }

    /// Trusts `X-Forwarded-For` from proxies in these networks.
    ///
    /// # Errors
    /// Returns the first text that is not a network such as `10.0.0.0/8`.
    pub fn x_forwarded_for<T: AsRef<str>>(
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, NetworkError> {
        Self::behind(ForwardingField::XForwardedFor, proxies)
    }

    /// Trusts `Forwarded` (RFC 7239) from proxies in these networks.
    ///
    /// # Errors
    /// Returns the first text that is not a network such as `10.0.0.0/8`.
    pub fn forwarded<T: AsRef<str>>(
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, NetworkError> {
        Self::behind(ForwardingField::Forwarded, proxies)
    }

    fn behind<T: AsRef<str>>(
        field: ForwardingField,
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, NetworkError> {
        Ok(Self { behind: Some((field, Networks::parse(proxies)?)), ..Self::peer() })
    }

    /// Also trusts a peer without an address, such as a proxy that connects by a Unix socket. Only
    /// for servers that no one else can reach.
    #[must_use]
    pub const fn trust_unknown_peer(mut self) -> Self {
        self.unknown_is_proxy = true;
        self
    }

    /// Sets how many leading bits of an IPv6 address distinguish callers, 64 by default; more than
    /// 128 count as 128.
    #[must_use]
    pub const fn ipv6_bits(mut self, bits: u8) -> Self {
        self.ipv6_bits = if bits > 128 { 128 } else { bits };
        self
    }

    /// The name of the trusted header field in lower case; `None` if none is.
    #[must_use]
    pub const fn field(&self) -> Option<&'static str> {
        match &self.behind {
            Some((field, _)) => Some(field.name()),
            None => None,
        }
    }

    /// Returns whether the trusted header field of this peer is read.
    #[must_use]
    pub fn trusts(&self, peer: Option<IpAddr>) -> bool {
        let Some((_, proxies)) = &self.behind else { return false };
        peer.map_or(self.unknown_is_proxy, |ip| proxies.contain(ip.to_canonical()))
    }

    /// The caller's address; `lines` are the values of the trusted header field, in order. From the peer on it
    /// reads the address that each hop reports, as long as the hop is trusted. `None` for a caller without
    /// a known address.
    pub fn caller<'a>(
        &self,
        peer: Option<IpAddr>,
        lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> Option<IpAddr> {
        let mut caller = peer.map(|ip| ip.to_canonical());
        let Some((field, _)) = &self.behind else { return caller };
        // From the nearest hop outward: an entry is believed only if a trusted proxy wrote it.
        let mut hops = field.hops(lines);
        while self.trusts(caller) {
            match hops.next() {
                Some(Some(address)) => caller = Some(address),
                // An unreadable entry and the end of the list name no caller, so the last known hop is the caller.
                Some(None) | None => break,
            }
        }
        caller
    }

    /// The address that stands for all addresses of its network: an IPv4 address itself, and of an IPv6 address the bits
    /// that distinguish callers.
    #[must_use]
    pub fn network(&self, ip: IpAddr) -> IpAddr {
        match ip.to_canonical() {
            IpAddr::V4(ip) => IpAddr::V4(ip),
            IpAddr::V6(ip) => IpAddr::V6(masked(ip, self.ipv6_bits)),
        }
    }

    /// The text that identifies the callers of an address: the value of the entry `ip`.
    #[must_use]
    pub fn text(&self, ip: IpAddr) -> String {
        match self.network(ip) {
            IpAddr::V4(ip) => dotted(ip),
            IpAddr::V6(network) => colons(network, self.ipv6_bits),
        }
    }

    /// The address in a text as peers, proxies and logs write it: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`,
    /// `[2001:db8::1]`, `[2001:db8::1]:80`, each IPv6 address with a zone (`%eth0`). `None` for everything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<IpAddr> {
        node::address(text)
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

/// Returns the text of `format!("{ip}/{bits}")`, in a fraction of its time.
fn colons(ip: Ipv6Addr, bits: u8) -> String {
    const LONGEST: usize = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128".len();
    let groups = ip.segments();
    let zeros = longest_zeros(groups);
    let mut text = String::with_capacity(LONGEST);
    for (place, group) in groups.into_iter().enumerate() {
        if place == zeros.start && !zeros.is_empty() {
            text.push_str("::");
        }
        if zeros.contains(&place) {
            continue;
        }
        // The `::` before this group separates as well.
        if place > 0 && place != zeros.end {
            text.push(':');
        }
        // A single group of 0 has one digit.
        for digit in (0..=group.checked_ilog2().unwrap_or(0) / 4).rev() {
            text.extend(char::from_digit(u32::from(group) >> (4 * digit) & 0xf, 16));
        }
    }
    text.push('/');
    text.push_str(itoa::Buffer::new().format(bits));
    text
}

/// The longest run of two or more groups that are zero, the first of equal ones; an empty range if none is.
fn longest_zeros(groups: [u16; 8]) -> Range<usize> {
    let mut longest = 0..0;
    let mut start = 0;
    for (place, group) in groups.into_iter().enumerate() {
        if group != 0 {
            start = place + 1;
        // Longer than one group, and than every run before it (RFC 5952, 4.2.2 and 4.2.3).
        } else if place + 1 - start > longest.len().max(1) {
            longest = start..place + 1;
        }
    }
    longest
}

fn masked(ip: Ipv6Addr, bits: u8) -> Ipv6Addr {
    // Of no bits the shift is by all 128, which is no shift of 128 bits.
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    Ipv6Addr::from_bits(ip.to_bits() & mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_is_written_as_the_standard_library_writes_it(
            groups in proptest::array::uniform8(prop_oneof![3 => Just(0), 1 => 0_u16..32, 1 => any::<u16>()]),
            octets: [u8; 4],
            bits in 0_u8..=128,
        ) {
            let address = ClientAddress::peer().ipv6_bits(bits);
            let v4 = Ipv4Addr::from(octets);
            prop_assert_eq!(address.text(v4.into()), v4.to_string());
            let v6 = Ipv6Addr::from(groups);
            prop_assume!(v6.to_ipv4_mapped().is_none());
            prop_assert_eq!(address.text(v6.into()), format!("{}/{bits}", masked(v6, bits)));
        }
    }
}
