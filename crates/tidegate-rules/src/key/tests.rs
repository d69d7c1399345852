//! Keys of every type: equal values are one key, and others are not.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

use super::*;
use proptest::prelude::*;
use siphasher::sip::SipHasher13;

/// Checks that keys are equal if and only if their values are, by their encodings and by their fingerprints.
fn same(a: &impl Key, b: &impl Key, expected: bool) -> Result<(), TestCaseError> {
    let seed = Seed::random();
    prop_assert_eq!(a.encode(|a| b.encode(|b| a == b)), expected);
    prop_assert_eq!(seed.of(a) == seed.of(b), expected);
    Ok(())
}

#[test]
fn keys_of_different_kinds_and_shapes_are_different_keys() {
    let seed = Seed::random();
    let (v4, v6) = (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST.to_ipv6_mapped());
    let all = [
        seed.of("1"),
        seed.of(&1),
        seed.of(&-1),
        seed.of(&u64::MAX),
        seed.of(&u128::MAX),
        seed.of(&i64::MIN),
        seed.of(&i128::MIN),
        seed.of(&[1_u8, 0, 0, 0, 0, 0, 0, 0]),
        seed.of(&v4),
        seed.of(&v4.octets()),
        seed.of(&v4.to_bits()),
        seed.of(&v6),
        seed.of(&v6.octets()),
        seed.of(&v6.to_bits()),
        seed.of(""),
        seed.of("abc"),
        seed.of(&("ab", "c")),
        seed.of(&("a", "bc")),
        seed.of(&("abc", "")),
        seed.of(&("", "abc")),
        seed.of(&("a", "b", "c")),
        seed.of(&(("a", "b"), "c")),
        seed.of(&("a", ("b", "c"))),
        seed.of(&("1", "2")),
        seed.of(&("1", 2)),
        seed.of(&(1, "2")),
        seed.of(&(1, 2)),
        seed.of(&(1, -2)),
        seed.of(&(1, 2, 3, 4)),
        seed.of(&(1, 2, 3, 4, 5)),
        seed.of(&(1, 2, 3, 4, 5, 6)),
        // The bytes of a tuple are not the tuple.
        ("ab", "c").encode(|tuple| seed.of(tuple.bytes())),
    ];
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}

#[test]
fn one_value_is_one_key_however_it_is_kept() {
    let seed = Seed::random();
    let text = "ada".to_owned();
    let texts = [
        seed.of("ada"),
        seed.of(&text),
        seed.of(b"ada"),
        seed.of(&b"ada"[..]),
        seed.of(&b"ada".to_vec()),
        seed.of(&Cow::Borrowed("ada")),
        seed.of(&Arc::<str>::from("ada")),
        seed.of(&Rc::<[u8]>::from(*b"ada")),
        seed.of(&Box::<str>::from("ada")),
        seed.of(&&mut text.clone()),
    ];
    assert_eq!(HashSet::from(texts).len(), 1);
    let sevens = [
        [seed.of(&7_u8), seed.of(&7_u16), seed.of(&7_u32), seed.of(&7_u64), seed.of(&7_u128)],
        [seed.of(&7_i8), seed.of(&7_i16), seed.of(&7_i32), seed.of(&7_i64), seed.of(&7_i128)],
        [7_usize; 5].map(|seven| seed.of(&seven)),
        [7_isize; 5].map(|seven| seed.of(&seven)),
    ];
    assert_eq!(HashSet::from(sevens.as_flattened().as_array::<20>().copied().unwrap()).len(), 1);
    assert_eq!(seed.of(&-7_i8), seed.of(&-7_i128));
    assert_eq!(seed.of(&Ipv4Addr::LOCALHOST), seed.of(&IpAddr::from(Ipv4Addr::LOCALHOST)));
    assert_eq!(seed.of(&Ipv6Addr::LOCALHOST), seed.of(&IpAddr::from(Ipv6Addr::LOCALHOST)));
}

