//! Header fields of an answer, ready for responses.

use http::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_core::Micros;

use crate::answer::Answer;
use crate::headers;

/// The field whose presence shows that another layer has already described limits.
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");

/// Header fields in the order in which they are written.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(Vec<(HeaderName, HeaderValue)>);

impl Fields {
    /// Only `Retry-After`.
    pub(super) fn retry_after(wait: Micros) -> Self {
        Self(vec![(RETRY_AFTER, wait.as_secs_ceil().into())])
    }

    /// Adds the fields to a response, none of them twice. If the response already describes limits,
    /// as from an inner layer, those fields stay: a mixture of two rules would describe neither.
    pub(super) fn put(self, headers: &mut HeaderMap) {
        let has_limits = headers.contains_key(LIMIT);
        for (name, value) in self.0 {
            if name == RETRY_AFTER || !has_limits {
                headers.entry(name).or_insert(value);
            }
        }
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

impl From<&Answer<'_>> for Fields {
    fn from(answer: &Answer<'_>) -> Self {
        let all = headers::of(answer).into_iter();
        let parsed = all.filter_map(|(name, value)| {
            Some((name.parse::<HeaderName>().ok()?, HeaderValue::try_from(value).ok()?))
        });
        Self(parsed.collect())
    }
}
