//! Extractors, which read the values of entries from any part of a request except its body.

use std::any::type_name;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use http::header::{HeaderName, InvalidHeaderName};
use http::request::Parts;

use crate::key::key_text;

/// Reads the value of a descriptor's entry from a request.
///
/// `None` leaves the entry out, so that no rule that needs it matches. So return `None` only for what a request lacks: a
/// value that the caller chooses and that is no text becomes one by [`key_text`](crate::key_text). Every function
/// `Fn(&Parts) -> Option<String>` is an extractor: `|parts: &Parts| Some(parts.uri.host()?.to_owned())`.
///
/// ```
/// use http::request::Parts;
/// use tidegate::tower::{Entries, Extract};
///
/// /// The tenant in a host such as `acme.shop.example`.
/// struct Tenant {
///     suffix: &'static str,
/// }
///
/// impl Extract for Tenant {
///     fn extract(&self, parts: &Parts) -> Option<String> {
///         Some(tidegate::tower::host(parts)?.strip_suffix(self.suffix)?.to_owned())
///     }
/// }
///
/// let entries = Entries::new().entry("tenant", Tenant { suffix: ".shop.example" });
/// ```
pub trait Extract: Send + Sync {
    /// The value, if the request has one.
    fn extract(&self, parts: &Parts) -> Option<String>;

    /// The value as the layer asks for it, which [`extract`](Self::extract) is by default. An extractor of text that
    /// the request has may lend it, which saves a copy.
    fn read<'a>(&self, parts: &'a Parts) -> Option<Cow<'a, str>> {
        self.extract(parts).map(Cow::Owned)
    }

    /// Returns whether the value is the address of the caller, like the value of [`ClientIp`](super::ClientIp); false
    /// by default.
    ///
    /// Every request has such an address, so if the server does not pass it on, the layer refuses the request with
    /// 500 ([`Reason::NoAddress`](super::Reason::NoAddress)) in place of leaving out an entry that a rule looks at.
    fn is_address(&self) -> bool {
        false
    }
}

impl<F> Extract for F
where
    F: Fn(&Parts) -> Option<String> + Send + Sync,
{
    fn extract(&self, parts: &Parts) -> Option<String> {
        self(parts)
    }
}

/// The first value of a header field; see [`header`].
#[derive(Clone, Debug)]
pub struct Header(HeaderName);

/// An extractor of a header field's first value, such as an API key.
///
/// A caller chooses the values of header fields, so a rule keyed by one alone does not limit a
/// caller who makes up another for each request: check the field before, or add a rule keyed by
/// address.
///
/// A field without a value is an entry with an empty value. A limit by
/// [`RateLimitLayer::per_header`](super::RateLimitLayer::per_header) treats it as a missing field.
///
/// The value may be of any bytes. It is text where it is UTF-8, and each other byte is written `\xff`
/// ([`key_text`](crate::key_text)).
///
/// # Errors
/// Returns an error if `name` cannot be the name of a header field.
///
/// ```
/// use tidegate::tower::{Extract, header};
///
/// let (parts, ()) = http::Request::get("/").header("x-channel", "alipay").body(())?.into_parts();
/// assert_eq!(header("X-Channel")?.extract(&parts).as_deref(), Some("alipay"));
/// assert_eq!(header("x-absent")?.extract(&parts), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn header(name: &str) -> Result<Header, InvalidHeaderName> {
    name.parse().map(Header)
}

impl Extract for Header {
    fn extract(&self, parts: &Parts) -> Option<String> {
        self.read(parts).map(Cow::into_owned)
    }

    fn read<'a>(&self, parts: &'a Parts) -> Option<Cow<'a, str>> {
        parts.headers.get(&self.0).map(|value| key_text(value.as_bytes()))
    }
}

/// Text that every request has: lends the result of a function.
pub(super) struct Lent(pub(super) fn(&Parts) -> &str);

impl Extract for Lent {
    fn extract(&self, parts: &Parts) -> Option<String> {
        self.read(parts).map(Cow::into_owned)
    }

    fn read<'a>(&self, parts: &'a Parts) -> Option<Cow<'a, str>> {
        Some(Cow::Borrowed((self.0)(parts)))
    }
}

/// An extractor of the method, such as `GET`.
#[must_use]
pub fn method(parts: &Parts) -> Option<String> {
    Some(parts.method.as_str().to_owned())
}

