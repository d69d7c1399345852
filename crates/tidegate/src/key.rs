//! Keyed fingerprints, which identify limiters in memory in place of their keys.

use std::hash::{BuildHasher, Hasher, RandomState};

use siphasher::sip128::{Hasher128, SipHasher13};

/// 96 bits of a keyed 128-bit hash. Of a million keys, two share one with odds of 2^-57.
///
/// Never zero, because zero marks an empty slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fingerprint(u128);

impl Fingerprint {
    /// The bits that are kept: three fingerprints and three states fill a cache line.
    const MASK: u128 = (1 << 96) - 1;
    /// The fingerprint for limiters without a key.
    pub(crate) const FIRST: Self = Self(1);

    const fn new(hash: u128) -> Self {
        Self(if hash & Self::MASK == 0 { 1 } else { hash & Self::MASK })
    }

    /// The three words in which it is stored.
    pub(crate) const fn words(self) -> [u32; 3] {
        [self.0 as u32, (self.0 >> 32) as u32, (self.0 >> 64) as u32]
    }

    /// The fingerprint of three stored words; `None` for an empty slot.
    pub(crate) const fn from_words([a, b, c]: [u32; 3]) -> Option<Self> {
        let all = a as u128 | (b as u128) << 32 | (c as u128) << 64;
        if all == 0 { None } else { Some(Self(all)) }
    }
}

/// The secret of fingerprints, different for each store, so that nobody outside can choose keys
/// that collide.
#[derive(Clone, Debug)]
pub(crate) struct Seed(SipHasher13);

impl Seed {
    pub(crate) fn random() -> Self {
        let (a, b) = (RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        Self(SipHasher13::new_with_keys(a, b))
    }

    /// The fingerprint of a key in one part.
    #[inline]
    pub(crate) fn of_bytes(&self, key: &[u8]) -> Fingerprint {
        self.of_written(|hasher| hasher.write(key))
    }

    /// The fingerprint of the bytes that `write` passes to a hasher.
    pub(crate) fn of_written(&self, write: impl FnOnce(&mut SipHasher13)) -> Fingerprint {
        let mut hasher = self.0;
        write(&mut hasher);
        Fingerprint::new(hasher.finish128().as_u128())
    }

    /// The fingerprint of a key in parts, each preceded by its length, so that `["a|b", "c"]` and
    /// `["a", "b|c"]` differ, whatever bytes they contain.
    pub(crate) fn of_parts<'a>(&self, parts: impl Iterator<Item = &'a str>) -> Fingerprint {
        self.of_written(|hasher| {
            for part in parts {
                hasher.write_u64(part.len() as u64);
                hasher.write(part.as_bytes());
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn key_parts_joined_without_escaping_do_not_collide() {
        let seed = Seed::random();
        let of = |parts: &[&str]| seed.of_parts(parts.iter().copied());
        assert_ne!(of(&["a|b", "c"]), of(&["a", "b|c"]));
        assert_ne!(of(&["", "a"]), of(&["a", ""]));
        assert_ne!(of(&["a"]), of(&["a", ""]));
        assert_ne!(of(&["ab"]), of(&["a", "b"]));
    }

    #[test]
    fn unseeded_hashes_are_flooded_so_every_seed_has_its_own() {
        assert_ne!(Seed::random().of_bytes(b"a"), Seed::random().of_bytes(b"a"));
    }

    proptest! {
        #[test]
        fn equal_keys_have_equal_parts(a: Vec<String>, b: Vec<String>) {
            let seed = Seed::random();
            let of = |parts: &[String]| seed.of_parts(parts.iter().map(String::as_str));
            prop_assert_eq!(of(&a) == of(&b), a == b);
        }

        #[test]
        fn stored_words_give_the_fingerprint_back(key: Vec<u8>) {
            let fingerprint = Seed::random().of_bytes(&key);
            prop_assert_eq!(Fingerprint::from_words(fingerprint.words()), Some(fingerprint));
        }
    }
}
