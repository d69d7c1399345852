//! The table and its order, compared with a plain list of keys.

use proptest::prelude::*;

use super::*;

fn key(number: u32) -> Fingerprint {
    // Few different hashes, so that chains are long.
    Fingerprint::from_words([number % 7, number, 0])
}

/// The keys in the order of use, as the list has them.
fn in_order(keyed: &RecentByKey) -> Vec<Fingerprint> {
    let mut keys = Vec::new();
    let mut index = keyed.earliest;
    while let Some(entry) = keyed.entries.get(index as usize) {
        keys.push(entry.key);
        index = entry.later;
    }
    keys
}

proptest! {
    #[test]
    fn equals_a_list_through_any_uses_and_removals(
        steps in prop::collection::vec((0_u32..60, 0_u32..3), 0..400),
    ) {
        let mut keyed = RecentByKey::new();
        let mut expected: Vec<u32> = Vec::new();
        for (number, step) in steps {
            let there = expected.contains(&number);
            prop_assert_eq!(keyed.find(key(number)).is_some(), there);
            expected.retain(|other| *other != number);
            match (keyed.find(key(number)), step) {
                (Some(index), 0) => keyed.remove(index),
                (Some(index), _) => keyed.touch(index),
                (None, _) => {
                    if keyed.is_full() {
                        let foretold = keyed.bytes() + keyed.growth();
                        prop_assert_eq!(keyed.insert(key(number)), None);
                        keyed.grow();
                        prop_assert!(keyed.bytes() <= foretold);
                    }
                    prop_assert!(keyed.insert(key(number)).is_some());
                }
            }
            if !there || step > 0 {
                expected.push(number);
            }
            let expected: Vec<_> = expected.iter().copied().map(key).collect();
            prop_assert_eq!(in_order(&keyed), expected);
        }
    }
}

#[test]
fn removed_places_are_used_again() {
    let mut keyed = RecentByKey::new();
    for number in 0..100_000 {
        if keyed.is_full() {
            keyed.grow();
        }
        let index = keyed.insert(key(number)).unwrap();
        if number % 10 > 0 {
            keyed.remove(index);
        }
        if number >= 1_000 && number % 10 == 0 {
            keyed.remove(keyed.earliest());
        }
    }
    assert!(keyed.capacity() < 150, "{}", keyed.capacity());
}
