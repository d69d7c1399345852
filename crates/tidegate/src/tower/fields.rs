//! Header fields of an answer, ready for responses.

use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_core::Micros;

use crate::answer::Answer;
use crate::headers::{self, Field};

/// The field whose presence shows that another layer has already described limits.
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const POLICIES: HeaderName = HeaderName::from_static("ratelimit-policy");
const LIMITS: HeaderName = HeaderName::from_static("ratelimit");

/// Header fields in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(HeaderName, HeaderValue)>);

impl Fields {
    /// Only `Retry-After`.
    pub(super) fn retry_after(wait: Micros) -> Self {
        Self(vec![(RETRY_AFTER, wait.as_secs_ceil().into())])
    }

    /// Adds the fields to a response; see [`put`].
    pub(super) fn put(self, headers: &mut HeaderMap) {
        put(self.0, headers);
    }

    /// Adds a copy of the fields to a response; see [`put`].
    pub(super) fn put_copy(&self, headers: &mut HeaderMap) {
        put(self.0.iter().cloned(), headers);
    }

    /// Keeps only `Retry-After`, if it is there.
    pub(super) fn only_retry_after(mut self) -> Self {
        self.0.retain(|(name, _)| *name == RETRY_AFTER);
        self
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name, value))
    }
}

/// Adds fields to a response, none of them twice. If the response already describes limits, as from an inner layer,
/// those fields stay: a mixture of two rules would describe neither.
fn put(fields: impl IntoIterator<Item = (HeaderName, HeaderValue)>, headers: &mut HeaderMap) {
    let has_limits = headers.contains_key(LIMIT);
    for (name, value) in fields {
        if !has_limits || name == RETRY_AFTER {
            headers.entry(name).or_insert(value);
        }
    }
}

/// All values are parts of one text, so that few blocks of memory are asked for.
impl From<&Answer<'_>> for Fields {
    fn from(answer: &Answer<'_>) -> Self {
        let mut text = String::with_capacity(headers::USUAL_BYTES);
        let mut ends = [(Field::Limit, 0); headers::MOST_FIELDS];
        let mut free = ends.iter_mut();
        headers::write(answer, &mut text, |field, text| {
            free.next().into_iter().for_each(|end| *end = (field, text.len()));
        });
        let left = free.len();
        let text = Bytes::from(text);
        let mut begins = 0;
        let mut fields = Vec::with_capacity(headers::MOST_FIELDS);
        for (field, end) in &ends[..headers::MOST_FIELDS - left] {
            if let Ok(value) = HeaderValue::from_maybe_shared(text.slice(begins..*end)) {
                fields.push((name(*field), value));
            }
            begins = *end;
        }
        Self(fields)
    }
}

const fn name(field: Field) -> HeaderName {
    match field {
        Field::Limit => LIMIT,
        Field::Remaining => REMAINING,
        Field::Reset => RESET,
        Field::Policies => POLICIES,
        Field::Limits => LIMITS,
        Field::RetryAfter => RETRY_AFTER,
    }
}
