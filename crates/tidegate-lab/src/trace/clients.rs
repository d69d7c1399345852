//! The client of a line: an address, normalised as the layer normalises it, or the name of a host.
//!
//! A format finds the texts that may name a client. Here one of them is chosen, by the proxies that are trusted.

use std::borrow::Cow;
use std::net::Ipv4Addr;

use tidegate::ClientAddress;

use super::bad_lines::BadLineReason;

/// The text that nginx writes for a client that connects by a Unix socket.
const UNIX_SOCKET: &str = "unix:";

/// The client as a log has it: the peer of the connection, and the fields that proxies write.
#[derive(Debug, Default)]
pub(super) struct WrittenClient<'a> {
    pub(super) peer: Option<Cow<'a, str>>,
    pub(super) x_forwarded_for: Option<Cow<'a, str>>,
    pub(super) forwarded: Option<Cow<'a, str>>,
}

/// The client of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FoundClient<'a> {
    /// The value of the entry `ip`.
    pub(super) ip: Cow<'a, str>,
    /// True for a trusted proxy whose line names no other caller.
    pub(super) is_proxy: bool,
}

/// Finds clients as a layer with this [`ClientAddress`] does.
#[derive(Debug, Clone)]
pub(super) struct ClientFinder(pub(super) ClientAddress);

impl ClientFinder {
    pub(super) fn find<'a>(
        &self,
        written: WrittenClient<'a>,
    ) -> Result<FoundClient<'a>, BadLineReason> {
        let WrittenClient { peer, x_forwarded_for, forwarded } = written;
        let known = peer.filter(|peer| peer != UNIX_SOCKET && peer != "-");
        // Only the field that is configured is read, as by the layer: callers may write the other field.
        let (peer, field) = match (known, x_forwarded_for) {
            (Some(peer), field) if self.0.field() != Some("forwarded") => (peer, field),
            (Some(peer), _) => (peer, forwarded),
            // The last entry is the peer of the proxy that wrote the line.
            (None, Some(field)) => last_entry(field),
            (None, None) => return Err("the line has no client".into()),
        };
        if self.0.field().is_none() && peer.parse::<Ipv4Addr>().is_ok() {
            return Ok(FoundClient { ip: peer, is_proxy: false }); // already as it is written
        }
        match ClientAddress::parse(&peer) {
            Some(address) => {
                let lines = field.iter().map(|line| line.as_bytes());
                let caller = self.0.caller(Some(address), lines).unwrap_or(address);
                let is_proxy = self.0.trusts(Some(caller));
                Ok(FoundClient { ip: Cow::Owned(self.0.text(caller)), is_proxy })
            }
            None if is_host(&peer) => Ok(FoundClient { ip: peer, is_proxy: false }),
            None => Err(format!(
                "the client is {peer:?}, expected an address, the name of a host or localhost"
            )
            .into()),
        }
    }
}

/// The last entry of a list, and the list before it.
fn last_entry(list: Cow<'_, str>) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
    let Some(comma) = list.rfind(',') else { return (list, None) };
    match list {
        Cow::Borrowed(list) => (list[comma + 1..].trim().into(), Some(list[..comma].into())),
        Cow::Owned(list) => {
            (list[comma + 1..].trim().to_owned().into(), Some(list[..comma].to_owned().into()))
        }
    }
}

/// Returns whether a word can be a client: an address with or without a port, or a host.
pub(super) fn is_client(word: &[u8]) -> bool {
    is_address(word) || std::str::from_utf8(word).is_ok_and(is_host)
}

/// Returns whether a word is an address, with or without a port.
pub(super) fn is_address(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok_and(|word| ClientAddress::parse(word).is_some())
}

/// Returns whether a word is `localhost`, or a name of at least two labels whose last is not a number. So a duration, a
/// month or `stdout` is no host.
pub(super) fn is_host(word: &str) -> bool {
    if word == "localhost" {
        return true;
    }
    let name = word.strip_suffix('.').unwrap_or(word);
    let Some((_, last)) = name.rsplit_once('.') else { return false };
    last.starts_with(|first: char| first.is_ascii_alphabetic()) && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let mut bytes = label.bytes();
    !label.is_empty()
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(
        clients: &ClientFinder,
        peer: &str,
        field: Option<&str>,
    ) -> Result<(String, bool), String> {
        let written = WrittenClient {
            peer: Some(peer.into()),
            x_forwarded_for: field.map(Cow::from),
            ..WrittenClient::default()
        };
        let client = clients.find(written).map_err(Cow::into_owned)?;
        Ok((client.ip.into_owned(), client.is_proxy))
    }

    #[test]
    fn a_client_is_an_address_a_name_with_a_dot_or_localhost() {
        let clients = ClientFinder(ClientAddress::peer());
        for (written, ip) in [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:4711", "192.0.2.1"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("[::ffff:c000:201]:80", "192.0.2.1"),
            ("2001:db8::7", "2001:db8::/64"),
            ("2001:DB8:0::0:9", "2001:db8::/64"),
            ("[2001:db8::7]:4711", "2001:db8::/64"),
            ("fe80::1%eth0", "fe80::/64"),
            ("localhost", "localhost"),
            ("crawl-1.search.example", "crawl-1.search.example"),
            ("host_1.example.", "host_1.example."),
        ] {
            assert_eq!(found(&clients, written, None), Ok((ip.to_owned(), false)), "{written}");
        }
        for written in
            "stdout May F web-1 | nginx[7]: 0.004 192.0.2 192.0.2.256 192.0.2.1, a..b . a.1 - \
             unix: access.log:192.0.2.1"
                .split(' ')
                .chain([""])
        {
            assert!(found(&clients, written, None).is_err(), "{written}");
        }
    }

    #[test]
    fn fields_are_believed_from_trusted_proxies_alone() {
        let behind = ClientFinder(ClientAddress::x_forwarded_for(["10.0.0.0/8"]).unwrap());
        let field = Some("6.6.6.6, 2001:db8::7, 10.0.0.2");
        assert_eq!(found(&behind, "10.0.0.1:9", field), Ok(("2001:db8::/64".to_owned(), false)));
        assert_eq!(found(&behind, "192.0.2.1", field), Ok(("192.0.2.1".to_owned(), false)));
        assert_eq!(found(&behind, "10.0.0.1", Some("-")), Ok(("10.0.0.1".to_owned(), true)));
        assert_eq!(found(&behind, "10.0.0.1", None), Ok(("10.0.0.1".to_owned(), true)));
        let anyone = ClientFinder(ClientAddress::peer());
        assert_eq!(found(&anyone, "10.0.0.1", field), Ok(("10.0.0.1".to_owned(), false)));
    }

    #[test]
    fn without_a_peer_the_last_entry_of_the_field_is_it() {
        let field = Some("6.6.6.6, 192.0.2.7, 10.0.0.2");
        for peer in ["unix:", "-"] {
            let anyone = ClientFinder(ClientAddress::peer());
            assert_eq!(found(&anyone, peer, field), Ok(("10.0.0.2".to_owned(), false)));
            let behind = ClientFinder(ClientAddress::x_forwarded_for(["10.0.0.0/8"]).unwrap());
            assert_eq!(found(&behind, peer, field), Ok(("192.0.2.7".to_owned(), false)));
        }
    }
}
