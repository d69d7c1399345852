//! Limiters as records, and the values that they were counted under.
//!
//! A table of a gate in memory writes each of its limiters here, and reads it back. `snapshot.rs` has the format.

use std::io;

use tidegate_core::{Algorithm, Rule, Timestamp, Visitor};

use super::blocks::{Blocks, Kind};
use super::bytes::{Cursor, put_list, put_number};
use crate::key::Fingerprint;

/// A block is written when its limiters take this many bytes.
const FULL: usize = 64 << 10;

/// The kind and the parameters of a rule's script, and its `max_debt`.
pub(crate) type ScriptParameters = (u8, [u64; 4], Option<u64>);

/// Collects the limiters of one table, and writes them in blocks.
pub(crate) struct Records<'a, 'w> {
    blocks: &'a mut Blocks<'w>,
    table: u64,
    /// True if each limiter has values of its own.
    has_own: bool,
    payload: Vec<u8>,
    numbers: Vec<u64>,
    limiters: u64,
}

impl<'a, 'w> Records<'a, 'w> {
    pub(crate) fn of_table(blocks: &'a mut Blocks<'w>, table: usize, has_own: bool) -> Self {
        Self {
            blocks,
            table: table as u64,
            has_own,
            payload: Vec::new(),
            numbers: Vec::new(),
            limiters: 0,
        }
    }

    /// Adds a limiter, the overflow limiter without a fingerprint; `last` is the time of its last unit. It only takes
    /// memory, so it may be called under a limiter's lock.
    pub(crate) fn add<R: Algorithm>(
        &mut self,
        fingerprint: Option<Fingerprint>,
        algorithm: &R,
        state: &R::State,
        last: Timestamp,
    ) {
        if self.payload.is_empty() {
            // Each block names its table again, because a table may fill several blocks.
            put_number(&mut self.payload, self.table);
        }
        put_fingerprint(&mut self.payload, fingerprint);
        if self.has_own {
            put_parameters(&mut self.payload, algorithm);
        }
        self.numbers.clear();
        algorithm.persist(state, last, &mut self.numbers);
        put_list(&mut self.payload, self.numbers.iter(), |to, number| put_number(to, *number));
        self.limiters += 1;
    }

    /// Returns whether [`Records::write`] would write.
    pub(crate) const fn are_full(&self) -> bool {
        self.payload.len() >= FULL
    }

    /// Writes the added records if they fill a block. No limiter may be locked during the call.
    pub(crate) fn write(&mut self) -> io::Result<()> {
        if self.are_full() { self.write_all() } else { Ok(()) }
    }

    /// Writes the rest; returns the number of all limiters.
    pub(crate) fn end(mut self) -> io::Result<u64> {
        self.write_all()?;
        Ok(self.limiters)
    }

    fn write_all(&mut self) -> io::Result<()> {
        if !self.payload.is_empty() {
            self.blocks.put(Kind::Limiters, &self.payload)?;
            self.payload.clear();
        }
        Ok(())
    }
}

/// Reads a limiter into `numbers`; returns its fingerprint and, if limiters have their own, its values.
pub(crate) fn read_limiter(
    from: &mut Cursor<'_>,
    has_own: bool,
    numbers: &mut Vec<u64>,
) -> Option<(Option<Fingerprint>, Option<ScriptParameters>)> {
    let fingerprint = read_fingerprint(from)?;
    let own = if has_own { Some(read_values(from)??) } else { None };
    numbers.clear();
    let length = from.number()?;
    // The length may be wrong: the list grows with the bytes that are there.
    for _ in 0..length {
        numbers.push(from.number()?);
    }
    Some((fingerprint, own))
}

/// Appends the values of a rule.
pub(crate) fn put_values(to: &mut Vec<u8>, rule: &Rule) {
    struct Putting<'a>(&'a mut Vec<u8>);
    impl Visitor for Putting<'_> {
        type Out = ();
        fn visit<R: Algorithm>(self, algorithm: &R) {
            put_parameters(self.0, algorithm);
        }
    }
    if rule.visit(Putting(to)).is_none() {
        to.push(0);
    }
}

fn put_parameters(to: &mut Vec<u8>, algorithm: &impl Algorithm) {
    to.push(algorithm.script().kind);
    algorithm.parameters().into_iter().for_each(|parameter| put_number(to, parameter));
    // One more than the bound, because 0 stands for none.
    put_number(to, algorithm.max_debt().map_or(0, |units| units.saturating_add(1)));
}

/// Reads values; the inner `None` is unlimited.
pub(crate) fn read_values(from: &mut Cursor<'_>) -> Option<Option<ScriptParameters>> {
    let kind = from.byte()?;
    if kind == 0 {
        return Some(None);
    }
    let mut parameters = [0; 4];
    for parameter in &mut parameters {
        *parameter = from.number()?;
    }
    let max_debt = match from.number()? {
        0 => None,
        // Two bounds were written as this number; both are larger than any debt.
        u64::MAX => Some(u64::MAX),
        more => Some(more - 1),
    };
    Some(Some((kind, parameters, max_debt)))
}

/// Appends a fingerprint, all zero if there is none.
pub(crate) fn put_fingerprint(to: &mut Vec<u8>, fingerprint: Option<Fingerprint>) {
    let words = fingerprint.map_or([0; 3], Fingerprint::words);
    words.into_iter().for_each(|word| to.extend_from_slice(&word.to_le_bytes()));
}

/// Reads a fingerprint; the inner `None` is all zero.
pub(crate) fn read_fingerprint(from: &mut Cursor<'_>) -> Option<Option<Fingerprint>> {
    let mut words = [0; 3];
    for word in &mut words {
        *word = u32::from_le_bytes(from.array()?);
    }
    Some(Fingerprint::from_words(words))
}
