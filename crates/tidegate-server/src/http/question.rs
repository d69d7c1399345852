//! The question in a body of JSON: a domain, and descriptors, each with its cost; or a batch of questions. Handlers parse
//! it, and [`HttpQuestion::ask`] passes it on as the [`tidegate::Request`] that a gate decides.
//!
//! ```json
//! {"domain": "pay", "descriptor": {"biz_type": "transfer", "channel": "demo"}, "cost": 2, "max_wait_ms": 50}
//! {"descriptors": [{"user": "a"}, {"descriptor": {"tenant": "b"}, "cost": 3}], "cost": 1}
//! [{"descriptor": {"user": "a"}}, {"descriptor": {"user": "b"}}]
//! ```
//!
//! With a `request_id`, a text, a check that is repeated within the `dedupe` of its rules gets the
//! same answer and takes nothing. The default domain is `default` and the default cost 1; a cost
//! next to `descriptors` applies to those without one. Entries keep their order, and may have one
//! name. `max_wait_ms` is the longest wait for units, and in a batch at most 0; `life_ms` is the life of a reservation,
//! which only POST /v1/reserve takes. Other fields are refused.
//!
//! Texts stand for bytes ([`tidegate::key_text`]). Where JSON has bytes that are no text, or half of
//! a surrogate pair, they are escaped before it is read.

mod entries;
mod item;
mod values;

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use smallvec::{SmallVec, smallvec};
use std::time::Duration;
use tidegate::Descriptor;

use crate::refusal::{RefusalKind, RequestRefusal};
use entries::{BodyEntries, Pairs, Text};
use item::Item;

/// Most descriptors of one question.
const MOST_DESCRIPTORS: usize = 64;
/// Most questions of a batch.
const MOST_QUESTIONS: usize = 1000;
/// The form of a question.
const EXAMPLE: &str = r#"{"descriptor": {"NAME": "VALUE"}, "cost": 1}"#;

/// A list that usually has one item.
type FewItems<T> = SmallVec<[T; 1]>;

/// One question, or a batch of independent ones.
#[derive(Debug)]
pub(super) enum QuestionBody<'b> {
    One(HttpQuestion<'b>),
    Each(Vec<HttpQuestion<'b>>),
}

/// A parsed question; texts are borrowed from the body where they have no escapes.
#[derive(Debug)]
pub(super) struct HttpQuestion<'b> {
    domain: Cow<'b, str>,
    items: FewItems<Item<'b>>,
    cost: Option<u64>,
    max_wait: Option<Duration>,
    request_id: Option<Text<'b>>,
}

/// The fields of a question as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct QuestionFields<'b> {
    #[serde(borrow, default, deserialize_with = "given")]
    domain: Option<Text<'b>>,
    #[serde(borrow, default, deserialize_with = "given")]
    descriptor: Option<BodyEntries<'b>>,
    #[serde(borrow, default, deserialize_with = "given")]
    descriptors: Option<Vec<Item<'b>>>,
    #[serde(default, deserialize_with = "values::cost")]
    cost: Option<u64>,
    #[serde(default, deserialize_with = "values::max_wait")]
    max_wait_ms: Option<Duration>,
    #[serde(borrow, default, deserialize_with = "values::request_id")]
    request_id: Option<Text<'b>>,
    #[serde(default, deserialize_with = "values::life")]
    life_ms: Option<Duration>,
}

/// One question of several. It must be an object, not an array of its values.
struct QuestionObject<'b>(QuestionFields<'b>);

impl<'b> Deserialize<'b> for QuestionObject<'b> {
    fn deserialize<D: Deserializer<'b>>(from: D) -> Result<Self, D::Error> {
        // A derived reader would accept `["pay", ...]` as the values of an object.
        from.deserialize_map(QuestionVisitor)
    }
}

/// Reads a [`QuestionObject`].
struct QuestionVisitor;

impl<'b> Visitor<'b> for QuestionVisitor {
    type Value = QuestionObject<'b>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'b>>(self, map: A) -> Result<QuestionObject<'b>, A::Error> {
        QuestionFields::deserialize(MapAccessDeserializer::new(map)).map(QuestionObject)
    }
}

/// Reads a field that is present; `null` is an error, not an absence.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl<'b> QuestionBody<'b> {
    /// Reads a body. An error anywhere in a batch refuses all of it, before anything is decided.
    pub(super) fn parse(body: &'b [u8]) -> Result<Self, RequestRefusal> {
        // The first byte tells both forms apart: an untagged type would lose the position of a mistake.
        if !is_array(body) {
            return HttpQuestion::parse(body).map(Self::One);
        }
        let each: Vec<QuestionObject<'b>> = read(body)?;
        match each.len() {
            1..=MOST_QUESTIONS => {}
            0 => return Err(mistaken("the batch is empty")),
            number => {
                return Err(mistaken(format_args!(
                    "the batch has {number} questions, and at most {MOST_QUESTIONS} are taken"
                )));
            }
        }
        // All are checked before the first is asked, so that a mistake in the last takes no units.
        let questions = (1..).zip(each).map(|(number, fields)| {
            HttpQuestion::of_batch(fields.0)
                .map_err(|what| mistaken(format_args!("question {number} of the batch: {what}")))
        });
        questions.collect::<Result<_, _>>().map(Self::Each)
    }
}

impl<'b> HttpQuestion<'b> {
    /// Reads a body that is one question.
    pub(super) fn parse(body: &'b [u8]) -> Result<Self, RequestRefusal> {
        if is_array(body) {
            return Err(mistaken("the body is an array"));
        }
        Self::of(read(body)?).map_err(mistaken)
    }

