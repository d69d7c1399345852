//! Invariants of the fast path for every input, used by the fuzzer and, over its seeds, by the
//! tests.
//!
//! A request that the fast path accepts is parsed again, slowly and line by line; single values (a
//! type, a token) are left to the code for them. If the two results differed, one request could be
//! hidden in another.

use super::head::{Found, MOST_BYTES, look};
use crate::http::media_type::is_json;
use crate::listener::{ListenerSecret, bearer};

/// The token of clients that need one.
const TOKEN: &str = "sesame";

/// Header fields that ask for more than an answer.
const MORE: [&str; 5] = ["expect", "origin", "trailer", "transfer-encoding", "upgrade"];

/// Panics if a request is wrongly accepted as a check; returns how many were accepted.
pub(crate) fn judge(bytes: &[u8]) -> usize {
    let secrets = [None, ListenerSecret::parse(TOKEN).ok()];
    secrets.iter().filter(|secret| judge_for(bytes, secret.as_ref())).count()
}

fn judge_for(bytes: &[u8], secret: Option<&ListenerSecret>) -> bool {
    let (body, end) = match look(bytes, secret) {
        Found::Check { body, end } => (body, end),
        Found::Part | Found::Other => return false,
    };
    let (Some(head), Some(request)) = (bytes.get(..body.start), bytes.get(..end)) else {
        panic!("{body:?} and {end} of {} bytes", bytes.len());
    };
    assert_eq!(body.end, end, "nothing lies between two requests");
    assert!(head.len() <= MOST_BYTES && body.len() <= MOST_BYTES, "{body:?}");
    judge_head(head, body.len(), secret);
    let whole = Found::Check { body, end };
    assert_eq!(look(request, secret), whole, "bytes after it do not matter");
    for part in [end - 1, end / 2, head.len() - 1, head.len() / 2] {
        assert_eq!(look(&bytes[..part], secret), Found::Part, "{part} bytes of it");
    }
    true
}

/// Reads the head by its lines: the request, and the length of its body.
fn judge_head(head: &[u8], length: usize, secret: Option<&ListenerSecret>) {
    let lines =
        head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut lines = lines.skip_while(|line| line.is_empty());
    assert_eq!(lines.next(), Some(&b"POST /v1/check HTTP/1.1"[..]));
    let fields: Vec<_> = lines.by_ref().take_while(|line| !line.is_empty()).map(field).collect();
    assert_eq!(lines.collect::<Vec<_>>(), [b""], "the head ends with its empty line");
    let all = |name: &str| -> Vec<&[u8]> {
        fields.iter().filter(|(named, _)| named == name).map(|(_, value)| *value).collect()
    };
    let lengths = all("content-length");
    assert!(lengths.len() == 1 && lengths[0].iter().all(u8::is_ascii_digit), "{lengths:?}");
    assert_eq!(text(lengths[0]).parse(), Ok(length));
    assert_eq!(all("host").len(), 1, "a request is for one host");
    assert!(all("connection").iter().all(|value| text(value).eq_ignore_ascii_case("keep-alive")));
    assert!(all("content-type").iter().all(|value| is_json(text(value))));
    for more in MORE {
        assert!(all(more).is_empty(), "{more}");
    }
    if let Some(secret) = secret {
        let shown = all("authorization").first().and_then(|value| bearer(value));
        assert!(shown.is_some_and(|token| secret.opens(token)), "{shown:?}");
    }
}

/// A name, in lower case, and its value without the space around it.
fn field(line: &[u8]) -> (String, &[u8]) {
    let colon = line.iter().position(|byte| *byte == b':').unwrap_or_else(|| panic!("{line:?}"));
    let (name, value) = line.split_at(colon);
    assert!(!name.is_empty() && !name.contains(&b' ') && !name.contains(&b'\t'), "{line:?}");
    (text(name).to_ascii_lowercase(), value[1..].trim_ascii())
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_else(|_| panic!("{bytes:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;
    use std::cell::Cell;

    #[test]
    fn every_seed_and_what_lies_close_to_it_is_judged() {
        let checks = Cell::new(0);
        let judge = |bytes: &[u8]| checks.set(checks.get() + judge(bytes));
        let judged = seeds::judge_near(&seeds::of("http_head"), b"\r\n: \t,;019aA\0\xff", judge);
        assert!(judged > 3_000 && checks.get() > 1_000, "{} of {judged}", checks.get());
    }

    #[test]
    fn what_lies_further_from_the_seeds_is_judged() {
        let checks = Cell::new(0);
        let judge = |bytes: &[u8]| checks.set(checks.get() + judge(bytes));
        seeds::judge_far("http_head", judge);
        assert!(checks.get() > 100, "{}", checks.get());
    }
}
