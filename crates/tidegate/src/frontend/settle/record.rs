//! A request and the units it took, as bytes that any node with the same rules can settle.

use std::time::Duration;

use tidegate_core::{Micros, Timestamp, Token};

use super::{FromLimiter, Taken};
use crate::request::{Descriptor, Request};
use crate::step::{DescriptorSet, Lineage, Values};

/// The first byte of every record.
const VERSION: u8 = 1;

// The bits that describe a limiter.
const ELSEWHERE: u8 = 1;
const ENFORCED: u8 = 2;
const RESERVES: u8 = 4;
const TOKEN: u8 = 8;
const SINCE: u8 = 16;
const UNDER: u8 = 32;

/// A request and the units it took, as in a record in the store: see [`ReservationRecord`](crate::ReservationRecord).
#[derive(Clone, Debug)]
pub struct RecordedReservation {
    life: Duration,
    domain: String,
    descriptors: Vec<(Vec<(String, String)>, u64)>,
    taken: Taken,
}

impl RecordedReservation {
    /// The bytes of a request and the units it took; `None` if a limiter's rule has no name any more. `name` returns
    /// the name of a rule in force.
    pub(crate) fn write<'n>(
        request: &Request<'_>,
        taken: &Taken,
        life: Duration,
        name: impl Fn(Lineage) -> Option<&'n str>,
    ) -> Option<Vec<u8>> {
        let mut to = ToBytes(vec![VERSION]);
        to.number(Micros::from_duration(life).as_micros());
        to.text(request.domain());
        to.count(request.descriptors().len());
        for one in request.descriptors() {
            to.number(one.units());
            to.count(one.entries().len());
            for (name, value) in one.entries() {
                to.text(name);
                to.text(value);
            }
        }
        to.count(taken.limiters.len());
        for one in &taken.limiters {
            let (lineage, by) = one.known_by;
            // By name, because each process numbers the rules by itself.
            to.text(name(lineage)?);
            to.number(by.bits());
            to.limiter(one);
        }
        Some(to.0)
    }

    /// Reads such bytes; `None` if they are of another version. `lineage` returns the identity of a rule by its domain
    /// and name; a rule that is not in force has none.
    pub(crate) fn read(bytes: &[u8], lineage: impl Fn(&str, &str) -> Lineage) -> Option<Self> {
        let mut from = FromBytes(bytes.strip_prefix(&[VERSION])?);
        let life = Micros::from_micros(from.number()?).as_duration();
        let domain = from.text()?;
        let mut descriptors = Vec::new();
        // A count may be a lie: lists grow with the bytes that are there, and reserve nothing for it.
        for _ in 0..from.number()? {
            let cost = from.number()?;
            let mut entries = Vec::new();
            for _ in 0..from.number()? {
                entries.push((from.text()?, from.text()?));
            }
            descriptors.push((entries, cost));
        }
        let mut taken = Taken::default();
        for _ in 0..from.number()? {
            let rule = from.text()?;
            let known_by = (lineage(&domain, &rule), DescriptorSet::from_bits(from.number()?));
            taken.limiters.push(from.limiter(known_by)?);
        }
        // A record of this version has no more bytes.
        from.0.is_empty().then_some(Self { life, domain, descriptors, taken })
    }

    /// The life of the reservation, which begins again when it is renewed.
    #[must_use]
    pub const fn life(&self) -> Duration {
        self.life
    }

    /// The units that the request took.
    #[must_use]
    pub const fn taken(&self) -> &Taken {
        &self.taken
    }

    /// Passes the request to `to`.
    pub async fn ask<T>(&self, to: impl AsyncFnOnce(&Request<'_>) -> T) -> T {
        let mut borrowed: Vec<(Vec<(&str, &str)>, u64)> = Vec::new();
        for (entries, cost) in &self.descriptors {
            let entries = entries.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            borrowed.push((entries.collect(), *cost));
        }
        let descriptors: Vec<_> =
            borrowed.iter().map(|(entries, cost)| Descriptor::new(entries).cost(*cost)).collect();
        to(&Request::new(&self.domain, &descriptors)).await
    }
}

