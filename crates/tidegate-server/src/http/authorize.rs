//! Authorization over HTTP: a token as `Authorization: Bearer TOKEN` (RFC 6750).

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};

use super::problem::{Kind, Problem};
use crate::listener::{Secret, bearer};

const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"tidegate\"");

/// Accepts a request that has the secret, or any request if there is none.
pub(super) fn check(secret: Option<&Secret>, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(secret) = secret else { return Ok(()) };
    let said = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let token = said.and_then(bearer);
    if secret.admits(token) {
        return Ok(());
    }
    let why = match (said, token) {
        (None, _) => "the header field `authorization` is missing",
        (_, Some(_)) => "the token is not known here",
        (_, None) => "the header field `authorization` is not of the scheme Bearer",
    };
    let detail =
        format!("{why}: expected `authorization: Bearer TOKEN`, with a token of the server");
    Err(Problem::new(Kind::Unauthorized, detail).with(WWW_AUTHENTICATE, CHALLENGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_of_the_token_is_let_through() {
        let secret = Secret::parse("open-sesame").unwrap();
        let asked = |said: &[u8]| {
            let value = HeaderValue::from_bytes(said).unwrap();
            check(Some(&secret), &HeaderMap::from_iter([(AUTHORIZATION, value)]))
        };
        for said in ["Bearer open-sesame", "bearer  open-sesame", "BEARER open-sesame"] {
            assert_eq!(asked(said.as_bytes()), Ok(()), "{said}");
        }
        for said in
            ["Bearer", "Bearer ", "Bearer open", "open-sesame", "Basic open-sesame", "\u{fc}"]
        {
            assert!(asked(said.as_bytes()).is_err(), "{said}");
        }
        assert!(check(Some(&secret), &HeaderMap::new()).is_err());
        assert_eq!(check(None, &HeaderMap::new()), Ok(()));
    }
}
