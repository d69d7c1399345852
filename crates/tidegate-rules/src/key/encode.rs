//! The trait of keys: it reads a value as the bytes that identify it.
//!
//! Limiters without rules (`KeyedLimiter`, the layers per key) take keys of any such type.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;

/// A value that identifies a limiter: text or bytes, a number, an IP address, or a tuple of these.
///
/// The only job of this trait is to read a value as bytes of a [kind](Encoding). Two values are one key if both their
/// kinds and their bytes are equal, and not otherwise:
///
/// | value | kind | bytes, which a lookup of plans (`KeyedLimiter::with_plans`) receives |
/// |---|---|---|
/// | `str`, `String`, `[u8]`, `[u8; N]`, `Vec<u8>` | bytes | the bytes |
/// | an integer from 0 | number | 8 bytes, little-endian; 16 from 2^64 |
/// | an integer below 0 | negative number | 8 bytes, little-endian; 16 below -2^63 |
/// | `Ipv4Addr`, `Ipv6Addr`, `IpAddr` | address | the 4 or 16 octets |
/// | a tuple of two to six keys | tuple | for each element its kind (one byte), the length of its bytes (8 bytes, little-endian) and its bytes |
///
/// So `"1"`, `1` and `[1, 0, 0, 0, 0, 0, 0, 0]` are three keys, and so are `("ab", "c")`, `("a", "bc")` and
/// `(("a", "b"), "c")`. A number is its value, of whatever type: `7_u32`, `7_u64` and `7` are one key, because a caller
/// whose number was passed with two types would otherwise have the limit twice. Keys for different purposes in one
/// limiter are kept apart by a tuple: `("user", 7)` and `("team", 7)`. The 16 bytes of a UUID are bytes
/// (`uuid.as_bytes()`). An IPv4 address that is mapped to IPv6 is another key than the address itself:
/// [`IpAddr::to_canonical`] makes them one.
///
/// ```
/// use std::net::Ipv4Addr;
/// use tidegate::{AlgorithmKind, KeyedLimiter, Spec};
///
/// let spec = Spec::per_hour(1).algorithm(AlgorithmKind::FixedWindow);
/// let limiter = KeyedLimiter::new(spec)?;
/// assert!(limiter.admits("7", 1) && limiter.admits(7, 1) && !limiter.admits(7_u64, 1));
/// assert!(limiter.admits(Ipv4Addr::LOCALHOST, 1));
/// assert!(limiter.admits(("login", Ipv4Addr::LOCALHOST), 1));
/// assert!(limiter.admits(("login", 7, "eu"), 1) && !limiter.admits(("login", 7_u8, "eu".to_owned()), 1));
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
///
/// A type is a key if it passes on the values that identify it:
///
/// ```
/// use std::net::IpAddr;
/// use tidegate::{Encoding, Key, KeyedConcurrency};
///
/// struct Session {
///     tenant: u32,
///     peer: IpAddr,
/// }
///
/// impl Key for Session {
///     fn encode<T>(&self, with: impl FnOnce(Encoding<'_>) -> T) -> T {
///         (self.tenant, self.peer).encode(with)
///     }
/// }
///
/// let session = Session { tenant: 3, peer: [192, 0, 2, 1].into() };
/// let in_flight = KeyedConcurrency::new(1);
/// let permit = in_flight.try_acquire(&session, 1);
/// assert_eq!((permit.is_some(), in_flight.in_flight(session)), (true, 1));
/// ```
pub trait Key {
    /// Passes the key as bytes to `with`, and returns its result.
    fn encode<T>(&self, with: impl FnOnce(Encoding<'_>) -> T) -> T;
}

/// A [`Key`] as bytes of a kind. Encodings are made by the keys of this crate; other types pass them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding<'a> {
    pub(super) kind: KeyKind,
    bytes: &'a [u8],
}

impl<'a> Encoding<'a> {
    /// The bytes of the key, without its kind: see the table of [`Key`].
    #[must_use]
    pub const fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Text or bytes, as they are.
    #[inline]
    pub(super) const fn of_bytes(bytes: &'a [u8]) -> Self {
        Self { kind: KeyKind::Bytes, bytes }
    }
}

/// The octets of an address as a key.
#[inline]
pub const fn octets(bytes: &[u8]) -> Encoding<'_> {
    Encoding { kind: KeyKind::Address, bytes }
}

/// The meaning of bytes. Each kind is hashed with a secret of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyKind {
    // Their order stays as it is: a kind chooses its secret and is a byte of tuples, and a later
    // process may go on with the fingerprints of this process.
    Bytes,
    Number,
    Negative,
    Address,
    Tuple,
}

impl KeyKind {
    /// The number of kinds.
    pub(super) const COUNT: usize = 5;
}

/// The bytes of a tuple, without an allocation if they are few.
#[derive(Debug)]
pub(super) struct Tuple {
    few: [u8; 96],
    /// The number of bytes in use.
    used: usize,
    /// All bytes, if they do not fit above.
    many: Vec<u8>,
}

impl Tuple {
    #[inline]
    pub(super) const fn new() -> Self {
        Self { few: [0; 96], used: 0, many: Vec::new() }
    }

