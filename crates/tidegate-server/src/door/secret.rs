//! What a client must know to be answered: one token, or several while one takes the place of another.

use std::fmt;
use std::sync::Arc;

use subtle::{Choice, ConstantTimeEq};

const SCHEME: &[u8] = b"bearer ";

/// Tokens, each of which opens the door. They are shown nowhere.
#[derive(Clone)]
pub(crate) struct Secret(Arc<[Box<[u8]>]>);

impl Secret {
    /// The tokens of a text, one a line; space around them and empty lines are not looked at.
    ///
    /// # Errors
    /// What is wrong with the text, which is not told: it is meant to be secret. A token is of visible
    /// ASCII, so that a header field can carry it, and there is one at least.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
        let tokens = lines.map(|(place, line)| token(place + 1, line));
        let tokens: Vec<_> = tokens.collect::<Result<_, _>>()?;
        if tokens.is_empty() {
            return Err("there is no token: expected one a line, such as `openssl rand -hex 32` \
                        prints"
                .to_owned());
        }
        Ok(Self(tokens.into()))
    }

    /// Whether what a client says is one of the tokens. How long this takes tells the length of a token
    /// at most, nothing of what is in it.
    pub(crate) fn opens(&self, said: &[u8]) -> bool {
        let none = Choice::from(0);
        self.0.iter().fold(none, |opened, token| opened | token.ct_eq(said)).into()
    }
}

/// The token of `Bearer TOKEN` (RFC 6750), as HTTP and gRPC say it in `authorization`; the case of the
/// scheme does not count.
pub(crate) fn bearer(said: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = said.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

fn token(line: usize, text: &str) -> Result<Box<[u8]>, String> {
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.as_bytes().into());
    }
    Err(format!(
        "line {line} is no token: expected visible ASCII without space, such as `openssl rand -hex \
         32` prints"
    ))
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_opens_and_nothing_else_does() {
        let secret = Secret::parse("  one\r\n\n two\n").unwrap();
        assert!(["one", "two"].into_iter().all(|said| secret.opens(said.as_bytes())));
        let wrong = ["", "on", "onf", "onee", "ONE", "one\ntwo", " one"];
        assert!(!wrong.into_iter().any(|said| secret.opens(said.as_bytes())));
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    #[test]
    fn a_bearer_says_its_token_behind_the_scheme() {
        for said in [&b"Bearer a"[..], b"bearer  a ", b"BEARER a"] {
            assert_eq!(bearer(said), Some(&b"a"[..]));
        }
        for said in [&b""[..], b"Bearer", b"Basic a", b"a"] {
            assert_eq!(bearer(said), None);
        }
    }

    #[test]
    fn what_is_no_token_is_told_by_its_line_and_not_shown() {
        assert!(Secret::parse(" \n\n").unwrap_err().contains("there is no token"));
        for wrong in ["a\n\nb c", "a\n\nb\u{7}", "a\n\nsch\u{fc}"] {
            let told = Secret::parse(wrong).unwrap_err();
            assert!(told.starts_with("line 3 is no token: expected visible ASCII"), "{told}");
        }
    }
}
