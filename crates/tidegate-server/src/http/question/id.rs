//! The id of a request as written: a text that is not too long.

use serde::de::{Deserialize, Deserializer, Error};
use tidegate::Request;

use super::entries::Text;

/// A text that is valid as the id of a request.
#[derive(Debug)]
pub(super) struct HttpRequestId<'b>(Text<'b>);

impl<'b> HttpRequestId<'b> {
    /// The request with this id.
    pub(super) fn on<'a>(&'a self, request: Request<'a>) -> Request<'a> {
        // An invalid id is never constructed, so this cannot fail.
        request.with_id(&self.0.0).unwrap_or(request)
    }
}

impl<'b> Deserialize<'b> for HttpRequestId<'b> {
    fn deserialize<D: Deserializer<'b>>(from: D) -> Result<Self, D::Error> {
        let id = Text::deserialize(from)?;
        Request::new(Request::DEFAULT_DOMAIN, &[]).with_id(&id.0).map_err(D::Error::custom)?;
        Ok(Self(id))
    }
}
