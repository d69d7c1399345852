//! A request and the units it took, as bytes that any node with the same rules can settle.

use std::time::Duration;

use tidegate_core::{Micros, Timestamp, Token};

use super::{FromLimiter, Taken};
use crate::request::{Descriptor, Request};
use crate::snapshot::{Cursor, put_list, put_number, put_option, put_text};
use crate::step::{DescriptorSet, Lineage, TakenUnits, Values};

/// The first byte of every record.
const VERSION: u8 = 1;

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
        let mut to = vec![VERSION];
        put_number(&mut to, Micros::from_duration(life).as_micros());
        put_text(&mut to, request.domain());
        put_list(&mut to, request.descriptors().iter(), |to, one| {
            put_list(to, one.entries().iter(), |to, (name, value)| {
                put_text(to, name);
                put_text(to, value);
            });
            put_number(to, one.units());
        });
        put_number(&mut to, taken.limiters.len() as u64);
        for one in &taken.limiters {
            // By name, because each process numbers the rules by itself.
            put_text(&mut to, name(one.known_by.0)?);
            one.put(&mut to);
        }
        Some(to)
    }

    /// The record of these bytes; `None` if they are none. `lineage` finds the rule of a domain and a name.
    pub(crate) fn read(bytes: &[u8], lineage: impl Fn(&str, &str) -> Lineage) -> Option<Self> {
        let mut from = Cursor(bytes.strip_prefix(&[VERSION])?);
        let life = Micros::from_micros(from.number()?).as_duration();
        let domain = from.text()?.to_owned();
        let descriptors = from.list(|from| {
            let entries =
                from.list(|from| Some((from.text()?.to_owned(), from.text()?.to_owned())))?;
            Some((entries, from.number()?))
        })?;
        let limiters = from.list(|from| {
            let rule = lineage(&domain, from.text()?);
            FromLimiter::read(from, rule)
        })?;
        let taken = Taken { limiters, ..Taken::default() };
        // A record of this version has no more bytes.
        from.is_at_end().then_some(Self { life, domain, descriptors, taken })
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

impl FromLimiter {
    /// Writes everything but its rule.
    fn put(&self, to: &mut Vec<u8>) {
        put_number(to, self.known_by.1.bits());
        to.extend([self.is_elsewhere, self.is_enforced, self.reserves].map(u8::from));
        put_option(to, self.taken.token, |to, token| put_number(to, token.as_micros()));
        put_option(to, self.taken.since, |to, since| put_number(to, since.as_micros()));
        put_option(to, self.under, |to, under| {
            under.to_numbers().into_iter().for_each(|number| put_number(to, number));
        });
    }

    fn read(from: &mut Cursor<'_>, rule: Lineage) -> Option<Self> {
        Some(Self {
            known_by: (rule, DescriptorSet::from_bits(from.number()?)),
            is_elsewhere: from.flag()?,
            is_enforced: from.flag()?,
            reserves: from.flag()?,
            taken: TakenUnits::new(
                from.option(|from| Token::from_micros(from.number()?))?,
                from.option(|from| Some(Timestamp::from_micros(from.number()?)))?,
            ),
            under: from.option(|from| {
                let mut numbers = [0; 5];
                for number in &mut numbers {
                    *number = from.number()?;
                }
                Values::from_numbers(numbers)
            })?,
        })
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