/// An extractor of the path as requested, without the query. As a key it creates a limiter for each
/// path, including paths that do not exist; for routes, the template is the better key.
#[must_use]
pub fn path(parts: &Parts) -> Option<String> {
    Some(parts.uri.path().to_owned())
}

/// An extractor of the host of a request, in lower case, with its port if it names one: from the
/// target, else from the `Host` field.
///
/// ```
/// use tidegate::tower::{host, method, path};
///
/// let (parts, ()) = http::Request::get("https://API.example:8443/v1/users?page=2").body(())?.into_parts();
/// assert_eq!(method(&parts).as_deref(), Some("GET"));
/// assert_eq!(host(&parts).as_deref(), Some("api.example:8443"));
/// assert_eq!(path(&parts).as_deref(), Some("/v1/users"));
/// # Ok::<(), http::Error>(())
/// ```
#[must_use]
pub fn host(parts: &Parts) -> Option<String> {
    let target = parts.uri.authority().map(http::uri::Authority::as_str);
    let host = match target {
        Some(target) => Cow::Borrowed(target),
        None => key_text(parts.headers.get(http::header::HOST)?.as_bytes()),
    };
    // A target may name a user before the host.
    let bare = host.rsplit_once('@').map_or(&*host, |(_, bare)| bare);
    Some(bare.to_ascii_lowercase())
}

/// An extractor of the template of the route that axum chose, such as `/users/{id}`.
///
/// Routes are known to layers given to `Router::layer` and `Router::route_layer`, not to those around
/// the whole router.
///
/// ```
/// use tidegate::tower::{ClientIp, Entries, matched_path};
///
/// let entries = Entries::new().entry("ip", ClientIp::peer()).entry("route", matched_path);
/// ```
#[cfg(feature = "axum")]
#[must_use]
pub fn matched_path(parts: &Parts) -> Option<String> {
    parts.extensions.get::<axum::extract::MatchedPath>().map(|path| path.as_str().to_owned())
}

/// The part of an extension of the request that a function picks; see [`extension`].
pub struct Extension<T, F> {
    pick: F,
    of: PhantomData<fn(&T)>,
}

/// An extractor of the value that `pick` reads from an extension of the request, such as the user
/// that an outer layer has authenticated.
///
/// ```
/// use tidegate::tower::{Extract, extension};
///
/// #[derive(Clone)]
/// struct User(u64);
///
/// let by_user = extension(|user: &User| Some(user.0.to_string()));
/// let (mut parts, ()) = http::Request::get("/").body(())?.into_parts();
/// assert_eq!(by_user.extract(&parts), None);
/// parts.extensions.insert(User(7));
/// assert_eq!(by_user.extract(&parts).as_deref(), Some("7"));
/// # Ok::<(), http::Error>(())
/// ```
pub const fn extension<T, F>(pick: F) -> Extension<T, F>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> Option<String> + Send + Sync,
{
    Extension { pick, of: PhantomData }
}

impl<T, F> Extract for Extension<T, F>
where
    T: Send + Sync + 'static,
    F: Fn(&T) -> Option<String> + Send + Sync,
{
    fn extract(&self, parts: &Parts) -> Option<String> {
        (self.pick)(parts.extensions.get::<T>()?)
    }
}

impl<T, F> fmt::Debug for Extension<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extension<{}>", type_name::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(target: &str, host_field: Option<&str>) -> Parts {
        let request = http::Request::post(target);
        let request = host_field.into_iter().fold(request, |b, host| b.header("host", host));
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn the_parts_of_a_target() {
        let parts = ask("http://user:word@Example.COM:80/a/b?c=d", Some("other"));
        assert_eq!(host(&parts).as_deref(), Some("example.com:80"));
        assert_eq!(path(&parts).as_deref(), Some("/a/b"));
        assert_eq!(method(&parts).as_deref(), Some("POST"));
        assert_eq!(host(&ask("/", Some("Example.com"))).as_deref(), Some("example.com"));
        assert_eq!(host(&ask("/", None)), None);
        let mut parts = ask("/", None);
        let field = http::HeaderValue::from_bytes(b"\xffample.com").unwrap();
        parts.headers.insert(http::header::HOST, field);
        assert_eq!(host(&parts).as_deref(), Some(r"\xffample.com"));
    }

    #[test]
    fn a_name_that_no_field_can_have_is_an_error() {
        header("x y").unwrap_err();
        header("").unwrap_err();
    }
}
