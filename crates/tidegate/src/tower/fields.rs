//! Header fields of an answer, ready for responses.

use std::mem;
use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{Entry, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use tidegate_core::Micros;

use crate::answer::Answer;
use crate::headers::{self, Field, MOST_FIELDS};

/// The names of the fields of an answer, in the order in which they are written; the last is only in a refusal.
static NAMES: [HeaderName; MOST_FIELDS] = [
    LIMIT,
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
    HeaderName::from_static("ratelimit-policy"),
    HeaderName::from_static("ratelimit"),
    RETRY_AFTER,
];
/// The field whose presence shows that another layer has already described limits.
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");

/// The fields of an admission and of a refusal, still empty: a copy costs less than to insert one after the other.
static EMPTY: LazyLock<[Empty; 2]> =
    LazyLock::new(|| [MOST_FIELDS - 1, MOST_FIELDS].map(Empty::with));

/// Fields that are still empty.
struct Empty {
    fields: HeaderMap,
    /// The number of each field, in the order in which the map iterates.
    order: Vec<usize>,
}

impl Empty {
    fn with(count: usize) -> Self {
        let empty = |name: &HeaderName| (name.clone(), HeaderValue::from_static(""));
        // With room for those that a response usually has besides.
        let mut fields = HeaderMap::with_capacity(MOST_FIELDS + 2);
        fields.extend(NAMES.iter().take(count).map(empty));
        let number = |name| NAMES.iter().position(|other| other == name);
        let order = fields.keys().filter_map(number).collect();
        Self { fields, order }
    }

    /// A copy with these values.
    fn filled(&self, mut value: impl FnMut(usize) -> HeaderValue) -> HeaderMap {
        let mut fields = self.fields.clone();
        for (slot, number) in fields.values_mut().zip(&self.order) {
            *slot = value(*number);
        }
        fields
    }
}

/// Header fields.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(HeaderMap);

impl Fields {
    /// Only `Retry-After`.
    pub(super) fn retry_after(wait: Micros) -> Self {
        Self([(RETRY_AFTER, wait.as_secs_ceil().into())].into_iter().collect())
    }

    /// Sets `Retry-After`.
    pub(super) fn set_retry_after(&mut self, wait: Micros) {
        self.0.insert(RETRY_AFTER, wait.as_secs_ceil().into());
    }

    /// Adds the fields to a response, none of them twice. If the response already describes limits,
    /// as from an inner layer, those fields stay: a mixture of two rules would describe neither.
    pub(super) fn put(mut self, headers: &mut HeaderMap) {
        if headers.contains_key(LIMIT) {
            self = self.only_retry_after();
        }
        if headers.is_empty() {
            *headers = self.0;
        } else if headers.len() < self.0.len() {
            // What the response has replaces what is added.
            self.0.extend(mem::replace(headers, HeaderMap::new()));
            *headers = self.0;
        } else {
            for (name, value) in &self.0 {
                if let Entry::Vacant(vacant) = headers.entry(name) {
                    vacant.insert(value.clone());
                }
            }
        }
    }

    /// Keeps only `Retry-After`, if it is there.
    pub(super) fn only_retry_after(mut self) -> Self {
        let kept = self.0.remove(RETRY_AFTER).map(|wait| (RETRY_AFTER, wait));
        Self(kept.into_iter().collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter()
    }
}

/// All values are parts of one text, so that few blocks of memory are asked for.
impl From<&Answer<'_>> for Fields {
    fn from(answer: &Answer<'_>) -> Self {
        let mut text = String::with_capacity(headers::USUAL_BYTES);
        // Where each value begins, and behind the last one the end.
        let (mut begins, mut count) = ([0; MOST_FIELDS + 1], 0);
        headers::write(answer, &mut text, |field: Field, text| {
            count = field as usize + 1;
            begins.get_mut(count).into_iter().for_each(|end| *end = text.len());
        });
        let empty = match (count, &*EMPTY) {
            (0, _) => return Self::default(),
            (MOST_FIELDS, [_, refused]) => refused,
            (_, [admitted, _]) => admitted,
        };
        let text = Bytes::from(text);
        // A value is digits, names of rules and punctuation.
        let value = |number: usize| {
            let (begins, end) = (begins[number], begins[number + 1]);
            HeaderValue::from_maybe_shared(text.slice(begins..end))
                .unwrap_or(HeaderValue::from_static(""))
        };
        Self(empty.filled(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Spec};
    use std::time::Duration;

    /// The fields of the first and of the second answer of a gate of one an hour.
    fn of_an_admission_and_a_refusal() -> [Fields; 2] {
        let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Duration::from_secs(3_600));
        let gate = Gate::new(Policy::new(vec![RuleSpec::new("one", spec)]).unwrap());
        let descriptors = [Descriptor::new(&[])];
        [(); 2].map(|()| Fields::from(&gate.check(&Request::new("default", &descriptors))))
    }

    fn sorted(headers: &HeaderMap) -> Vec<(&str, &str)> {
        let texts = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
        let mut texts: Vec<_> = texts.collect();
        texts.sort_unstable();
        texts
    }

    #[test]
    fn a_response_keeps_its_own_fields_however_many_it_has() {
        let many = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| (name, "1"));
        for own in [&[][..], &many[..2], &many] {
            for fields in of_an_admission_and_a_refusal() {
                let mut headers = HeaderMap::new();
                for (name, value) in own {
                    headers.append(*name, HeaderValue::from_static(value));
                    headers.append(*name, HeaderValue::from_static("2"));
                }
                headers.insert("ratelimit", HeaderValue::from_static("mine"));
                headers.insert(RETRY_AFTER, HeaderValue::from_static("7"));
                let mut expected = headers.clone();
                for (name, value) in fields.iter().filter(|(name, _)| !headers.contains_key(*name))
                {
                    expected.insert(name, value.clone());
                }
                fields.put(&mut headers);
                assert_eq!(sorted(&headers), sorted(&expected));
                assert_eq!(headers["x-ratelimit-limit"], "1");
            }
        }
    }

    #[test]
    fn limits_that_a_response_describes_stay_alone() {
        let [admitted, refused] = of_an_admission_and_a_refusal();
        let mut headers = HeaderMap::from_iter([(LIMIT, HeaderValue::from_static("9"))]);
        admitted.put(&mut headers);
        assert_eq!(sorted(&headers), [("x-ratelimit-limit", "9")]);
        refused.put(&mut headers);
        assert_eq!(sorted(&headers)[1], ("x-ratelimit-limit", "9"));
        assert_eq!((headers.len(), headers.contains_key(RETRY_AFTER)), (2, true));
    }
}