#[test]
fn a_lookup_of_plans_receives_the_bytes_of_the_documentation() {
    let bytes = |encoding: Encoding<'_>| encoding.bytes().to_vec();
    assert_eq!("ada".encode(bytes), b"ada");
    assert_eq!(258_u16.encode(bytes), [2, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!((-2).encode(bytes), (-2_i64).to_le_bytes());
    assert_eq!((1_u128 << 64).encode(bytes), (1_u128 << 64).to_le_bytes());
    assert_eq!((i128::from(i64::MIN) - 1).encode(bytes), (i128::from(i64::MIN) - 1).to_le_bytes());
    assert_eq!(Ipv4Addr::new(192, 0, 2, 1).encode(bytes), [192, 0, 2, 1]);
    assert_eq!(Ipv6Addr::LOCALHOST.encode(bytes), Ipv6Addr::LOCALHOST.octets());
    let pair = [
        &[0, 1, 0, 0, 0, 0, 0, 0, 0, b'a'][..],
        &[1, 8, 0, 0, 0, 0, 0, 0, 0],
        &7_u64.to_le_bytes(),
    ];
    assert_eq!(("a", 7).encode(bytes), pair.concat());
}

#[test]
fn unseeded_hashes_are_flooded_so_every_seed_and_every_kind_has_its_own() {
    let (one, other) = (Seed::random(), Seed::random());
    assert_ne!(one.of("a"), other.of("a"));
    let [a, b] = [KeyKind::Bytes, KeyKind::Number].map(|kind| one.0[kind as usize].hash(b"a"));
    assert_ne!(a, b);
    assert!(!format!("{one:?}").contains(char::is_numeric), "the secret is not shown");
}

/// Keys of a gate: parts of any number.
#[test]
fn key_parts_joined_without_escaping_do_not_collide() {
    let seed = Seed::random();
    let of = |parts: &[&str]| seed.of_parts(parts.iter().copied());
    assert_ne!(of(&["a|b", "c"]), of(&["a", "b|c"]));
    assert_ne!(of(&["", "a"]), of(&["a", ""]));
    assert_ne!(of(&["a"]), of(&["a", ""]));
    assert_ne!(of(&["ab"]), of(&["a", "b"]));
    assert_eq!(of(&["a", "b"]), seed.of(&("a", "b")));
}

proptest! {
    #[test]
    fn equal_keys_have_equal_parts(a: Vec<String>, b: Vec<String>) {
        let seed = Seed::random();
        let of = |parts: &[String]| seed.of_parts(parts.iter().map(String::as_str));
        prop_assert_eq!(of(&a) == of(&b), a == b);
    }

    #[test]
    fn numbers_are_one_key_if_their_values_are_equal(a: i128, b: i128, by in 0_u32..128) {
        // Small numbers are most likely to be one.
        let (a, b) = (a >> by, b >> by);
        same(&a, &b, a == b)?;
        same(&a, &(b as u128), b >= 0 && a == b)?;
        same(&a, &(b as u64), a == i128::from(b as u64))?;
        same(&a, &(b as i64), a == i128::from(b as i64))?;
        same(&a, &(b as i8), a == i128::from(b as i8))?;
    }

    #[test]
    fn texts_and_addresses_are_one_key_if_they_are_equal(
        a: Vec<u8>, b: Vec<u8>, c: IpAddr, d: IpAddr, octets: [u8; 16],
    ) {
        same(&a, &b, a == b)?;
        same(&c, &d, c == d)?;
        same(&octets, &Ipv6Addr::from(octets), false)?;
        same(&octets, &octets.to_vec(), true)?;
    }

    #[test]
    fn tuples_are_one_key_if_they_are_equal(
        a in "[ab]{0,2}", b in "[ab]{0,2}", c in "[ab]{0,2}", d in "[ab]{0,2}", n in -1..2, m in -1..2,
    ) {
        same(&(&a, &b), &(&c, &d), (&a, &b) == (&c, &d))?;
        same(&(&a, n, &b), &(&c, m, &d), (&a, n, &b) == (&c, m, &d))?;
        same(&((&a, &b), n), &((&c, &d), m), (&a, &b, n) == (&c, &d, m))?;
        same(&((&a, &b), n), &(&a, (&b, n)), false)?;
        same(&((&a, &b), n), &(&a, &b, n), false)?;
        same(&(&a, &b), &format!("{a}{b}"), false)?;
    }

    #[test]
    fn stored_words_give_the_fingerprint_back(key: Vec<u8>) {
        let fingerprint = Seed::random().of(&key);
        prop_assert_eq!(Fingerprint::from_words(fingerprint.words()), Some(fingerprint));
    }
}

#[test]
fn every_length_is_hashed_as_by_the_reference() {
    let bytes: Vec<u8> = (1..=255).chain(0..=255).collect();
    let (ours, theirs) = (Sip::with_keys(3, 5), SipHasher13::new_with_keys(3, 5));
    for length in 0..bytes.len() {
        let bytes = &bytes[..length];
        assert_eq!(ours.hash(bytes) as u64, theirs.hash(bytes), "{length}");
    }
}

/// The largest distance of a count of heads from half of so many throws, with odds of 10^-9 against more.
fn most_off(throws: u64) -> f64 {
    3.1 * (throws as f64).sqrt()
}

#[test]
fn every_bit_of_a_number_turns_each_bit_of_the_hash_half_of_the_time() {
    const NUMBERS: u64 = 4_000;
    let sip = Sip::with_keys(7, 11);
    let hash = |number: u64| sip.hash(&number.to_le_bytes());
    for turned in 0..64 {
        let mut changes = [0_u64; 128];
        for number in 0..NUMBERS {
            let difference = hash(number) ^ hash(number ^ 1 << turned);
            changes
                .iter_mut()
                .zip(0..)
                .for_each(|(count, bit)| *count += (difference >> bit) as u64 & 1);
        }
        for (bit, count) in changes.into_iter().enumerate() {
            let off = (count as f64 - NUMBERS as f64 / 2.0).abs();
            assert!(
                off <= most_off(NUMBERS),
                "bit {turned} turns bit {bit} {count} times of {NUMBERS}"
            );
        }
    }
}

#[test]
fn the_upper_bits_say_nothing_of_the_lower_ones() {
    const NUMBERS: u64 = 20_000;
    let sip = Sip::with_keys(13, 17);
    let mut equal = vec![[0_u64; 64]; 64];
    for number in 0..NUMBERS {
        let hash = sip.hash(&number.to_le_bytes());
        let (low, high) = (hash as u64, (hash >> 64) as u64);
        for (turn, counts) in equal.iter_mut().enumerate() {
            let same = !(low.rotate_left(turn as u32) ^ high);
            counts.iter_mut().zip(0..).for_each(|(count, bit)| *count += same >> bit & 1);
        }
    }
    for count in equal.into_iter().flatten() {
        let off = (count as f64 - NUMBERS as f64 / 2.0).abs();
        assert!(off <= most_off(NUMBERS), "two bits are equal {count} times of {NUMBERS}");
    }
}

proptest! {
    #[test]
    fn bytes_are_hashed_as_by_the_reference(a: u64, b: u64, bytes: Vec<u8>) {
        let theirs = SipHasher13::new_with_keys(a, b).hash(&bytes);
        prop_assert_eq!(Sip::with_keys(a, b).hash(&bytes) as u64, theirs);
    }
}