    /// Reads a body that is one question with the life of its reservation, if it names one.
    pub(super) fn parse_reserve(
        body: &'b [u8],
    ) -> Result<(Self, Option<Duration>), RequestRefusal> {
        if is_array(body) {
            return Err(mistaken("the body is an array, and a reservation is of one request"));
        }
        let mut fields: QuestionFields<'b> = read(body)?;
        let life = fields.life_ms.take();
        Self::of(fields).map(|question| (question, life)).map_err(mistaken)
    }

    /// Builds the question, or returns the error in its fields.
    fn of(fields: QuestionFields<'b>) -> Result<Self, String> {
        // A reserve has taken its life out before, so this is another request.
        if fields.life_ms.is_some() {
            return Err("`life_ms` is of a reservation, which POST /v1/reserve makes".to_owned());
        }
        let items = match (fields.descriptor, fields.descriptors) {
            (Some(entries), None) => smallvec![Item { entries, cost: None }],
            (None, Some(items)) => items.into(),
            (Some(_), Some(_)) => {
                return Err("both `descriptor` and `descriptors` are given".to_owned());
            }
            (None, None) => {
                return Err("neither `descriptor` nor `descriptors` is given".to_owned());
            }
        };
        check_number(items.len())?;
        let domain =
            fields.domain.map_or(Cow::Borrowed(tidegate::Request::DEFAULT_DOMAIN), |t| t.0);
        if domain.is_empty() {
            return Err("`domain` is empty".to_owned());
        }
        Ok(Self {
            domain,
            items,
            cost: fields.cost,
            max_wait: fields.max_wait_ms,
            request_id: fields.request_id,
        })
    }

    pub(super) fn domain(&self) -> &str {
        &self.domain
    }

    /// Creates a question of a batch. It never waits, because the rest of the batch would wait with it; so
    /// `max_wait_ms` may be absent or 0.
    fn of_batch(fields: QuestionFields<'b>) -> Result<Self, String> {
        let question = Self::of(fields)?;
        if question.max_wait.is_some_and(|wait| !wait.is_zero()) {
            return Err("`max_wait_ms` is more than 0, and nothing in a batch waits".to_owned());
        }
        Ok(Self { max_wait: Some(Duration::ZERO), ..question })
    }

    pub(super) fn names_a_cost(&self) -> bool {
        self.cost.is_some() || self.items.iter().any(|item| item.cost.is_some())
    }

    /// Refuses `max_wait_ms`, even 0, for requests that never wait.
    pub(super) fn refuse_max_wait(&self, what: &str) -> Result<(), RequestRefusal> {
        if self.max_wait.is_none() {
            return Ok(());
        }
        let detail = format!("`max_wait_ms` means nothing to {what}: remove it");
        Err(RefusalKind::InvalidBody.because(detail))
    }

    pub(super) const fn names_an_id(&self) -> bool {
        self.request_id.is_some()
    }

    /// Passes the request to `to`.
    pub(super) async fn ask<T>(&self, to: impl AsyncFnOnce(&tidegate::Request<'_>) -> T) -> T {
        let entries = self.entries();
        let descriptors = self.descriptors(&entries);
        // The request borrows both lists, so they live here until it is answered.
        to(&self.request(&descriptors)).await
    }

    /// Passes the request to `to`, which answers immediately.
    pub(super) fn ask_now<T>(&self, to: impl FnOnce(&tidegate::Request<'_>) -> T) -> T {
        let entries = self.entries();
        let descriptors = self.descriptors(&entries);
        to(&self.request(&descriptors))
    }

    fn entries(&self) -> FewItems<Pairs<'_>> {
        self.items.iter().map(|item| item.entries.pairs()).collect()
    }

    fn descriptors<'e>(&self, entries: &'e [Pairs<'_>]) -> FewItems<Descriptor<'e>> {
        let costs = self.items.iter().map(|item| item.cost.or(self.cost).unwrap_or(1));
        let each = entries.iter().zip(costs);
        each.map(|(entries, cost)| Descriptor::new(entries).cost(cost)).collect()
    }

    fn request<'a>(&'a self, descriptors: &'a [Descriptor<'a>]) -> tidegate::Request<'a> {
        // A request that names no bound waits as long as its rules allow.
        let max_wait = self.max_wait.unwrap_or(Duration::MAX);
        let request = tidegate::Request::new(&self.domain, descriptors).max_wait(max_wait);
        // An invalid id was refused when the body was read.
        let with_id = self.request_id.as_ref().and_then(|id| request.with_id(&id.0).ok());
        with_id.unwrap_or(request)
    }
}

fn is_array(body: &[u8]) -> bool {
    body.trim_ascii_start().first() == Some(&b'[')
}

fn read<'b, T: Deserialize<'b>>(body: &'b [u8]) -> Result<T, RequestRefusal> {
    // UTF-8 is checked once for the whole body; if it is invalid, the reader of bytes finds the
    // position.
    let read = std::str::from_utf8(body)
        .map_or_else(|_| serde_json::from_slice(body), |body| serde_json::from_str(body));
    read.map_err(|error| unreadable(&error))
}

fn check_number(descriptors: usize) -> Result<(), String> {
    match descriptors {
        0 => Err("`descriptors` is empty".to_owned()),
        1..=MOST_DESCRIPTORS => Ok(()),
        _ => Err(format!(
            "`descriptors` has {descriptors} items, and at most {MOST_DESCRIPTORS} are taken"
        )),
    }
}

fn mistaken(what: impl fmt::Display) -> RequestRefusal {
    RefusalKind::InvalidBody.because(format!("{what}: expected such as {EXAMPLE}"))
}

/// The text of `error` has the position.
fn unreadable(error: &serde_json::Error) -> RequestRefusal {
    let what = if error.is_data() { "" } else { "not JSON: " };
    RequestRefusal::of_json(format!("{what}{error}; expected such as {EXAMPLE}"), error)
}
