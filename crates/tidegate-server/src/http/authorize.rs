//! Authorization over HTTP: a token as `Authorization: Bearer TOKEN` (RFC 6750). `routes.rs` asks here before it
//! reads a body: [`verbs`] at the public listener, [`admit`] at the admin listener.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};

use super::message::HttpRequest;
use crate::audit::Changer;
use crate::listener::{Clients, OperatorAccess, Peer, Role, Who, bearer};
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::verbs::PublicVerbs;

const CHALLENGE: HeaderValue = HeaderValue::from_static("Bearer realm=\"tidegate\"");

/// The verbs of the client that asks at a public listener.
pub(super) fn verbs(
    clients: &Clients,
    request: &HttpRequest,
) -> Result<PublicVerbs, RequestRefusal> {
    let of_token = token(clients, request.headers())?;
    Ok(clients.of_connection(|| peer(request)).and(of_token))
}

/// The verbs that a request's token grants, which is needed if there is a secret.
fn token(clients: &Clients, headers: &HeaderMap) -> Result<PublicVerbs, RequestRefusal> {
    let Some(secret) = &clients.secret else { return Ok(PublicVerbs::default()) };
    let field = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
    secret.admits(field.and_then(bearer)).ok_or_else(|| refused(field))
}

/// The problem of a request without a known token.
fn refused(field: Option<&[u8]>) -> RequestRefusal {
    // The field is never repeated, because a mistyped token is nearly a token.
    let why = match (field, field.and_then(bearer)) {
        (None, _) => "the header field `authorization` is missing",
        (_, Some(_)) => "the token is not known here",
        (_, None) => "the header field `authorization` is not of the scheme Bearer",
    };
    let detail =
        format!("{why}: expected `authorization: Bearer TOKEN`, with a token of the server");
    RefusalKind::Unauthorized.because(detail).with(WWW_AUTHENTICATE, CHALLENGE)
}

/// The operator that asks at the admin listener.
pub(super) fn admit(access: &OperatorAccess, request: &HttpRequest) -> Result<Who, RequestRefusal> {
    let field = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    access.admit(field.and_then(bearer), peer(request)).ok_or_else(|| refused(field))
}

/// The client of a request at the public listener, as an audit names it.
pub(super) fn client(clients: &Clients, request: &HttpRequest) -> Changer {
    let field = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let peer = request.extensions().get::<Peer>().cloned();
    Changer::client(clients, peer, field.and_then(bearer))
}

fn peer(request: &HttpRequest) -> Peer {
    request.extensions().get::<Peer>().cloned().unwrap_or_default()
}

/// The problem of an operator who may only read.
pub(super) fn needs(role: Role, who: &Who, request: &HttpRequest) -> RequestRefusal {
    let detail = format!(
        "{} {} needs the role {}, and this client has the role {}: expected a token of --admin-token-file or a \
         certificate that --admin-changers names, and none that --admin-readers names",
        request.method(),
        request.uri().path(),
        role.name(),
        who.role.name()
    );
    RefusalKind::RoleForbidden.because(detail)
}
