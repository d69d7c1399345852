//! Keys, and the keyed fingerprints that identify limiters in memory in their place.
//!
//! A store in memory knows fingerprints alone: all have one size, and no client can choose keys that collide.

mod encode;
mod text;

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use smallvec::SmallVec;

pub use encode::{Encoding, Key, octets};
use encode::{KeyKind, Tuple};
pub use text::{canonical_text, key_bytes, key_text};

/// 96 bits of a keyed 128-bit hash. Of a million keys, two share one with odds of 2^-57.
///
/// Never zero, because zero marks an empty slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u128);

impl Fingerprint {
    /// The bits that are kept: three fingerprints and three states fill a cache line.
    const MASK: u128 = (1 << 96) - 1;
    /// The fingerprint for limiters without a key.
    pub const FIRST: Self = Self(1);

    const fn new(hash: u128) -> Self {
        Self(if hash & Self::MASK == 0 { 1 } else { hash & Self::MASK })
    }

    /// The three words in which it is stored.
    pub const fn words(self) -> [u32; 3] {
        [self.0 as u32, (self.0 >> 32) as u32, (self.0 >> 64) as u32]
    }

    /// The fingerprint of three stored words; `None` for an empty slot.
    pub const fn from_words([a, b, c]: [u32; 3]) -> Option<Self> {
        let all = a as u128 | (b as u128) << 32 | (c as u128) << 64;
        if all == 0 { None } else { Some(Self(all)) }
    }
}

/// The secrets of fingerprints, different for each store and independent for each kind of key, so that no client can
/// choose keys that collide.
///
/// Numbers are hashed as well, although a permutation would need fewer rounds and let no two of them collide: all bits
/// of a fingerprint are then as good as random, which the chains, the shards and the maps rely on.
#[derive(Clone, Debug)]
pub struct Seed([Sip; KeyKind::COUNT]);

impl Seed {
    /// New secrets.
    pub fn random() -> Self {
        let source = RandomState::new();
        let secret =
            |kind: usize| Sip::with_keys(source.hash_one([kind, 0]), source.hash_one([kind, 1]));
        Self(std::array::from_fn(secret))
    }

    /// The secrets, for a process that goes on with these fingerprints.
    #[inline]
    pub fn words(&self) -> Vec<u64> {
        self.0.iter().flat_map(Sip::words).collect()
    }

    /// The seed with these [words](Seed::words); `None` if they are too many or too few.
    #[inline]
    pub fn from_words(words: &[u64]) -> Option<Self> {
        let (secrets, rest) = words.as_chunks();
        let secrets: Vec<_> = secrets.iter().copied().map(Sip::from_words).collect();
        secrets.try_into().ok().filter(|_| rest.is_empty()).map(Self)
    }

    /// The fingerprint of a key.
    #[inline]
    pub fn of(&self, key: &(impl Key + ?Sized)) -> Fingerprint {
        key.encode(|encoding| self.of_encoding(encoding))
    }

    #[inline(always)]
    fn of_encoding(&self, encoding: Encoding<'_>) -> Fingerprint {
        Fingerprint::new(self.0[encoding.kind as usize].hash(encoding.bytes()))
    }

    /// The fingerprint of the bytes that `write` passes to a hasher.
    pub fn of_written(&self, write: impl FnOnce(&mut WrittenBytes)) -> Fingerprint {
        let mut written = WrittenBytes::default();
        write(&mut written);
        self.of(&written.0[..])
    }

    /// The fingerprint of a key in parts: of a tuple of any length.
    #[inline]
    pub fn of_parts<'a>(&self, parts: impl Iterator<Item = &'a str>) -> Fingerprint {
        let mut tuple = Tuple::new();
        parts.for_each(|part| tuple.push(Encoding::of_bytes(part.as_bytes())));
        self.of_encoding(tuple.encoding())
    }
}

