//! Header fields of an answer, ready for responses.
//!
//! An admission keeps numbers, which become text when the response is there. `put` adds the fields to it.

use std::mem;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use http::header::{Entry, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

use crate::answer::Answer;
use crate::headers::{self, FieldSet, HeaderField};

/// The names of the fields of an answer, in the order in which they are written.
static NAMES: [HeaderName; HeaderField::COUNT] = [
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
static EMPTY: [OnceLock<Empty>; 1 << HeaderField::COUNT] =
    [const { OnceLock::new() }; 1 << HeaderField::COUNT];

/// Fields that are still empty.
struct Empty {
    fields: HeaderMap,
    /// The number of each field, in the order in which the map iterates.
    order: Vec<usize>,
}

impl Empty {
    fn of(set: FieldSet) -> Self {
        let mut fields = HeaderMap::with_capacity(HeaderField::COUNT);
        for (number, name) in NAMES.iter().enumerate() {
            if set.bits() >> number & 1 == 1 {
                fields.insert(name, HeaderValue::from_static(""));
            }
        }
        // A map has its own order of the names.
        let order =
            fields.keys().filter_map(|name| NAMES.iter().position(|other| other == name)).collect();
        Self { fields, order }
    }

    /// The fields of a set, with the values of their numbers.
    fn filled(set: FieldSet, value: impl Fn(usize) -> Option<HeaderValue>) -> HeaderMap {
        let empty = EMPTY[set.bits()].get_or_init(|| Self::of(set));
        let mut fields = empty.fields.clone();
        for (slot, number) in fields.values_mut().zip(&empty.order) {
            if let Some(value) = value(*number) {
                *slot = value;
            }
        }
        fields
    }
}

/// The values of fields that are the same in all answers under one rule, written with the first answer.
#[derive(Debug, Default)]
pub(super) struct Constant(OnceLock<Arc<ConstantValues>>);

#[derive(Debug)]
pub(super) struct ConstantValues {
    limit: HeaderValue,
    policies: HeaderValue,
}

impl Constant {
    const FIELDS: [HeaderField; 2] = [HeaderField::Limit, HeaderField::Policies];

    /// The values, if there was an answer.
    pub(super) fn get(&self) -> Option<&Arc<ConstantValues>> {
        self.0.get()
    }

    /// The values, which `answer` has as every other.
    fn values(&self, answer: &Answer<'_>) -> &Arc<ConstantValues> {
        self.0.get_or_init(|| {
            // Without the constant values, which this call makes: to ask for them would wait for itself.
            let fields = LimitFields::of(answer, Self::FIELDS.into(), None).into_map();
            let [limit, policies] = Self::FIELDS.map(|field| {
                let value = fields.get(&NAMES[field as usize]);
                value.cloned().unwrap_or(HeaderValue::from_static(""))
            });
            Arc::new(ConstantValues { limit, policies })
        })
    }
}

impl ConstantValues {
    /// The value of the field with this number, if it is constant.
    fn of(&self, number: usize) -> Option<HeaderValue> {
        const LIMIT: usize = HeaderField::Limit as usize;
        const POLICIES: usize = HeaderField::Policies as usize;
        match number {
            LIMIT => Some(self.limit.clone()),
            POLICIES => Some(self.policies.clone()),
            _ => None,
        }
    }
}

/// Header fields that describe limits.
#[derive(Clone, Debug, Default)]
pub(super) enum LimitFields {
    #[default]
    None,
    /// Fields of an admission, which become a map when the response is there: numbers are moved for less.
    Numbers { set: FieldSet, numbers: [u64; 3], constant: Option<Arc<ConstantValues>> },
    /// In a box, because they are moved several times on their way to the response.
    Map(Box<HeaderMap>),
}

impl LimitFields {
    /// The `wanted` fields that the answer has; `constant` belongs to the rule of an answer of one rule.
    pub(super) fn of(answer: &Answer<'_>, wanted: FieldSet, constant: Option<&Constant>) -> Self {
        let Some(numbers) = headers::numbers(answer) else { return Self::None };
        let constant = constant.map(|constant| constant.values(answer));
        // A limit of 0 has no reset.
        let is_plain = answer.is_allowed()
            && numbers.iter().all(|(field, number)| *field != HeaderField::Limit || *number > 0);
        if is_plain && let Some(fields) = Self::of_admission(wanted, numbers, constant) {
            return fields;
        }
        let written = Self::not_constant(wanted, constant);
        // All fields share one text, so that few blocks of memory are allocated.
        let mut text = String::with_capacity(headers::USUAL_BYTES);
        let mut set = wanted.without(written);
        let mut ends = [0; HeaderField::COUNT];
        headers::write(answer, written, &mut text, |field, text| {
            set = set.with(field);
            // The later ends too: each field begins where the field before it ends, even if that is not written.
            ends[field as usize..].fill(text.len());
        });
        let text = Bytes::from(text);
        Self::Map(Box::new(Empty::filled(set, |number| {
            let begin = number.checked_sub(1).map_or(0, |before| ends[before]);
            // A value is digits, names of rules and punctuation.
            constant
                .and_then(|values| values.of(number))
                .or_else(|| HeaderValue::from_maybe_shared(text.slice(begin..ends[number])).ok())
        })))
    }

    /// The `wanted` fields of an admission under one rule; `None` if some of them are text and not constant.
    pub(super) fn of_admission(
        wanted: FieldSet,
        numbers: [(HeaderField, u64); 3],
        constant: Option<&Arc<ConstantValues>>,
    ) -> Option<Self> {
        let written = Self::not_constant(wanted, constant);
        if written.has(HeaderField::Policies) || written.has(HeaderField::Limits) {
            return None;
        }
        // An admitted request has nothing to wait for.
        let set = wanted.without([HeaderField::RetryAfter].into());
        if set.is_empty() {
            return Some(Self::None);
        }
        let numbers = numbers.map(|(_, number)| number);
        Some(Self::Numbers { set, numbers, constant: constant.cloned() })
    }

    fn not_constant(wanted: FieldSet, constant: Option<&Arc<ConstantValues>>) -> FieldSet {
        match constant {
            Some(_) => wanted.without(Constant::FIELDS.into()),
            None => wanted,
        }
    }

    /// The fields by themselves.
    pub(super) fn into_map(self) -> HeaderMap {
        match self {
            Self::None => HeaderMap::new(),
            Self::Numbers { set, numbers, constant } => Empty::filled(set, |number| {
                let constant = constant.as_ref().and_then(|values| values.of(number));
                constant.or_else(|| numbers.get(number).copied().map(decimal))
            }),
            Self::Map(fields) => *fields,
        }
    }

    /// Adds the fields to a response.
    pub(super) fn put(self, headers: &mut HeaderMap) {
        if !matches!(self, Self::None) {
            put(self.into_map(), headers);
        }
    }
}

/// A number in one block of memory.
fn decimal(value: u64) -> HeaderValue {
    let mut digits = itoa::Buffer::new();
    let digits = Bytes::copy_from_slice(digits.format(value).as_bytes());
    HeaderValue::from_maybe_shared(digits).unwrap_or(HeaderValue::from_static(""))
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
    // The smaller map moves into the larger.
    if headers.len() < fields.len() {
        // The fields of the response replace fields that are added.
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
mod tests;