struct ToBytes(Vec<u8>);

impl ToBytes {
    fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend(text.as_bytes());
    }

    fn limiter(&mut self, one: &FromLimiter) {
        let flags = [
            (ELSEWHERE, one.is_elsewhere),
            (ENFORCED, one.is_enforced),
            (RESERVES, one.reserves),
            (TOKEN, one.token.is_some()),
            (SINCE, one.since.is_some()),
            (UNDER, one.under.is_some()),
        ];
        self.0.push(flags.iter().filter(|(_, is)| *is).map(|(bit, _)| bit).sum());
        if let Some(token) = one.token {
            self.number(token.as_micros());
        }
        if let Some(since) = one.since {
            self.number(since.as_micros());
        }
        for number in one.under.into_iter().flat_map(Values::to_numbers) {
            self.number(number);
        }
    }
}

struct FromBytes<'a>(&'a [u8]);

impl FromBytes<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        String::from_utf8(text.to_vec()).ok()
    }

    fn limiter(&mut self, known_by: (Lineage, DescriptorSet)) -> Option<FromLimiter> {
        let (flags, rest) = self.0.split_first()?;
        self.0 = rest;
        let mut one = FromLimiter {
            known_by,
            is_elsewhere: flags & ELSEWHERE != 0,
            is_enforced: flags & ENFORCED != 0,
            token: None,
            since: None,
            reserves: flags & RESERVES != 0,
            under: None,
        };
        // In the order in which they were written; the bits say which of them are there.
        if flags & TOKEN != 0 {
            one.token = Some(Token::from_micros(self.number()?)?);
        }
        if flags & SINCE != 0 {
            one.since = Some(Timestamp::from_micros(self.number()?));
        }
        if flags & UNDER != 0 {
            let mut numbers = [0; 5];
            for number in &mut numbers {
                *number = self.number()?;
            }
            one.under = Some(Values::from_numbers(numbers)?);
        }
        Some(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AlgorithmKind, Gate, Policy, RuleSpec, Spec};

    #[tokio::test]
    async fn a_record_is_read_as_it_was_written_and_no_part_of_it_is_one() {
        let permits = Spec::new(AlgorithmKind::Concurrency, 9, Duration::from_secs(60));
        let rules = vec![RuleSpec::new("a", "9/h").key(["user"]), RuleSpec::new("b", permits)];
        let gate = Gate::new(Policy::new(rules).unwrap());
        let (ada, none) = ([("user", "ädä"), ("", "")], []);
        let descriptors = [Descriptor::new(&ada).cost(2), Descriptor::new(&none)];
        let request = Request::new("default", &descriptors);
        let taken = Taken::from(&gate.check(request));
        let life = Duration::from_millis(7);
        let names = ["a", "b"];
        let name = |lineage: Lineage| names.get(lineage.number_of_rule() as usize).copied();
        let lineage = |_: &str, name: &str| {
            let rule = names.iter().position(|one| *one == name);
            rule.map_or(Lineage::NONE, |rule| Lineage::of_rule(rule as u32))
        };
        let bytes = RecordedReservation::write(&request, &taken, life, name).unwrap();
        let read = RecordedReservation::read(&bytes, lineage).unwrap();
        let is_same = read.ask(async |same| *same == request).await;
        assert!(is_same && read.life() == life);
        assert_eq!(format!("{:?}", read.taken), format!("{taken:?}"));
        assert_eq!(RecordedReservation::write(&request, &taken, life, |_| None), None);
        for end in 0..bytes.len() {
            assert!(RecordedReservation::read(&bytes[..end], lineage).is_none(), "{end}");
        }
        assert!(RecordedReservation::read(&[&bytes[..], &[0]].concat(), lineage).is_none());
        assert!(RecordedReservation::read(&[&[2], &bytes[1..]].concat(), lineage).is_none());
    }
}
