//! The bytes a limiter is known by: key parts joined so that no two lists of parts can collide.

/// The values of a rule's key entries, each behind its length: `["a|b", "c"]` and `["a", "b|c"]` stay
/// apart whatever bytes they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(Box<[u8]>);

impl Key {
    pub(crate) fn of<'a>(parts: impl Iterator<Item = &'a str>) -> Self {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        Self(bytes.into_boxed_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn parts_joined_without_escaping_do_not_collide() {
        assert_ne!(Key::of(["a|b", "c"].into_iter()), Key::of(["a", "b|c"].into_iter()));
        assert_ne!(Key::of(["", "a"].into_iter()), Key::of(["a", ""].into_iter()));
        assert_ne!(Key::of(["a"].into_iter()), Key::of(["a", ""].into_iter()));
    }

    proptest! {
        #[test]
        fn equal_keys_have_equal_parts(a: Vec<String>, b: Vec<String>) {
            let key = |parts: &[String]| Key::of(parts.iter().map(String::as_str));
            prop_assert_eq!(key(&a) == key(&b), a == b);
        }
    }
}
