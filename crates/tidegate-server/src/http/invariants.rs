//! Invariants of the parser of bodies, used by the fuzzer and, over its seeds, by the tests.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use serde_json::Value;
use std::time::Duration;
use tidegate::{Descriptor, MAX_COST};

use super::problem::Problem;
use super::question::{Asked, Question};

/// Panics if a body is misread.
pub(crate) fn judge(body: &[u8]) {
    match Asked::parse(body) {
        Err(problem) => judge_problem(&problem),
        Ok(asked) => {
            let written: Result<Value, _> = serde_json::from_slice(body);
            judge_asked(&asked, &written.unwrap_or_default());
        }
    }
}

/// A problem is readable, and contains what was expected.
fn judge_problem(problem: &Problem) {
    let document: Value = serde_json::from_slice(&problem.document()).unwrap_or_default();
    let detail = document["detail"].as_str().unwrap_or_default();
    assert!(document["status"] == 400 && detail.contains("expected such as {"), "{document}");
}

/// There are as many questions as written, in the same order.
fn judge_asked(asked: &Asked<'_>, written: &Value) {
    match (asked, written) {
        (Asked::One(question), Value::Object(_)) => judge_question(question, written, false),
        (Asked::Each(questions), Value::Array(all)) if questions.len() == all.len() => {
            assert!((1..=1000).contains(&all.len()), "{} questions", all.len());
            let each = questions.iter().zip(all);
            each.for_each(|(question, written)| judge_question(question, written, true));
        }
        _ => panic!("{asked:?} is not {written}"),
    }
}

/// A question equals the written one, to the last byte, and is within its bounds.
fn judge_question(question: &Question<'_>, written: &Value, in_batch: bool) {
    let asked = question.ask(async |request| {
        assert_eq!(request.domain(), written["domain"].as_str().unwrap_or("default"));
        let descriptors = request.descriptors();
        assert!((1..=64).contains(&descriptors.len()), "{} descriptors", descriptors.len());
        let one = [written["descriptor"].clone()];
        let items = written["descriptors"].as_array().map_or(&one[..], Vec::as_slice);
        assert_eq!(descriptors.len(), items.len(), "{written}");
        let usual = written["cost"].as_u64().unwrap_or(1);
        descriptors.iter().zip(items).for_each(|(asked, item)| judge_item(asked, item, usual));
        let longest = written["max_wait_ms"]
            .as_u64()
            .map_or(Duration::from_micros(u64::MAX), Duration::from_millis);
        let longest = if in_batch { Duration::ZERO } else { longest };
        assert_eq!(request.longest_wait(), longest, "{written}");
        assert_eq!(request.id(), written["request_id"].as_str(), "{written}");
    });
    let polled = pin!(asked).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(()), "to put a question takes no time");
}

/// The entries equal those written, with their names, no name twice; with their own cost, else the
/// default.
fn judge_item(asked: &Descriptor<'_>, item: &Value, usual: u64) {
    // A text is not an object, so it has no such field.
    let (written, cost) = match &item["descriptor"] {
        inner @ Value::Object(_) => (inner, item["cost"].as_u64().unwrap_or(usual)),
        _ => (item, usual),
    };
    let entries = asked.entries();
    assert!(entries.len() <= 64 && asked.units() <= MAX_COST, "{asked:?}");
    assert_eq!(asked.units(), cost, "{item}");
    assert_eq!(Some(entries.len()), written.as_object().map(serde_json::Map::len), "{item}");
    for (name, value) in entries {
        assert_eq!(written[*name].as_str(), Some(*value), "{name} of {item}");
    }
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
        let words = [
            &b"\"cost\":"[..],
            b"\"descriptor\":",
            b"\"request_id\":\"a\",",
            b"null",
            b"18446744073709551616",
            b"-0",
            b"1e0",
            b"\\u0000",
            b"\\ud800",
            b"{}",
            b"[]",
            b",",
            b"\"\"",
        ];
        seeds::judge_far(&seeds::of("http_body"), &words, judge);
    }
}
