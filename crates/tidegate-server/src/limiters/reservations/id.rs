//! The id of a reservation: 128 random bits, which nobody can guess.

use std::fmt;
use std::sync::LazyLock;

use rustls::crypto::{SecureRandom, ring};

/// The system's random numbers.
static RANDOM: LazyLock<&dyn SecureRandom> =
    LazyLock::new(|| ring::default_provider().secure_random);

/// Written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id(u128);

impl Id {
    /// A new id; `None` if the system has no random numbers.
    pub(super) fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        RANDOM.fill(&mut bytes).ok()?;
        Some(Self(u128::from_le_bytes(bytes)))
    }

    /// Reads an id as it is written; `None` for any other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| u128::from_str_radix(text, 16).ok().map(Self))?
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_and_nothing_else_is_one() {
        let id = Id::random().unwrap();
        let text = id.to_string();
        assert_eq!((Id::parse(&text), text.len()), (Some(id), 32));
        assert_ne!(Id::random(), Some(id));
        assert_eq!(Id(7).to_string(), format!("{:0>32}", 7));
        for wrong in ["", "7", &text[1..], &format!("{text}0"), &format!("+{}", &text[1..]), "ü"] {
            assert_eq!(Id::parse(wrong), None, "{wrong}");
        }
    }
}
