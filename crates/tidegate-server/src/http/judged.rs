//! What holds for every body, whatever is in it: for the fuzzer, and for its seeds whenever tests run.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use serde_json::Value;
use tidegate::{MAX_COST, Micros};

use super::problem::Problem;
use super::question::{Asked, Question};

/// Panics where a body is taken for what it is not.
pub(crate) fn judge(body: &[u8]) {
    match Asked::parse(body) {
        Err(problem) => judge_problem(&problem),
        Ok(asked) => {
            let written: Result<Value, _> = serde_json::from_slice(body);
            judge_asked(&asked, &written.unwrap_or_default());
        }
    }
}

/// A problem can be read, and says what was expected.
fn judge_problem(problem: &Problem) {
    let document: Value = serde_json::from_slice(&problem.document()).unwrap_or_default();
    let detail = document["detail"].as_str().unwrap_or_default();
    assert!(document["status"] == 400 && detail.contains("expected such as {"), "{document}");
}

/// As many questions as are written, in their order.
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

/// What is asked is what is written, and within its bounds.
fn judge_question(question: &Question<'_>, written: &Value, in_batch: bool) {
    let asked = question.ask(async |request| {
        assert_eq!(request.domain(), written["domain"].as_str().unwrap_or("default"));
        let descriptors = request.descriptors();
        assert!((1..=64).contains(&descriptors.len()), "{} descriptors", descriptors.len());
        let items = written["descriptors"].as_array().map_or(1, Vec::len);
        assert_eq!(descriptors.len(), items, "{written}");
        for descriptor in descriptors {
            let entries = descriptor.entries();
            assert!(entries.len() <= 64 && descriptor.units() <= MAX_COST, "{descriptor:?}");
            let first_of = |name: &str| entries.iter().position(|(other, _)| *other == name);
            let unique = (0..).zip(entries).all(|(place, (name, _))| first_of(name) == Some(place));
            assert!(unique, "{descriptor:?}");
        }
        let longest = request.longest_wait();
        assert!(!in_batch || longest == Micros::ZERO, "nothing in a batch waits");
    });
    let polled = pin!(asked).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(()), "to put a question takes no time");
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
}
