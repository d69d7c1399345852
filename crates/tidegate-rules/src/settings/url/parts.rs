//! The parts of a URL: an address, the number of a database, and texts with escapes.
//!
//! `url.rs` reads each part by one of these functions, so that the errors name the part.

use super::{StoreUrlError, wrong};

/// The mistakes in a user or a password as it comes out of a generator.
pub(super) const RAW_PASSWORD: &str = "a user or a password in it has a raw `%`, `/`, `?` or `#`: write %25, %2F, %3F or %23, or \
     name the password by `password_env` or `password_file`";
const MOST_DATABASE: i64 = 1_000_000;

pub(super) fn address(text: &str, default: u16) -> Result<(String, u16), StoreUrlError> {
    // No text of a port stands for the default port, and no port at all for an invalid one. The colons of an IPv6
    // address stand in brackets.
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(|| wrong("a `[` is not closed"))?;
            (host, port.strip_prefix(':').or_else(|| port.is_empty().then_some("")))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port).filter(|port| !port.is_empty())),
            None => (text, Some("")),
        },
    };
    let port = match port {
        Some("") => Ok(default),
        Some(port) => port.parse().map_err(|_| ()),
        None => Err(()),
    };
    let port = port.ok().filter(|port| *port > 0);
    match (host.is_empty(), port) {
        (true, _) => Err(wrong("a host is missing")),
        (_, None) => Err(wrong("a port is not a number from 1 to 65535")),
        (false, Some(port)) => Ok((host.to_owned(), port)),
    }
}

pub(super) fn database(text: &str) -> Result<i64, StoreUrlError> {
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.parse().ok().filter(|number| (0..=MOST_DATABASE).contains(number));
    number.ok_or_else(|| wrong("the database is not a number from 0"))
}

/// The user or the password.
pub(super) fn user_part(text: &str) -> Result<Option<String>, StoreUrlError> {
    if text.is_empty() {
        return Ok(None);
    }
    decoded(text).map(Some).map_err(|_| wrong(RAW_PASSWORD))
}

/// The text with each `%XX` replaced by its byte.
pub(super) fn decoded(text: &str) -> Result<String, StoreUrlError> {
    const NOT_TEXT: StoreUrlError =
        wrong("a `%` is not followed by two hexadecimal digits of UTF-8");
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or(NOT_TEXT)?;
        // Checked before, because a number in Rust may have a sign.
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NOT_TEXT);
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| NOT_TEXT)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| NOT_TEXT)
}
