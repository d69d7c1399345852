//! Authorization over HTTP: a token as `Authorization: Bearer TOKEN` (RFC 6750).

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};

use super::message::Request;
use super::problem::{Kind, Problem};
use crate::listener::{Access, Peer, Role, Secret, Who, bearer};

const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"tidegate\"");

/// Accepts a request that has the secret, or any request if there is none.
pub(super) fn check(secret: Option<&Secret>, headers: &HeaderMap) -> Result<(), Problem> {
    let Some(secret) = secret else { return Ok(()) };
    let said = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    if secret.admits(said.and_then(bearer)) { Ok(()) } else { Err(refused(said)) }
}

/// The problem of a request without a known token.
fn refused(said: Option<&[u8]>) -> Problem {
    let why = match (said, said.and_then(bearer)) {
        (None, _) => "the header field `authorization` is missing",
        (_, Some(_)) => "the token is not known here",
        (_, None) => "the header field `authorization` is not of the scheme Bearer",
    };
    let detail =
        format!("{why}: expected `authorization: Bearer TOKEN`, with a token of the server");
    Problem::new(Kind::Unauthorized, detail).with(WWW_AUTHENTICATE, CHALLENGE)
}

/// The operator that asks at the admin listener.
pub(super) fn admit(access: &Access, request: &Request) -> Result<Who, Problem> {
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    let said = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    access.admit(said.and_then(bearer), peer).ok_or_else(|| refused(said))
}

/// The problem of an operator who may only read.
pub(super) fn needs(role: Role, who: &Who, request: &Request) -> Problem {
    let (method, path) = (request.method(), request.uri().path());
    let (needs, has) = (role.name(), who.role.name());
    let detail = format!(
        "{method} {path} needs the role {needs}, and this client has the role {has}: expected a token of \
         --admin-token-file, and no certificate that --admin-readers names"
    );
    Problem::new(Kind::RoleForbidden, detail)
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
