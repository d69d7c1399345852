//! Invariants of the parser of bodies, used by the fuzzer and, over its seeds, by the tests.

use std::fmt;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::time::Duration;
use tidegate::{Descriptor, MAX_COST, canonical_text, readable};

use super::question::{HttpQuestion, QuestionBody};
use crate::admits::no_more_than_the_limit;
use crate::refusal::RequestRefusal;

/// Panics if a body is misread.
pub(crate) fn judge(body: &[u8]) {
    let body = &*readable::json(body);
    match QuestionBody::parse(body) {
        Err(problem) => judge_problem(&problem),
        Ok(asked) => {
            let written: Result<Json, _> = serde_json::from_slice(body);
            judge_asked(&asked, &written.unwrap_or(Json::Other));
        }
    }
}

/// A problem is readable, and contains the expected text.
fn judge_problem(problem: &RequestRefusal) {
    let document: Value = serde_json::from_slice(&problem.document()).unwrap_or_default();
    let detail = document["detail"].as_str().unwrap_or_default();
    assert!(document["status"] == 400 && detail.contains("expected such as {"), "{document}");
}

/// JSON as it is written: objects keep the order of their fields, and fields of one name.
#[derive(Debug, PartialEq)]
enum Json {
    Text(String),
    Number(u64),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
    Other,
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(canonical_text(text).into_owned()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Number(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(Json::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut fields = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, Json>()? {
            fields.push((canonical_text(&name).into_owned(), value));
        }
        Ok(Json::Object(fields))
    }
}

impl Json {
    fn fields(&self) -> &[(String, Self)] {
        if let Self::Object(fields) = self { fields } else { &[] }
    }

    fn field(&self, name: &str) -> &Self {
        let field = self.fields().iter().find(|(field, _)| field == name);
        field.map_or(&Self::Other, |(_, value)| value)
    }

    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    const fn number(&self) -> Option<u64> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }
}

/// There are as many questions as written, in the same order.
fn judge_asked(asked: &QuestionBody<'_>, written: &Json) {
    match (asked, written) {
        (QuestionBody::One(question), Json::Object(_)) => judge_question(question, written, false),
        (QuestionBody::Each(questions), Json::Array(all)) if questions.len() == all.len() => {
            assert!((1..=1000).contains(&all.len()), "{} questions", all.len());
            let each = questions.iter().zip(all);
            each.for_each(|(question, written)| judge_question(question, written, true));
        }
        _ => panic!("{asked:?} is not {written:?}"),
    }
}

/// A question equals the written one, to the last byte, and is within its bounds.
fn judge_question(question: &HttpQuestion<'_>, written: &Json, in_batch: bool) {
    let asked = question.ask(async |request| {
        assert_eq!(request.domain(), written.field("domain").text().unwrap_or("default"));
        let descriptors = request.descriptors();
        assert!((1..=64).contains(&descriptors.len()), "{} descriptors", descriptors.len());
        let items = match written.field("descriptors") {
            Json::Array(items) => items,
            _ => std::slice::from_ref(written.field("descriptor")),
        };
        assert_eq!(descriptors.len(), items.len(), "{written:?}");
        let usual = written.field("cost").number().unwrap_or(1);
        descriptors.iter().zip(items).for_each(|(asked, item)| judge_item(asked, item, usual));
        let longest = written.field("max_wait_ms").number();
        let longest = longest.map_or(Duration::from_micros(u64::MAX), Duration::from_millis);
        let longest = if in_batch { Duration::ZERO } else { longest };
        assert_eq!(request.longest_wait(), longest, "{written:?}");
        assert_eq!(request.id(), written.field("request_id").text(), "{written:?}");
        no_more_than_the_limit(request);
    });
    let polled = pin!(asked).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(()), "to put a question takes no time");
}

/// The entries equal those written, with their names, in their order; with their own cost, else the default.
fn judge_item(asked: &Descriptor<'_>, item: &Json, usual: u64) {
    // A text is not an object, so it has no such field.
    let (written, cost) = match item.field("descriptor") {
        inner @ Json::Object(_) => (inner, item.field("cost").number().unwrap_or(usual)),
        _ => (item, usual),
    };
    let entries = asked.entries();
    assert!(entries.len() <= 64 && asked.units() <= MAX_COST, "{asked:?}");
    assert_eq!(asked.units(), cost, "{item:?}");
    let written = written.fields().iter().map(|(name, value)| (&**name, value.text()));
    assert!(written.eq(entries.iter().map(|(name, value)| (*name, Some(*value)))), "{item:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;

    #[test]
    fn every_seed_and_what_lies_close_to_it_is_judged() {
        let judged = seeds::judge_near(&seeds::of("http_body"), b"\"{}[],9\\\0\xff", judge);
        assert!(judged > 3000, "{judged}");
    }

    #[test]
    fn what_lies_further_from_the_seeds_is_judged() {
        seeds::judge_far("http_body", judge);
    }
}
