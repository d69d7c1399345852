//! The id of a reservation: 128 bits, which no caller can guess. An id of a reservation that holds nothing says so
//! itself, so that no process has to remember it.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use rustls::crypto::{SecureRandom, ring};

/// The system's random numbers.
static RANDOM: LazyLock<&dyn SecureRandom> =
    LazyLock::new(|| ring::default_provider().secure_random);

/// Written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ReservationId([u64; 2]);

/// Why a reservation holds nothing, which its id alone says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Nothing {
    /// Its cost was 0: it is settled for nothing, at any actual cost.
    Free,
    /// No limiter took its cost, so there is none to settle with.
    Unlimited,
}

impl Nothing {
    /// A new id of a reservation that holds nothing; `None` if the system has no random numbers. Every process knows it,
    /// so that any server of a store settles it. An id that a caller makes up settles nothing either.
    pub(super) fn id(self) -> Option<ReservationId> {
        // The first half is random, and the second is computed from it, which a random id has only by chance.
        let ReservationId([one, _]) = ReservationId::random()?;
        Some(ReservationId([one, self.seal(one)]))
    }

    /// Returns why the reservation of an id holds nothing; `None` if it may hold something.
    pub(super) fn of(id: ReservationId) -> Option<Self> {
        let ReservationId([one, other]) = id;
        [Self::Free, Self::Unlimited].into_iter().find(|why| why.seal(one) == other)
    }

    /// The second half of such an id.
    fn seal(self, one: u64) -> u64 {
        let mut hasher = DefaultHasher::new();
        (one, self).hash(&mut hasher);
        hasher.finish()
    }
}

impl ReservationId {
    /// A new id; `None` if the system has no random numbers.
    pub(super) fn random() -> Option<Self> {
        let mut bytes = [0; 16];
        RANDOM.fill(&mut bytes).ok()?;
        Some(Self::of(u128::from_le_bytes(bytes)))
    }

    /// The id with these bytes.
    pub(crate) const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self::of(u128::from_be_bytes(bytes))
    }

    /// Its bytes, for [`ReservationId::from_bytes`].
    pub(crate) const fn bytes(self) -> [u8; 16] {
        let Self([one, other]) = self;
        ((one as u128) << 64 | other as u128).to_be_bytes()
    }

    /// A part of it, as a number that no other id has.
    pub(super) const fn number(self) -> u64 {
        self.0[0]
    }

    const fn of(bits: u128) -> Self {
        Self([(bits >> 64) as u64, bits as u64])
    }

    /// Reads an id as it is written; `None` for any other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| u128::from_str_radix(text, 16).ok().map(Self::of))?
    }
}

impl fmt::Display for ReservationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([one, other]) = self;
        write!(f, "{one:016x}{other:016x}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_and_nothing_else_is_one() {
        let id = ReservationId::random().unwrap();
        let text = id.to_string();
        assert_eq!((ReservationId::parse(&text), text.len()), (Some(id), 32));
        assert_ne!(ReservationId::random(), Some(id));
        assert_eq!(ReservationId::of(7).to_string(), format!("{:0>32}", 7));
        for wrong in ["", "7", &text[1..], &format!("{text}0"), &format!("+{}", &text[1..]), "ü"] {
            assert_eq!(ReservationId::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_id_of_nothing_is_known_to_every_process() {
        for why in [Nothing::Free, Nothing::Unlimited] {
            let id = why.id().unwrap();
            assert_eq!(Nothing::of(id), Some(why));
            assert_ne!(why.id(), Some(id));
            assert_eq!(ReservationId::from_bytes(id.bytes()), id);
        }
        assert_eq!(Nothing::of(ReservationId::random().unwrap()), None);
    }
}
