//! Reads the address of a listener from a flag, a variable or a field: an IP address and a port, without look-ups.
//!
//! Names are not resolved: a name may have another address tomorrow, and the admin listener needs
//! no password.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tidegate::config::shown;

use crate::resp::ListenerAddress;

/// The address of a listener, or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Where {
    At(SocketAddr),
    Off,
}

/// The port in an example if none was given.
const USUAL_PORT: u16 = 8080;

/// Returns the address, or `off`, or the error.
pub(super) fn or_off(text: &str) -> Result<Where, String> {
    if text.eq_ignore_ascii_case("off") { Ok(Where::Off) } else { parse(text).map(Where::At) }
}

/// Parses an address. An error names the mistake and the expected form, with the intended port in the examples.
fn parse(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        // The example has the port that was meant, so that it can be pasted.
        let port = port_of(text).unwrap_or(USUAL_PORT);
        format!(
            "{}: expected an IP address and a port, such as 127.0.0.1:{port} or [::1]:{port} (this \
             machine only) or 0.0.0.0:{port} (every network); port 0 takes any free one, and `off` none at all",
            mistake(text)
        )
    })
}

/// Parses an address that clients are told: a name or an IP address, and a port.
pub(super) fn announced(text: &str) -> Result<ListenerAddress, String> {
    let address = text.rsplit_once(':').and_then(|(host, port)| {
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(ip) => ip.parse::<Ipv6Addr>().ok()?.to_string(),
            None if is_host(host) => host.to_owned(),
            None => return None,
        };
        Some(ListenerAddress { host, port })
    });
    address.ok_or_else(|| {
        "expected a name or an IP address, and a port, such as limits.example.com:6380, 10.0.0.7:6380 or \
         [2001:db8::7]:6380"
            .to_owned()
    })
}

/// Returns whether a text can be a name or an IPv4 address.
fn is_host(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

/// The mistake in a text that is no address.
fn mistake(text: &str) -> String {
    if text.contains("://") {
        return "this is a URL".to_owned();
    }
    // Before the colons are looked at, because an IPv6 address alone reads as a host and a port.
    if let Ok(ip) = text.trim_matches(['[', ']']).parse() {
        return incomplete(text, ip);
    }
    match text.rsplit_once(':') {
        None if port_of(text).is_some() => "the IP address is missing".to_owned(),
        None => format!("\"{}\" is no IP address, and the port is missing", shown(text)),
        Some(("", _)) => "the IP address is missing".to_owned(),
        Some((_, "")) => "the port is missing".to_owned(),
        Some((_, port)) if port.parse::<u16>().is_err() => {
            format!("\"{}\" is no port, which is a number from 0 to 65535", shown(port))
        }
        Some((host, _)) if host.contains(':') => {
            format!("an IPv6 address stands in brackets, and \"{}\" is none", shown(host))
        }
        Some((host, _)) => {
            format!("\"{}\" is no IP address, and names are not looked up", shown(host))
        }
    }
}

/// The error of an IP address alone; IPv6 and port without brackets reads as one too.
fn incomplete(text: &str, ip: IpAddr) -> String {
    let bare_ipv6 = ip.is_ipv6() && !text.starts_with('[');
    let brackets =
        if bare_ipv6 { ", and an IPv6 address before it stands in brackets" } else { "" };
    format!("the port is missing{brackets}")
}

fn port_of(text: &str) -> Option<u16> {
    text.rsplit(':').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_that_the_system_can_listen_on_is_taken() {
        for text in ["127.0.0.1:8080", "0.0.0.0:0", "[::1]:65535", "[::]:80"] {
            assert_eq!(parse(text).map(|at| at.to_string()).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_listener_may_be_off() {
        assert_eq!(or_off("off"), Ok(Where::Off));
        assert_eq!(or_off("[::1]:80"), Ok(Where::At("[::1]:80".parse().unwrap())));
        assert!(or_off("of").unwrap_err().contains("`off`"));
    }

    #[test]
    fn an_announced_address_is_a_name_or_an_ip_address_and_a_port() {
        for (text, host) in [
            ("limits.example.com:6380", "limits.example.com"),
            ("10.0.0.7:6380", "10.0.0.7"),
            ("[2001:db8::7]:6380", "2001:db8::7"),
        ] {
            let expected = ListenerAddress { host: host.to_owned(), port: 6380 };
            assert_eq!(announced(text), Ok(expected), "{text}");
        }
        for text in ["", "a", ":1", "a:", "a:0", "a:65536", "::1:6380", "[a]:1", "a b:1", "a,b:1"] {
            assert!(announced(text).unwrap_err().starts_with("expected a name or"), "{text}");
        }
    }

    #[test]
    fn a_mistake_is_named_and_the_example_has_the_port_that_was_meant() {
        for (text, mistake, example) in [
            (
                "localhost:9000",
                "\"localhost\" is no IP address, and names are not",
                "127.0.0.1:9000",
            ),
            ("*:9000", "\"*\" is no IP address", "0.0.0.0:9000"),
            ("9000", "the IP address is missing", "127.0.0.1:9000"),
            (":9000", "the IP address is missing", "127.0.0.1:9000"),
            ("127.0.0.1", "the port is missing:", "127.0.0.1:8080"),
            ("[::1]", "the port is missing:", "[::1]:8080"),
            (
                "::1",
                "the port is missing, and an IPv6 address before it stands in brackets",
                "[::1]:1 ",
            ),
            ("127.0.0.1:", "the port is missing:", "127.0.0.1:8080"),
            ("127.0.0.1:99999", "\"99999\" is no port", "127.0.0.1:8080"),
            ("127.0.0.1:http", "\"http\" is no port", "127.0.0.1:8080"),
            (
                "1:2:3:80",
                "an IPv6 address stands in brackets, and \"1:2:3\" is none",
                "127.0.0.1:80 ",
            ),
            ("http://127.0.0.1:9000", "this is a URL", "127.0.0.1:9000"),
            (
                "localhost",
                "\"localhost\" is no IP address, and the port is missing",
                "127.0.0.1:8080",
            ),
            ("", "\"\" is no IP address, and the port is missing", "127.0.0.1:8080"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.starts_with(mistake) && said.contains(example), "{text}: {said}");
        }
    }
}
