//! Sums compared with naive ones, and the budget under every input.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn key(number: u32) -> Fingerprint {
    Fingerprint::from_words([number.wrapping_mul(0x9e37_79b9), number, 0])
}

/// Admissions of keys in order of time: key, time of the request, delay of the admission, units.
fn asked() -> impl Strategy<Value = Vec<(u32, u64, u64, u64)>> {
    let one = (0_u32..40, 0_u64..3_000, 0_u64..400, 1_u64..4);
    prop::collection::vec(one, 0..300).prop_map(|mut all| {
        all.sort_by_key(|(_, now_us, ..)| *now_us);
        all
    })
}

/// The results of [`Watched::add`], and the true ones, for a queue whose departures do not fall.
fn sums(watched: &mut Watched, all: &[(u32, u64, u64, u64)], window_us: u64) -> Vec<(u64, u64)> {
    let mut admitted: HashMap<u32, Vec<(u64, u64)>> = HashMap::new();
    let mut sums = Vec::new();
    for &(number, now_us, delay_us, units) in all {
        let of_key = admitted.entry(number).or_default();
        let at_us = of_key.last().map_or(0, |(at_us, _)| *at_us).max(now_us + delay_us);
        of_key.push((at_us, units));
        let inside = of_key.iter().filter(|(then, _)| at_us - then < window_us);
        let naive = inside.map(|(_, units)| units).sum();
        sums.push((watched.add(key(number), now_us, at_us, units), naive));
        assert!(watched.bytes() <= watched.most_bytes);
    }
    sums
}

proptest! {
    #[test]
    fn with_space_every_sum_is_exact(all in asked(), window_us in 1_u64..1_000) {
        let mut watched = Watched::new(window_us, 1 << 20);
        for (found, naive) in sums(&mut watched, &all, window_us) {
            prop_assert_eq!(found, naive);
        }
        prop_assert_eq!(watched.forgotten(), 0);
    }

    #[test]
    fn without_space_no_sum_is_too_high_and_a_lower_one_is_reported(
        all in asked(),
        window_us in 1_u64..3_000,
        most_bytes in 0_usize..6_000,
    ) {
        let mut watched = Watched::new(window_us, most_bytes);
        for (found, naive) in sums(&mut watched, &all, window_us) {
            prop_assert!(found <= naive);
            prop_assert!(found == naive || watched.forgotten() > 0);
        }
    }
}

#[test]
fn keys_whose_window_has_passed_take_no_space() {
    let mut watched = Watched::new(1_000, 100_000);
    for number in 0..1_000_000 {
        let now_us = u64::from(number);
        assert_eq!(watched.add(key(number), now_us, now_us, 1), 1);
    }
    assert_eq!(watched.forgotten(), 0);
}

#[test]
fn a_key_is_not_dropped_for_the_late_departure_of_another() {
    let mut watched = Watched::new(60, 1 << 20);
    watched.add(key(1), 100, 100, 1);
    watched.add(key(2), 101, 700, 1);
    watched.add(key(3), 102, 102, 1);
    assert_eq!(watched.add(key(1), 103, 103, 1), 2);
}

#[test]
fn a_busy_key_is_measured_among_any_number_of_others() {
    let mut watched = Watched::new(1_000_000, 100_000);
    let mut fullest = 0;
    for number in 1..200_000_u32 {
        let now_us = u64::from(number);
        watched.add(key(number), now_us, now_us, 1);
        if number > 100_000 && number.is_multiple_of(100) {
            fullest = watched.add(key(0), now_us, now_us, 1);
        }
    }
    assert!(watched.forgotten() > 0);
    assert!(fullest > 900, "{fullest} of 999");
}

#[test]
fn one_key_with_more_admissions_than_memory_has_its_latest_counted() {
    let mut watched = Watched::new(u64::MAX, 100_000);
    let sums = (0..100_000).map(|now_us| watched.add(key(0), now_us, now_us, 1));
    let last = sums.last().unwrap();
    assert!((3_000..100_000).contains(&last), "{last}");
    assert!(watched.forgotten() > 0);
    assert!(watched.bytes() <= 100_000);
}