/// The hasher of maps whose keys are keyed hashes already.
#[derive(Debug, Default)]
pub struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write_u128(&mut self, fingerprint: u128) {
        // The low word has chosen the shard already, so the map takes the other two.
        self.0 = (fingerprint >> 32) as u64;
    }
}

/// A hasher that only keeps the written bytes.
#[derive(Debug, Default)]
pub struct WrittenBytes(SmallVec<[u8; 128]>);

impl Hasher for WrittenBytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Fingerprints are made of the written bytes, not of this.
    fn finish(&self) -> u64 {
        self.0.len() as u64
    }
}

/// SipHash-1-3 of bytes that are all at hand, and 64 bits more of its last state, under one secret: the state before
/// the first byte.
///
/// The state is not kept between calls, so a key of a length that the compiler knows is hashed without a loop.
///
/// Two inputs with one hash have one SipHash-1-3 of 64 bits, so a client that makes two keys collide has broken that
/// function. The bits above it make chance collisions rarer. They differ from the bits that SipHash with 128 bits of
/// output adds, three rounds later: that protects an output which is shown, and a fingerprint is never shown.
/// SipHash-1-3 is a sum of other parts of the last state, so these bits are as good as random next to it.
#[derive(Clone)]
struct Sip([u64; 4]);

impl Sip {
    const fn with_keys(a: u64, b: u64) -> Self {
        // The bytes of "somepseudorandomlygeneratedbytes", which SipHash begins with.
        let [e, f, g, h] = [
            0x736f_6d65_7073_6575,
            0x646f_7261_6e64_6f6d,
            0x6c79_6765_6e65_7261,
            0x7465_6462_7974_6573,
        ];
        Self([a ^ e, b ^ f, a ^ g, b ^ h])
    }

    /// The secret, as [`Sip::from_words`] takes it.
    const fn words(&self) -> [u64; 4] {
        self.0
    }

    const fn from_words(words: [u64; 4]) -> Self {
        Self(words)
    }

    #[inline(always)]
    fn hash(&self, bytes: &[u8]) -> u128 {
        let mut state = self.0;
        let (words, tail) = bytes.as_chunks();
        for word in words {
            state = absorbed(state, u64::from_le_bytes(*word));
        }
        // The last word has the length in its top byte, so that zeros at the end make a difference.
        let [a, b, c, d] = absorbed(state, (bytes.len() as u64) << 56 | last_word(tail));
        // SipHash marks the end of the input with 0xff; these three rounds are the 3 of SipHash-1-3.
        let [a, b, c, d] = round(round(round([a, b, c ^ 0xff, d])));
        u128::from(a ^ b ^ c ^ d) | u128::from(a ^ c) << 64
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for Sip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sip").finish_non_exhaustive()
    }
}

#[inline(always)]
const fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.rotate_left(32).wrapping_add(d);
    c = c.wrapping_add(b);
    [a, b.rotate_left(17) ^ c, c.rotate_left(32), d.rotate_left(21) ^ a]
}

#[inline(always)]
const fn absorbed([a, b, c, d]: [u64; 4], word: u64) -> [u64; 4] {
    let [a, b, c, d] = round([a, b, c, d ^ word]);
    [a ^ word, b, c, d]
}

/// The bytes after the last full word, at most seven, as a word. Some of them are read twice, in place of a loop.
#[inline(always)]
fn last_word(tail: &[u8]) -> u64 {
    let at = |index: usize| tail.get(index).map_or(0, |byte| u64::from(*byte) << (8 * index));
    match (tail.first_chunk(), tail.last_chunk()) {
        (Some(first), Some(last)) => {
            let shift = 8 * (tail.len() - 4);
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift
        }
        _ if tail.is_empty() => 0,
        // At most three bytes: the first, the middle and the last are all of them.
        _ => at(0) | at(tail.len() / 2) | at(tail.len() - 1),
    }
}

#[cfg(test)]
mod tests;
