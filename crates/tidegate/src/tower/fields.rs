//! Header fields of an answer, ready for responses.

use std::mem;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{Entry, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use crate::answer::Answer;
use crate::headers::{self, Field, FieldSet};

/// The names of the fields of an answer, in the order in which they are written.
static NAMES: [HeaderName; Field::COUNT] = [
    LIMIT,
    HeaderName::from_static("x-ratelimit-remaining"),
    HeaderName::from_static("x-ratelimit-reset"),
    HeaderName::from_static("ratelimit-policy"),
    HeaderName::from_static("ratelimit"),
    RETRY_AFTER,
];
/// The field whose presence shows that another layer has already described limits.
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");

/// The fields of each set, still empty: a copy costs less than to insert one after the other.
static EMPTY: [OnceLock<Empty>; 1 << Field::COUNT] = [const { OnceLock::new() }; 1 << Field::COUNT];

/// Fields that are still empty.
struct Empty {
    fields: HeaderMap,
    /// The number of each field, in the order in which the map iterates.
    order: Vec<usize>,
}

impl Empty {
    fn of(set: FieldSet) -> Self {
        let names = || NAMES.iter().enumerate();
        let mut fields = HeaderMap::with_capacity(Field::COUNT);
        for (_, name) in names().filter(|(number, _)| set.bits() >> number & 1 == 1) {
            fields.insert(name, HeaderValue::from_static(""));
        }
        let number = |name| Some(names().find(|(_, other)| *other == name)?.0);
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

/// The values of fields that are the same in all answers under one rule, written with the first answer.
#[derive(Debug, Default)]
pub(super) struct Constant(OnceLock<[HeaderValue; 2]>);

impl Constant {
    const FIELDS: [Field; 2] = [Field::Limit, Field::Policies];

    /// Writes the values, unless that was done.
    fn note(&self, answer: &Answer<'_>) {
        self.0.get_or_init(|| {
            let fields = Fields::of(answer, Self::FIELDS.into(), None).into_map();
            Self::FIELDS.map(|field| {
                let value = fields.get(&NAMES[field as usize]);
                value.cloned().unwrap_or(HeaderValue::from_static(""))
            })
        });
    }

    /// The value of a field; `None` for any other.
    fn get(&self, number: usize) -> Option<&HeaderValue> {
        let place = Self::FIELDS.iter().position(|field| *field as usize == number)?;
        self.0.get().map(|values| &values[place])
    }
}

/// Header fields that describe limits.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    set: FieldSet,
    /// The values of those that are not constant, one behind the other, so that few blocks of memory are asked for.
    text: String,
    /// Where the value of each field ends.
    ends: [usize; Field::COUNT],
    constant: Option<Arc<Constant>>,
}

impl Fields {
    /// Those of the `wanted` fields that the answer has; `constant` belongs to the rule of an answer of one rule.
    pub(super) fn of(
        answer: &Answer<'_>,
        wanted: FieldSet,
        constant: Option<&Arc<Constant>>,
    ) -> Self {
        if wanted == FieldSet::default() || answer.is_unlimited() {
            return Self::default();
        }
        let mut fields = Self { set: wanted, constant: constant.cloned(), ..Self::default() };
        let mut written = wanted;
        if let Some(constant) = constant {
            constant.note(answer);
            written = wanted.without(Constant::FIELDS.into());
        }
        let Self { set, text, ends, .. } = &mut fields;
        text.reserve(headers::USUAL_BYTES);
        *set = wanted.without(written);
        headers::write(answer, written, text, |field, text| {
            *set = set.with(field);
            ends[field as usize..].fill(text.len());
        });
        fields
    }

    /// The fields by themselves.
    pub(super) fn into_map(self) -> HeaderMap {
        if self.set == FieldSet::default() {
            return HeaderMap::new();
        }
        let Self { set, text, ends, constant } = self;
        let text = Bytes::from(text);
        let written = |number: usize| {
            let begin = number.checked_sub(1).map_or(0, |before| ends[before]);
            // A value is digits, names of rules and punctuation.
            HeaderValue::from_maybe_shared(text.slice(begin..ends[number]))
                .unwrap_or(HeaderValue::from_static(""))
        };
        EMPTY[set.bits()].get_or_init(|| Empty::of(set)).filled(|number| {
            let constant = constant.as_ref().and_then(|constant| constant.get(number));
            constant.cloned().unwrap_or_else(|| written(number))
        })
    }

    /// Adds the fields to a response.
    pub(super) fn put(self, headers: &mut HeaderMap) {
        if self.set != FieldSet::default() {
            put(self.into_map(), headers);
        }
    }
}

/// Adds fields to a response, none of them twice. If the response already describes limits, as from an inner layer,
/// those fields stay: a mixture of two rules would describe neither.
pub(super) fn put(mut fields: HeaderMap, headers: &mut HeaderMap) {
    if headers.is_empty() {
        *headers = fields;
        return;
    }
    if headers.contains_key(LIMIT) {
        let wait = fields.remove(RETRY_AFTER);
        fields = wait.map(|wait| (RETRY_AFTER, wait)).into_iter().collect();
    }
    if headers.len() < fields.len() {
        // What the response has replaces what is added.
        fields.extend(mem::replace(headers, HeaderMap::new()));
        *headers = fields;
    } else {
        for (name, value) in &fields {
            if let Entry::Vacant(vacant) = headers.entry(name) {
                vacant.insert(value.clone());
            }
        }
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
        let check = || gate.check(&Request::new("default", &descriptors));
        [(); 2].map(|()| Fields::of(&check(), true.into(), None))
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
                let added = fields.clone().into_map();
                for (name, value) in added.iter().filter(|(name, _)| !headers.contains_key(*name)) {
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
