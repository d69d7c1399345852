//! How large the head of a request may be, whichever version it came by.

use super::Request;
use super::problem::{Kind, Problem};

/// Most bytes of the head of a request.
pub(super) const MOST_BYTES: usize = 64 << 10;
/// Most header fields; hyper's own bound on HTTP/1.1.
const MOST_FIELDS: usize = 100;

/// Refuses a head that HTTP/2 let through and HTTP/1.1 would not have.
pub(super) fn fits(request: &Request) -> Result<(), Problem> {
    let (bytes, fields) = (bytes(request), request.headers().len());
    if bytes <= MOST_BYTES && fields <= MOST_FIELDS {
        return Ok(());
    }
    let detail = format!(
        "the head of the request has {bytes} bytes and {fields} header fields: expected at most \
         {MOST_BYTES} and {MOST_FIELDS}; send fewer or shorter ones"
    );
    Err(Problem::new(Kind::HeadTooLarge, detail))
}

/// Bytes of path, names and values.
fn bytes(request: &Request) -> usize {
    let path = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let fields = request.headers().iter();
    fields.fold(path, |sum, (name, value)| sum + name.as_str().len() + value.len())
}
