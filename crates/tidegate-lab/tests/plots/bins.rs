//! Round bins that lose nothing, and the labels of counts and durations.

use tidegate_lab::plot::{Bins, MAX_BINS, bin_width, count_label, duration_label, length_label};

const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

#[test]
fn width_is_the_finest_round_one() {
    let table = [
        (0, 200, 1),
        (1, 200, 1),
        (200, 200, 1),
        (201, 200, 2),
        (MS, 200, 5),
        (3 * SECOND, 200, 20 * MS),
        (100 * SECOND, 200, 500 * MS),
        (101 * SECOND, 200, SECOND),
        (10 * MINUTE, 200, 5 * SECOND),
        (HOUR, 160, 30 * SECOND),
        (DAY, 200, 10 * MINUTE),
        (3 * DAY, 200, 30 * MINUTE),
        (31 * DAY, 200, 6 * HOUR),
        (365 * DAY, 200, 2 * DAY),
        (36_500 * DAY, 200, 200 * DAY),
        (7, 0, 10),
    ];
    for (span_us, target, expected) in table {
        assert_eq!(bin_width(span_us, target), expected, "{span_us} in {target}");
    }
}

#[test]
fn each_instant_falls_into_one_bin_and_an_edge_into_the_later() {
    let bins = Bins { start_us: 100, bin_us: 10, count: 3 };
    let table =
        [(99, None), (100, Some(0)), (109, Some(0)), (110, Some(1)), (129, Some(2)), (130, None)];
    for (at_us, expected) in table {
        assert_eq!(bins.index(at_us), expected, "{at_us}");
    }
    assert_eq!(bins.tally([100, 109, 110, 130, 99]), [2, 1, 0]);
}

#[test]
fn cover_holds_both_ends_at_every_size() {
    let ends = [(0, 0), (59_999_999, 60_000_000), (u64::MAX, u64::MAX), (0, u64::MAX - 1), (7, 3)];
    for (first_us, last_us) in ends {
        for target in [0, 1, 2, 24, 200, usize::MAX] {
            let bins = Bins::cover(first_us, last_us, target);
            assert!(bins.count <= target.clamp(1, MAX_BINS), "{bins:?}");
            assert!(bins.index(first_us).is_some(), "{bins:?}");
            assert!(bins.index(last_us.max(first_us)).is_some(), "{bins:?}");
        }
    }
}

#[test]
fn a_bin_of_zero_width_holds_nothing() {
    let bins = Bins { start_us: 0, bin_us: 0, count: 3 };
    assert_eq!(bins.index(0), None);
}

#[test]
fn counts_are_short() {
    let table = [
        (0, "0"),
        (1, "1"),
        (100, "100"),
        (999, "999"),
        (1_000, "1k"),
        (1_500, "1.5k"),
        (20_000, "20k"),
        (999_499, "999k"),
        (999_500, "1M"),
        (1_234_567, "1.23M"),
        (u64::MAX, "18.4E"),
    ];
    for (n, expected) in table {
        assert_eq!(count_label(n), expected, "{n}");
    }
}

#[test]
fn durations_are_whole_numbers_of_the_largest_unit() {
    let table = [
        (0, "0 s"),
        (1, "1 \u{b5}s"),
        (1_500, "1500 \u{b5}s"),
        (500 * MS, "500 ms"),
        (90 * SECOND, "90 s"),
        (HOUR, "1 h"),
        (DAY, "1 day"),
        (2 * DAY, "2 days"),
    ];
    for (duration_us, expected) in table {
        assert_eq!(duration_label(duration_us), expected);
    }
}

#[test]
fn lengths_read_as_a_person_writes_them() {
    let table = [
        (0, "0 s"),
        (1, "1 \u{b5}s"),
        (999, "999 \u{b5}s"),
        (1_000, "1 ms"),
        (1_234, "1.23 ms"),
        (340_000, "340 ms"),
        (340_400, "340 ms"),
        (999_499, "999 ms"),
        (999_500, "1 s"),
        (1_249_800, "1.25 s"),
        (10_050_000, "10.1 s"),
        (59_940_000, "59.9 s"),
        (59_950_000, "1 min"),
        (MINUTE, "1 min"),
        (61 * SECOND, "1 min 1 s"),
        (125 * SECOND + 400 * MS, "2 min 5 s"),
        (HOUR - 1, "1 h"),
        (HOUR + 5 * MINUTE + 29 * SECOND, "1 h 5 min"),
        (DAY - SECOND, "1 day"),
        (2 * DAY + 4 * HOUR, "2 days 4 h"),
    ];
    for (length_us, expected) in table {
        assert_eq!(length_label(length_us), expected);
    }
    assert!(length_label(u64::MAX).ends_with(" h"));
}
