//! Tests of the fields of an answer, in responses that have fields of their own.

use super::*;
use crate::{AlgorithmKind, Descriptor, Gate, Policy, RuleSpec, Spec};
use std::time::Duration;

/// The fields of the first and of the second answer of a gate of one an hour.
fn of_an_admission_and_a_refusal() -> [LimitFields; 2] {
    let spec = Spec::new(AlgorithmKind::SlidingLog, 1, Duration::from_secs(3_600));
    let gate = Gate::new(Policy::new(vec![RuleSpec::new("one", spec)]).unwrap());
    let check = || gate.check(Descriptor::new(&[]));
    [(); 2].map(|()| LimitFields::of(&check(), true.into(), None))
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
