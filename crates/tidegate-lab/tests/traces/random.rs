//! Random traces compared with a stable sort, and random bytes, which must not cause a panic.

#![allow(clippy::unwrap_used)] // helpers of tests stop the test

use std::io;

use crate::events::{Owned, all};
use proptest::prelude::*;
use tidegate_lab::trace::{self, Options, Sorted, Source, TraceError};

const LOG: &str = r#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5 "-" "a\"b""#;
const JSON: &str = r#"{"at_us": 5, "domain": "d", "descriptor": {"a": "1", "b": "\n"}, "cost": 2}"#;

fn read(bytes: impl Into<Vec<u8>>, options: Options<'_>) -> Result<Sorted, TraceError> {
    trace::read(Source::from_reader("test", io::Cursor::new(bytes.into())), options)
}

fn any_event() -> impl Strategy<Value = Owned> {
    let values = proptest::collection::vec("[ -~é\\n]{0,12}", 0..4);
    (0_u64..40, "[a-z]{0,8}", values, 0_u64..=trace::COST_MAX).prop_map(
        |(at_us, domain, values, cost)| {
            let descriptor = values.into_iter().enumerate().map(|(i, v)| (format!("n{i}"), v));
            Owned { at_us, domain, descriptor: descriptor.rev().collect(), cost, request_id: None }
        },
    )
}

fn to_json(event: &Owned) -> String {
    let quote = |text: &str| serde_json::Value::from(text).to_string();
    let entries = event.descriptor.iter().map(|(k, v)| format!("{}: {}", quote(k), quote(v)));
    format!(
        "{{\"at_us\": {}, \"domain\": {}, \"descriptor\": {{{}}}, \"cost\": {}}}",
        event.at_us,
        quote(&event.domain),
        entries.collect::<Vec<_>>().join(", "),
        event.cost
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Up to 400 runs of one event, so that merges take more than one pass of 64.
    #[test]
    fn reading_equals_a_stable_sort_within_any_budget(
        input in proptest::collection::vec(any_event(), 0..400),
        budget_bytes in prop_oneof![Just(0_usize), 0_usize..2_000, Just(1 << 28)],
    ) {
        let text: Vec<String> = input.iter().map(to_json).collect();
        let sorted =
            read(text.join("\n"), Options::new().memory_budget_bytes(budget_bytes)).unwrap();
        prop_assert_eq!(sorted.events(), input.len() as u64);
        let mut expected = input;
        expected.sort_by_key(|e| e.at_us);
        prop_assert_eq!(sorted.first_at_us(), expected.first().map(|e| e.at_us));
        prop_assert_eq!(sorted.last_at_us(), expected.last().map(|e| e.at_us));
        prop_assert_eq!(all(sorted).unwrap(), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_bytes_are_accounted_for(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        accounts_for_every_line(&bytes)?;
    }

    #[test]
    fn nearly_good_lines_are_accounted_for(
        good in prop_oneof![Just(LOG), Just(JSON)],
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = good.as_bytes().to_vec();
        for (index, byte) in edits {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        accounts_for_every_line(&bytes)?;
        bytes.truncate(cut.index(bytes.len()));
        accounts_for_every_line(&bytes)?;
    }
}

/// Every line that is not blank is an event or a bad line, for any bytes.
fn accounts_for_every_line(bytes: &[u8]) -> Result<(), TestCaseError> {
    let blank = |line: &&[u8]| line.trim_ascii().is_empty();
    let lines = bytes.split(|b| *b == b'\n').filter(|line| !blank(line)).count() as u64;
    let (events, bad) = match read(bytes, Options::new()) {
        Ok(sorted) => (sorted.events(), sorted.bad_lines().count),
        Err(TraceError::Unrecognised { bad_lines, .. }) => (0, bad_lines.count),
        // By chance the bytes may begin like compressed data.
        Err(TraceError::Read { .. } | TraceError::Compressed { .. } | TraceError::Utf16 { .. }) => {
            return Ok(());
        }
        Err(other) => return Err(TestCaseError::fail(other.to_string())),
    };
    prop_assert_eq!(events + bad, lines);
    Ok(())
}
