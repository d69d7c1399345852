//! The errors of invalid rules name the expected value, and following them helps.

use std::time::Duration;
use tidegate_core::{AlgorithmKind, Field, Limit, MAX_WINDOW, Micros, Rule, RuleError, Spec};

const LONGEST_US: u64 = Micros::from_duration(MAX_WINDOW).as_micros();

fn errors(spec: Spec) -> Vec<RuleError> {
    Rule::new(spec).map_or_else(|errors| errors.iter().cloned().collect(), |_| Vec::new())
}

/// The text of the only error.
fn text(spec: Spec) -> String {
    let errors = errors(spec);
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors[0].to_string()
}

fn per_second(algorithm: AlgorithmKind, limit: u64) -> Spec {
    Spec::new(algorithm, limit, Duration::from_secs(1))
}

#[test]
fn a_log_that_could_pass_64_mib_is_refused_and_the_hint_helps() {
    let mut spec = per_second(AlgorithmKind::SlidingLog, 1_000_000_000);
    spec.window = Some(Duration::from_secs(60));
    let refused = errors(spec);
    let [RuleError::TooLarge { bytes, max_memory, resolution: Some(resolution) }] = refused[..]
    else {
        panic!("{refused:?}");
    };
    assert!(bytes > max_memory && max_memory == 64 << 20);
    let said = text(spec);
    assert!(said.contains(&format!("resolution = \"{}\"", Micros::from(resolution))), "{said}");
    assert!(said.contains("max_memory"), "{said}");

    spec.resolution = Some(resolution);
    assert!(errors(spec).is_empty(), "the hint does not help");
    spec.resolution = None;
    spec.max_memory = Some(bytes);
    assert!(errors(spec).is_empty(), "raising max_memory does not help");
}

#[test]
fn the_hint_for_a_large_log_helps_whatever_the_values() {
    let mut hints = 0;
    for limit in [100, 4_194_304, 4_194_305, 999_999_999] {
        for window in [1_000, 1_001, 4_194_304_000, 86_400_000_000, LONGEST_US] {
            for max_memory in [None, Some(1024), Some(1025), Some(65_536)] {
                let mut spec =
                    Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_micros(window));
                spec.max_memory = max_memory;
                if let [RuleError::TooLarge { resolution, .. }] = errors(spec)[..] {
                    hints += 1;
                    spec.resolution = resolution;
                }
                assert!(errors(spec).is_empty(), "{:?}: {spec:?}", errors(spec));
            }
        }
    }
    assert!(hints > 20, "{hints}");
}

#[test]
fn a_log_just_under_64_mib_is_accepted() {
    let entries = (64 << 20) / 16;
    assert!(errors(per_second(AlgorithmKind::SlidingLog, 1_000_000)).is_empty());
    let mut spec = per_second(AlgorithmKind::SlidingLog, entries);
    spec.window = Some(Duration::from_secs(60));
    assert!(errors(spec).is_empty());
    spec.limit = Limit::Units(entries + 1);
    assert!(matches!(errors(spec)[..], [RuleError::TooLarge { .. }]));
}

#[test]
fn more_permits_than_fit_in_64_mib_are_refused_and_the_hint_helps() {
    let most = (64 << 20) / 24;
    assert!(errors(per_second(AlgorithmKind::Concurrency, most)).is_empty());
    let mut spec = per_second(AlgorithmKind::Concurrency, most + 1);
    let refused = errors(spec);
    let [RuleError::TooLarge { bytes, resolution: None, .. }] = refused[..] else {
        panic!("{refused:?}");
    };
    assert!(text(spec).ends_with("set a smaller `limit`, or raise `max_memory`"), "{}", text(spec));
    spec.max_memory = Some(bytes);
    assert!(errors(spec).is_empty());
}

#[test]
fn a_bucket_that_never_fills_is_refused_and_the_hint_helps() {
    for algorithm in
        [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket, AlgorithmKind::LeakyQueue]
    {
        let mut spec = Spec::new(algorithm, 1, MAX_WINDOW);
        spec.capacity = Some(1_000_000_000);
        let refused = errors(spec);
        let [RuleError::TooSlow { most, .. }] = refused[..] else { panic!("{refused:?}") };
        assert_eq!(u128::from(most), (1_u128 << 53) / u128::from(LONGEST_US));
        let said = text(spec);
        assert!(said.contains("285 years") && said.contains(&format!("at most {most}")), "{said}");
        spec.capacity = Some(most);
        assert!(errors(spec).is_empty(), "{algorithm}");
        spec.capacity = Some(most + 1);
        assert!(matches!(errors(spec)[..], [RuleError::TooSlow { .. }]), "{algorithm}");
    }
}

