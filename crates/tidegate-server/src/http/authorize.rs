//! Who may ask over HTTP: who sends a token as `Authorization: Bearer TOKEN` (RFC 6750).

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::{Kind, Problem};
use crate::door::Secret;

const SCHEME: &[u8] = b"bearer ";

/// Lets a request through that knows the secret, where there is one.
pub(super) async fn knows(
    State(secret): State<Option<Secret>>,
    request: Request,
    next: Next,
) -> Response {
    match secret.map_or(Ok(()), |secret| check(&secret, request.headers())) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

fn check(secret: &Secret, headers: &HeaderMap) -> Result<(), Problem> {
    let said = headers.get(AUTHORIZATION).map(|value| value.as_bytes());
    let why = match said.map(|said| (said, token(said))) {
        None => "the header field `authorization` is missing",
        Some((_, Some(token))) if secret.opens(token) => return Ok(()),
        Some((_, Some(_))) => "the token is not known here",
        Some((_, None)) => "the header field `authorization` is not of the scheme Bearer",
    };
    let detail =
        format!("{why}: expected `authorization: Bearer TOKEN`, with a token of the server");
    Err(Problem::new(Kind::Unauthorized, detail))
}

/// What stands behind the scheme, whose case does not count.
fn token(said: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = said.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_of_the_token_is_let_through() {
        let secret = Secret::parse("open-sesame").unwrap();
        let asked = |said: &[u8]| {
            let value = axum::http::HeaderValue::from_bytes(said).unwrap();
            check(&secret, &HeaderMap::from_iter([(AUTHORIZATION, value)]))
        };
        for said in ["Bearer open-sesame", "bearer  open-sesame", "BEARER open-sesame"] {
            assert_eq!(asked(said.as_bytes()), Ok(()), "{said}");
        }
        for said in
            ["Bearer", "Bearer ", "Bearer open", "open-sesame", "Basic open-sesame", "\u{fc}"]
        {
            assert!(asked(said.as_bytes()).is_err(), "{said}");
        }
        assert!(check(&secret, &HeaderMap::new()).is_err());
    }
}