    /// Adds an element. The elements can be read back one after the other, so no two lists of elements have the same
    /// bytes.
    #[inline]
    pub(super) fn push(&mut self, element: Encoding<'_>) {
        self.add(&[element.kind as u8]);
        self.add(&(element.bytes.len() as u64).to_le_bytes());
        self.add(element.bytes);
    }

    #[inline]
    fn add(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        match self.few.get_mut(self.used..end) {
            // Once bytes are in `many`, all later bytes follow them there, even those that would fit here.
            Some(place) if self.many.is_empty() => {
                place.copy_from_slice(bytes);
                self.used = end;
            }
            _ => self.add_to_many(bytes),
        }
    }

    #[cold]
    fn add_to_many(&mut self, bytes: &[u8]) {
        if self.many.is_empty() {
            self.many.extend_from_slice(&self.few[..self.used]);
        }
        self.many.extend_from_slice(bytes);
    }

    #[inline]
    pub(super) fn encoding(&self) -> Encoding<'_> {
        let bytes = if self.many.is_empty() { &self.few[..self.used] } else { &self.many };
        Encoding { kind: KeyKind::Tuple, bytes }
    }
}

macro_rules! bytes {
    ($([$($generics:tt)*] $key:ty),+ $(,)?) => {$(
        impl<$($generics)*> Key for $key {
            #[inline]
            fn encode<T>(&self, with: impl FnOnce(Encoding<'_>) -> T) -> T {
                with(Encoding::of_bytes(self.as_ref()))
            }
        }
    )+};
}

bytes!([] str, [] String, [] [u8], [const N: usize] [u8; N], [] Vec<u8>);

macro_rules! through {
    ($([$($generics:tt)*] $key:ty),+ $(,)?) => {$(
        impl<$($generics)*> Key for $key {
            #[inline]
            fn encode<T>(&self, with: impl FnOnce(Encoding<'_>) -> T) -> T {
                (**self).encode(with)
            }
        }
    )+};
}

through!([K: Key + ?Sized] &K, [K: Key + ?Sized] &mut K, [K: Key + ?Sized] Box<K>, [K: Key + ?Sized] Rc<K>);
through!([K: Key + ?Sized] Arc<K>, [K: Key + ToOwned + ?Sized] Cow<'_, K>);

macro_rules! numbers {
    ($as:ident: $($key:ty),+) => {$(
        impl Key for $key {
            #[inline]
            fn encode<T>(&self, with: impl FnOnce(Encoding<'_>) -> T) -> T {
                $as(*self as _, with)
            }
        }
    )+};
}

numbers!(unsigned: u8, u16, u32, u64, usize);
numbers!(signed: i8, i16, i32, i64, isize);

#[inline]
fn unsigned<T>(value: u64, with: impl FnOnce(Encoding<'_>) -> T) -> T {
    with(Encoding { kind: KeyKind::Number, bytes: &value.to_le_bytes() })
}

#[inline]
fn signed<T>(value: i64, with: impl FnOnce(Encoding<'_>) -> T) -> T {
    // The bytes of -1 are also the bytes of 2^64 - 1: only the kind tells them apart.
    let kind = if value < 0 { KeyKind::Negative } else { KeyKind::Number };
    with(Encoding { kind, bytes: &value.to_le_bytes() })
}

impl Key for u128 {
    fn encode<T>(&self, with: impl FnOnce(Encoding<'_>) -> T) -> T {
        // A small number has eight bytes in this type too, so
        // that all types of numbers name the same limiter.
        match u64::try_from(*self) {
            Ok(value) => value.encode(with),
            Err(_) => with(Encoding { kind: KeyKind::Number, bytes: &self.to_le_bytes() }),
        }
    }
}

impl Key for i128 {
    fn encode<T>(&self, with: impl FnOnce(Encoding<'_>) -> T) -> T {
        match (u128::try_from(*self), i64::try_from(*self)) {
            (Ok(value), _) => value.encode(with),
            (_, Ok(value)) => value.encode(with),
            _ => with(Encoding { kind: KeyKind::Negative, bytes: &self.to_le_bytes() }),
        }
    }
}

macro_rules! addresses {
    ($($key:ty),+) => {$(
        impl Key for $key {
            #[inline]
            fn encode<T>(&self, with: impl FnOnce(Encoding<'_>) -> T) -> T {
                with(octets(&self.octets()))
            }
        }
    )+};
}

addresses!(Ipv4Addr, Ipv6Addr);

impl Key for IpAddr {
    #[inline]
    fn encode<T>(&self, with: impl FnOnce(Encoding<'_>) -> T) -> T {
        match self {
            Self::V4(address) => address.encode(with),
            Self::V6(address) => address.encode(with),
        }
    }
}

macro_rules! tuples {
    ($($($key:ident)+;)+) => {$(
        impl<$($key: Key),+> Key for ($($key),+) {
            fn encode<T>(&self, with: impl FnOnce(Encoding<'_>) -> T) -> T {
                #[expect(non_snake_case, reason = "an element has the name of its type")]
                let ($($key),+) = self;
                let mut tuple = Tuple::new();
                $($key.encode(|element| tuple.push(element));)+
                with(tuple.encoding())
            }
        }
    )+};
}

tuples! {
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
}