#[test]
fn buckets_that_do_not_divide_the_window_are_refused_and_the_hint_helps() {
    for window_us in [1_000, 1_001, 1_009, 60_000_000, 31_622_400_000_000] {
        for buckets in [2, 7, 11, 600, 999, 1_000] {
            let mut spec =
                Spec::new(AlgorithmKind::SlidingWindow, 5, Duration::from_micros(window_us));
            spec.buckets = Some(buckets);
            if window_us % buckets == 0 {
                assert!(errors(spec).is_empty());
                continue;
            }
            let said = text(spec);
            assert!(said.contains(&format!("{buckets} `buckets` do not divide")), "{said}");
            let [RuleError::Indivisible { nearest, .. }] = errors(spec)[..] else {
                panic!("{said}");
            };
            spec.buckets = Some(nearest);
            assert!(errors(spec).is_empty(), "{said}: {:?}", errors(spec));
        }
    }
}

#[test]
fn a_memory_in_which_the_counters_of_one_key_have_no_space_is_refused_and_the_hint_helps() {
    let mut spec = per_second(AlgorithmKind::SlidingWindow, 10);
    (spec.buckets, spec.strict, spec.max_memory) = (Some(1_000), Some(true), Some(4_003));
    let said = text(spec);
    assert!(said.contains("`max_memory` is 4003: expected at least the 4004 bytes"), "{said}");
    assert!(said.contains("or fewer `buckets`"), "{said}");
    spec.max_memory = Some(4_004);
    assert!(errors(spec).is_empty());
    (spec.max_memory, spec.buckets) = (Some(4_003), Some(500));
    assert!(errors(spec).is_empty());
}

#[test]
fn values_out_of_range_are_reported_with_what_is_allowed() {
    let mut spec = per_second(AlgorithmKind::TokenBucket, 1_000_000_001);
    assert!(text(spec).contains("`limit` is 1000000001: expected a whole number from 0 to"));
    spec.limit = Limit::Units(10);
    for window_us in [0, 999, LONGEST_US + 1, u64::MAX] {
        spec.window = Some(Duration::from_micros(window_us));
        assert!(text(spec).contains("expected a length from \"1ms\" to \"366d\""));
    }
    spec.window = None;
    assert!(text(spec).contains("`window` is missing"));
    spec.window = Some(Duration::from_secs(1));
    spec.capacity = Some(0);
    assert!(text(spec).contains("`capacity` is 0"));
    spec.capacity = None;
    spec.initial = Some(11);
    assert!(text(spec).contains("`initial` is 11: expected a whole number from 0 to the capacity"));
}

#[test]
fn a_resolution_is_from_a_microsecond_to_the_window() {
    let mut spec = per_second(AlgorithmKind::SlidingLog, 10);
    for resolution_us in [0, 1_000_001, u64::MAX] {
        spec.resolution = Some(Duration::from_micros(resolution_us));
        assert!(text(spec).contains("expected a length from \"1us\" to the window"));
    }
    for resolution_us in [1, 1_000_000] {
        spec.resolution = Some(Duration::from_micros(resolution_us));
        assert!(errors(spec).is_empty());
    }
}

#[test]
fn a_word_that_means_nothing_to_the_algorithm_is_refused_with_those_it_is_for() {
    for algorithm in AlgorithmKind::ALL {
        for field in
            [Field::Buckets, Field::Strict, Field::Capacity, Field::Initial, Field::MaxMemory]
        {
            let mut spec = per_second(*algorithm, 10);
            match field {
                Field::Buckets => spec.buckets = Some(5),
                Field::Strict => spec.strict = Some(true),
                Field::Capacity => spec.capacity = Some(5),
                Field::Initial => spec.initial = Some(5),
                _ => spec.max_memory = Some(2048),
            }
            if algorithm.fields().contains(&field) {
                assert!(errors(spec).is_empty(), "{algorithm} {field}");
            } else {
                let said = text(spec);
                assert!(said.contains(&format!("`{field}` means nothing to `{algorithm}`")));
                let owner =
                    AlgorithmKind::ALL.iter().find(|a| a.fields().contains(&field)).unwrap();
                assert!(said.contains(&format!("`{owner}`")), "{said}");
            }
        }
    }
}

#[test]
fn every_mistake_is_reported_at_once() {
    let mut spec = per_second(AlgorithmKind::SlidingLog, 2_000_000_000);
    spec.window = Some(Duration::ZERO);
    spec.buckets = Some(0);
    spec.initial = Some(3);
    let fields: Vec<_> = errors(spec).iter().map(RuleError::field).collect();
    for field in [Field::Limit, Field::Window, Field::Buckets, Field::Initial] {
        assert!(fields.contains(&field), "{field}: {fields:?}");
    }
}

#[test]
fn lengths_with_a_part_below_a_microsecond_are_refused() {
    let odd = Duration::from_nanos(1_000_000_500);
    let said = text(Spec::new(AlgorithmKind::TokenBucket, 1, odd));
    assert!(said.contains("`window` is 1.0000005s, with a part below a microsecond"), "{said}");
    let mut spec = per_second(AlgorithmKind::SlidingLog, 1);
    spec.resolution = Some(Duration::from_nanos(1_500));
    assert!(text(spec).contains("`resolution` is 1.5µs"), "{}", text(spec));
}
