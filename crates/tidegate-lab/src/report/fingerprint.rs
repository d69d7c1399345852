//! The identity of a key while it is counted: a keyed fingerprint, for a key of any length.
//!
//! A report counts by it, so that a long key takes no more memory than a short key.

use std::hash::{BuildHasher, Hasher, RandomState};

use siphasher::sip128::{Hasher128, SipHasher13};

/// 96 bits of a keyed hash. Of ten million keys, two share one with odds of 2^-50.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fingerprint([u32; 3]);

impl Fingerprint {
    /// The fingerprint of an entry without a key.
    pub(super) const NONE: Self = Self([0; 3]);

    /// A part of the fingerprint that chooses a chain of a table.
    pub(super) const fn hash(self) -> usize {
        self.0[0] as usize
    }
}

/// The secret of fingerprints, so that no log can contain keys chosen to collide.
#[derive(Clone, Debug)]
pub(super) struct Seed(SipHasher13);

impl Seed {
    pub(super) fn random() -> Self {
        let first = RandomState::new().hash_one(0);
        let second = RandomState::new().hash_one(1);
        Self(SipHasher13::new_with_keys(first, second))
    }

    /// The fingerprint of a key in parts, each preceded by its length, so that `a|b`, `c` and `a`,
    /// `b|c` differ.
    pub(super) fn of<'a>(&self, parts: impl Iterator<Item = &'a str>) -> Fingerprint {
        let mut hasher = self.0;
        for part in parts {
            hasher.write_u64(part.len() as u64);
            hasher.write(part.as_bytes());
        }
        let hash = hasher.finish128();
        Fingerprint([hash.h1 as u32, (hash.h1 >> 32) as u32, hash.h2 as u32])
    }
}

#[cfg(test)]
impl Fingerprint {
    pub(super) const fn from_words(words: [u32; 3]) -> Self {
        Self(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equal_keys_have_equal_parts(a: Vec<String>, b: Vec<String>) {
            let seed = Seed::random();
            let of = |parts: &[String]| seed.of(parts.iter().map(String::as_str));
            prop_assert_eq!(of(&a) == of(&b), a == b);
        }
    }

    #[test]
    fn key_parts_joined_without_escaping_do_not_collide() {
        let seed = Seed::random();
        let of = |parts: &[&str]| seed.of(parts.iter().copied());
        assert_ne!(of(&["a|b", "c"]), of(&["a", "b|c"]));
        assert_ne!(of(&[]), of(&[""]));
    }
}
