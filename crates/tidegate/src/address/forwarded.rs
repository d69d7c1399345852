//! The two header fields in which proxies report callers, read from right to left.
//!
//! The proxy next to this server wrote the rightmost entry; any caller can write the entries to its left. So nothing is
//! parsed from the left: a quote that a caller left open there cannot swallow a later entry of a proxy, and an invalid
//! byte spoils only its own entry.

use std::net::IpAddr;

use super::node;

/// The header field that the proxies write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ForwardingField {
    XForwardedFor,
    Forwarded,
}

impl ForwardingField {
    /// The name of the field, in lower case.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }

    /// The address that each hop reports, the last hop first; `None` for a hop that reports none,
    /// or none that is readable. Several lines of the field are one list.
    pub(super) fn hops<'a>(
        self,
        lines: impl DoubleEndedIterator<Item = &'a [u8]>,
    ) -> impl Iterator<Item = Option<IpAddr>> {
        let entries = lines.rev().flat_map(move |line| Backward::new(line, self.quoting(), b','));
        // Empty elements of a list do not count (RFC 9110, 5.6.1).
        let entries = entries.filter(|entry| !entry.trim_ascii().is_empty());
        entries.map(move |entry| self.address(std::str::from_utf8(entry).ok()?))
    }

    const fn quoting(self) -> bool {
        matches!(self, Self::Forwarded)
    }

    fn address(self, entry: &str) -> Option<IpAddr> {
        match self {
            Self::XForwardedFor => node::address(entry),
            Self::Forwarded => forwarded_for(entry),
        }
    }
}

/// The address in the `for` parameter of an element such as `for="[2001:db8::1]:80";proto=https`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let parts = Backward::new(element.as_bytes(), true, b';');
    let mut named = parts.filter_map(|part| {
        let (name, value) = std::str::from_utf8(part).ok()?.split_once('=')?;
        name.trim().eq_ignore_ascii_case("for").then_some(value.trim())
    });
    let value = named.next()?;
    // Nothing says which of two the proxy wrote.
    if named.next().is_some() {
        return None;
    }
    node::address(&unquoted(value)?)
}

/// A token unchanged, or a quoted string without its quotes and backslashes.
fn unquoted(value: &str) -> Option<String> {
    let Some(rest) = value.strip_prefix('"') else { return Some(value.to_owned()) };
    let inside = rest.strip_suffix('"')?;
    let mut text = String::with_capacity(inside.len());
    let mut chars = inside.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => text.push(chars.next()?),
            // A quote inside without a backslash: this was not a single quoted string.
            '"' => return None,
            other => text.push(other),
        }
    }
    Some(text)
}

/// The parts of a list from its end, split at each `separator` outside of quotes.
struct Backward<'a> {
    left: Option<&'a [u8]>,
    quoting: bool,
    separator: u8,
}

impl<'a> Backward<'a> {
    const fn new(text: &'a [u8], quoting: bool, separator: u8) -> Self {
        Self { left: Some(text), quoting, separator }
    }

    /// The position of the last separator outside of quotes.
    fn last_separator(&self, text: &[u8]) -> Option<usize> {
        let mut quoted = false;
        for (at, byte) in text.iter().enumerate().rev() {
            // From the right a quote first closes and then opens, which changes nothing for what is between.
            if *byte == b'"' && self.quoting && !is_escaped(text, at) {
                quoted = !quoted;
            } else if *byte == self.separator && !quoted {
                return Some(at);
            }
        }
        None
    }
}

/// Returns whether an odd number of backslashes precedes the character.
fn is_escaped(text: &[u8], at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    before.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

impl<'a> Iterator for Backward<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.left.take()?;
        let Some(at) = self.last_separator(text) else { return Some(text) };
        self.left = text.get(..at);
        text.get(at + 1..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hops(field: ForwardingField, lines: &[&[u8]]) -> Vec<String> {
        let hops = field.hops(lines.iter().copied());
        hops.map(|ip| ip.map_or("?".into(), |ip| ip.to_string())).collect()
    }

    #[test]
    fn forwarded_as_in_the_examples_of_rfc_7239() {
        let of = |text: &str| hops(ForwardingField::Forwarded, &[text.as_bytes()]);
        assert_eq!(of("for=\"_gazonk\""), ["?"]);
        assert_eq!(of("For=\"[2001:db8:cafe::17]:4711\""), ["2001:db8:cafe::17"]);
        assert_eq!(of("for=192.0.2.60;proto=http;by=203.0.113.43"), ["192.0.2.60"]);
        assert_eq!(of("for=192.0.2.43, for=198.51.100.17"), ["198.51.100.17", "192.0.2.43"]);
        assert_eq!(of("for=_hidden, for=_SEVKISEK"), ["?", "?"]);
        let several = "for=192.0.2.43,for=\"[2001:db8:cafe::17]\",for=unknown";
        assert_eq!(of(several), ["?", "2001:db8:cafe::17", "192.0.2.43"]);
        assert_eq!(of("for=\"192.0.2.43:47011\""), ["192.0.2.43"]);
        let spoken = "for=192.0.2.43, for=\"[2001:db8:cafe::17]\";host=\"a,b;c\";proto=https";
        assert_eq!(of(spoken), ["2001:db8:cafe::17", "192.0.2.43"]);
    }

    #[test]
    fn forwarded_lines_are_one_list() {
        let lines: [&[u8]; 2] = [b"for=192.0.2.43", b"for=198.51.100.17, for=unknown"];
        assert_eq!(hops(ForwardingField::Forwarded, &lines), ["?", "198.51.100.17", "192.0.2.43"]);
        let lines: [&[u8]; 3] = [b"192.0.2.1, 192.0.2.2", b"", b"192.0.2.3,"];
        assert_eq!(
            hops(ForwardingField::XForwardedFor, &lines),
            ["192.0.2.3", "192.0.2.2", "192.0.2.1"]
        );
    }

    #[test]
    fn a_quote_left_open_by_a_caller_swallows_no_entry_of_a_proxy() {
        let of = |text: &str| hops(ForwardingField::Forwarded, &[text.as_bytes()]);
        assert_eq!(of("for=\"10.0.0.1, for=192.0.2.43").first().unwrap(), "192.0.2.43");
        assert_eq!(of("for=\"10.0.0.1\\\", for=\"192.0.2.43\"").first().unwrap(), "192.0.2.43");
    }

    #[test]
    fn bytes_that_are_no_text_spoil_their_own_entry_only() {
        let line: &[u8] = b"192.0.2.1, \xff\xfe, 192.0.2.3";
        assert_eq!(hops(ForwardingField::XForwardedFor, &[line]), ["192.0.2.3", "?", "192.0.2.1"]);
    }

    #[test]
    fn an_element_that_says_it_twice_or_not_at_all_says_nothing() {
        let of = |text: &str| hops(ForwardingField::Forwarded, &[text.as_bytes()]);
        assert_eq!(of("for=192.0.2.1;for=192.0.2.2"), ["?"]);
        assert_eq!(of("proto=https;by=192.0.2.1"), ["?"]);
        assert_eq!(of("for=\"192.0.2.1"), ["?"]);
        assert_eq!(of("192.0.2.1"), ["?"]);
    }
}
