//! The part of a text that may be a user and a password.
//!
//! `without_credentials` hides this part in every message.

use core::ops::Range;

/// Returns the part of a text that may be a user and a password, which no message shows: of
/// `scheme://user:password@host`, of `user:password@host`, and of `?pass=password`.
///
/// A harmless part may be returned as well, such as a host before a later `@`.
#[must_use]
pub fn credentials(text: &str) -> Option<Range<usize>> {
    let before_host = match text.find("://") {
        Some(scheme) => of_url(text, scheme + "://".len()),
        None => of_no_url(text),
    };
    let found = [before_host, of_query(text)].into_iter().flatten();
    found.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end))
}

/// Credentials of a URL whose authority begins at `start`.
fn of_url(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = text.get(start..)?;
    // The last `@`, because a password may hold others.
    let end = match rest.rfind('@') {
        Some(at) => at,
        // The host may be missing, and so may a quote: then only a port can follow a colon.
        None => {
            let word = rest.split(|c| is_end(c) || c == '/' || c == '?').next()?;
            word.split(',').any(|host| !is_host(host)).then_some(word.len())?
        }
    };
    (end > 0).then_some(start..start + end)
}

/// Returns whether a text can be a host with a port.
fn is_host(text: &str) -> bool {
    // The colons of an IPv6 address, in its brackets, begin no port.
    let after = text.rsplit(']').next().unwrap_or(text);
    after.split(':').skip(1).all(is_port) && !text.starts_with(':')
}

fn is_port(text: &str) -> bool {
    text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Credentials before a host without a scheme.
fn of_no_url(text: &str) -> Option<Range<usize>> {
    let end = text.rfind('@')?;
    // The first colon, because a password may hold others.
    let colon = text.get(..end)?.find(':')?;
    let before = text.get(..colon)?;
    let start = before.char_indices().rfind(|(_, c)| is_end(*c) || *c == '=');
    Some(start.map_or(0, |(at, c)| at + c.len_utf8())..end)
}

/// The password after the `?` of a socket's URL.
fn of_query(text: &str) -> Option<Range<usize>> {
    let mut names = ["?pass=", "&pass=", "?password=", "&password="].into_iter();
    let start = names.find_map(|name| text.find(name).map(|at| at + name.len()))?;
    let password = text.get(start..)?.split(|c| is_end(c) || c == '&').next()?;
    Some(start..start + password.len())
}

/// Returns whether a URL ends at this character.
fn is_end(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'' | '`')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_and_a_password_are_found() {
        for (text, expected) in [
            ("redis://:pw@host:6379/0", ":pw"),
            ("redis://user:pw@a,b", "user:pw"),
            ("redis://user@host", "user"),
            ("url = \"redis://:p w\"@@host\"", ":p w\"@"),
            ("[\"redis://:one@a\", \"redis://:two@b\"]", ":one@a\", \"redis://:two"),
            ("url = redis://:hunt", ":hunt"),
            ("redis://user:12ab/0", "user:12ab"),
            ("redis://:1234", ":1234"),
            ("url = \"user:pw@host\"", "user:pw"),
            ("url=é:pw@host", "é:pw"),
            ("unix:///run/redis.sock?db=1&pass=pw&user=a", "pw"),
            ("unix:///run/redis.sock?pass=pw", "pw"),
        ] {
            let found = credentials(text).and_then(|part| text.get(part));
            assert_eq!(found, Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_have_none() {
        for text in "@ a@b 10:20 redis:// redis://@host redis://127.0.0.1:6379/0 \
             redis+cluster://a:6379,b,[::1]:6379 redis://[::1] unix:///run/redis.sock?db=1"
            .split(' ')
            .chain([""])
        {
            assert_eq!(credentials(text), None, "{text}");
        }
    }
}
