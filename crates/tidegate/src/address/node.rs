//! The forms in which a hop writes an address: with a port, in brackets, with a zone, or alone.
//!
//! Entries of both header fields are read by it, and addresses in logs.

use std::net::{IpAddr, Ipv6Addr};

/// The address of one entry of `X-Forwarded-For`, or of an RFC 7239 node after unquoting.
///
/// Takes `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`, each IPv6
/// address with a zone (`%eth0`), each port also obfuscated (`_p`). `None` for everything else,
/// including `unknown` and obfuscated names (`_hidden`), which do not identify the caller.
pub(super) fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let found = match text.strip_prefix('[') {
        Some(rest) => bracketed(rest),
        None => v6(text).or_else(|| v4(text)),
    };
    found.map(|ip| ip.to_canonical())
}

fn bracketed(rest: &str) -> Option<IpAddr> {
    let (inside, after) = rest.split_once(']')?;
    let fits = after.is_empty() || after.strip_prefix(':').is_some_and(is_port);
    v6(inside).filter(|_| fits)
}

fn v4(text: &str) -> Option<IpAddr> {
    let (ip, port) = text.split_once(':').map_or((text, None), |(ip, port)| (ip, Some(port)));
    let ip = ip.parse().ok().map(IpAddr::V4);
    ip.filter(|_| port.is_none_or(is_port))
}

/// The zone has a meaning only for the hop that wrote it.
fn v6(text: &str) -> Option<IpAddr> {
    let ip = match text.split_once('%') {
        Some((ip, zone)) if !zone.is_empty() => ip,
        Some(_) => return None,
        None => text,
    };
    ip.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

/// RFC 7239, section 6.3: up to five digits, or `_` and letters, digits, `.`, `_`, `-`.
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some("") => false,
        Some(name) => {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        }
        None => (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        address(text).map(|ip| ip.to_string())
    }

    #[test]
    fn ports_brackets_and_zones_are_taken_off() {
        let v4 = [
            "192.0.2.43",
            " 192.0.2.43\t",
            "192.0.2.43:47011",
            "192.0.2.43:_p",
            "::ffff:192.0.2.43",
        ];
        assert!(v4.iter().all(|text| read(text).as_deref() == Some("192.0.2.43")), "{v4:?}");
        let v6 = [
            "2001:db8:cafe::17",
            "[2001:db8:cafe::17]",
            "[2001:db8:cafe::17]:4711",
            "2001:DB8:CAFE::17%eth0",
        ];
        assert!(v6.iter().all(|text| read(text).as_deref() == Some("2001:db8:cafe::17")), "{v6:?}");
        assert_eq!(read("[fe80::1%25eth0]:80").as_deref(), Some("fe80::1"));
        assert_eq!(read("[::ffff:192.0.2.43]:80").as_deref(), Some("192.0.2.43"));
    }

    #[test]
    fn what_is_no_address_is_none() {
        let texts = "| |unknown|_hidden|_SEVKISEK|localhost|192.0.2|192.0.2.256|192.0.2.1:|\
                     192.0.2.1:123456|192.0.2.1:80x|192.0.2.1 192.0.2.2|[::1|::1]|[192.0.2.1]|[::1]80|\
                     [::1]:|::1%|192.0.2.1%eth0|0300.0.2.1|1|-";
        for text in texts.split('|') {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
