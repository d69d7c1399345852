//! The networks of trusted proxies.
//!
//! `ClientAddress` reads the header field of a peer only if the peer is in a trusted network.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

/// A list of networks such as `10.0.0.0/8` or `2001:db8::/32`; an address alone is a network of one.
#[derive(Clone, Debug, Default)]
pub(super) struct Networks(Vec<IpNet>);

impl Networks {
    pub(super) fn parse<T: AsRef<str>>(
        texts: impl IntoIterator<Item = T>,
    ) -> Result<Self, NetworkError> {
        texts.into_iter().map(|text| network(text.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether an address is in one of the networks; v4-mapped addresses must be passed as IPv4.
    pub(super) fn contain(&self, ip: IpAddr) -> bool {
        self.0.iter().any(|net| net.contains(&ip))
    }
}

fn network(text: &str) -> Result<IpNet, NetworkError> {
    let text = text.trim();
    let net = text.parse::<IpNet>().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from));
    // An address with bits after its network, such as 10.0.0.5/8, may mean one proxy or a network of millions.
    let net = net.filter(|net| net.trunc() == *net);
    net.map(unmapped).ok_or_else(|| NetworkError { text: text.to_owned() })
}

/// Converts v4-mapped networks to IPv4, because addresses are looked up in that form.
fn unmapped(net: IpNet) -> IpNet {
    const MAPPED_BITS: u8 = 96;
    let IpNet::V6(v6) = net else { return net };
    let v4 = v6.addr().to_ipv4_mapped().zip(v6.prefix_len().checked_sub(MAPPED_BITS));
    v4.and_then(|(ip, bits)| Ipv4Net::new(ip, bits).ok()).map_or(net, IpNet::V4)
}

/// A text that is not a network.
///
/// ```
/// use tidegate::ClientAddress;
///
/// let error = ClientAddress::x_forwarded_for(["10.0.0.0/8", "10.0.0.0/33"]).unwrap_err();
/// assert_eq!(error.text(), "10.0.0.0/33");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct NetworkError {
    text: String,
}

impl NetworkError {
    /// The text as it was given.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A text that can be read was refused because of the bits after its network.
        match self.text.trim().parse::<IpNet>() {
            Ok(net) => write!(
                f,
                "{:?} is an address in a network: expected \"{}\" for all of the network, or \"{}\" for the address alone",
                self.text,
                net.trunc(),
                net.addr()
            ),
            Err(_) => write!(
                f,
                "{:?} is not a network: expected an address and how many of its bits count, such as \
                 \"10.0.0.0/8\" or \"2001:db8::/32\", or an address alone",
                self.text
            ),
        }
    }
}

tidegate_core::debug_as_display!(NetworkError);

impl Error for NetworkError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_their_addresses_of_either_spelling() {
        let nets = Networks::parse(["10.0.0.0/8", "::1", "2001:db8::/32", "::ffff:192.0.2.0/120"])
            .unwrap();
        for ip in ["10.255.0.1", "::1", "2001:db8:ffff::1", "192.0.2.77"] {
            assert!(nets.contain(ip.parse().unwrap()), "{ip}");
        }
        for ip in ["11.0.0.1", "::2", "2001:db9::1", "192.0.3.1"] {
            assert!(!nets.contain(ip.parse().unwrap()), "{ip}");
        }
    }

    #[test]
    fn a_text_that_is_not_a_network_is_an_error_with_what_was_expected() {
        for text in ["", "10.0.0.0/33", "proxy", "10.0.0.0-10.0.0.9", "::/129"] {
            let error = Networks::parse([text]).unwrap_err();
            assert_eq!(error.text(), text);
            assert!(error.to_string().contains("such as \"10.0.0.0/8\""), "{error}");
        }
    }

    #[test]
    fn an_address_with_the_length_of_a_network_is_an_error_with_both_readings() {
        let cases = [
            ("10.0.0.5/8", "10.0.0.0/8", "10.0.0.5"),
            (" 2001:db8::1/32", "2001:db8::/32", "2001:db8::1"),
        ];
        for (text, network, address) in cases {
            let error = Networks::parse([text]).unwrap_err().to_string();
            let expected =
                format!("expected \"{network}\" for all of the network, or \"{address}\" for");
            assert!(error.contains(&expected), "{error}");
        }
        Networks::parse(["10.0.0.5/32", "2001:db8::1/128"]).unwrap();
    }
}
