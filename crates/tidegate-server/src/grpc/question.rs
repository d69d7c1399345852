//! The question in a message, as descriptors for the engine: charges, which are decided, and refunds, which give
//! units back. `decide.rs` asks both and puts their statuses in the order of the message again.

use std::borrow::Cow;

use smallvec::SmallVec;
use tidegate::Descriptor;

use super::messages::{RateLimitDescriptor, RateLimitRequest};
use super::own_limits::OwnLimits;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The largest number of descriptors of a request: the statuses can distinguish this many.
const MOST_DESCRIPTORS: usize = 63;
/// The largest number of entries of a descriptor, as over HTTP and RESP: rules search them.
const MOST_ENTRIES: usize = 64;

/// Descriptors, and entries of all of them, that are kept without an allocation.
const DESCRIPTORS_AT_HAND: usize = 4;
const ENTRIES_AT_HAND: usize = 8;

/// The names and values of all descriptors of a message.
pub(super) type MessageEntries<'e> = SmallVec<[(&'e str, &'e str); ENTRIES_AT_HAND]>;

/// The entries of a message, one descriptor after another.
///
/// # Errors
/// Returns a refusal if there is no domain, no descriptor, or there are too many; or if
/// a descriptor has too many entries.
pub(super) fn entries(message: &RateLimitRequest) -> Result<MessageEntries<'_>, RequestRefusal> {
    // First, because nothing is to be allocated for a message of too many.
    check(message)?;
    Ok(message.entries().collect())
}

/// The descriptors of a message. Some of them may give units back.
pub(super) struct GrpcQuestion<'e> {
    /// All of them in order, each with its units and its limit.
    pub(super) descriptors: SmallVec<[Descriptor<'e>; DESCRIPTORS_AT_HAND]>,
    /// For each of them, true if it gives its units back; empty if none does.
    gives_back: Vec<bool>,
}

impl<'e> GrpcQuestion<'e> {
    /// The question of a message with these [`entries`].
    pub(super) fn of(message: &RateLimitRequest, mut entries: &'e [(&'e str, &'e str)]) -> Self {
        let descriptors = message.descriptors.iter().map(|descriptor| {
            let count = descriptor.entries.len();
            // The counts add up to all entries, so there are always enough to split.
            let (own, others) = entries.split_at_checked(count).unwrap_or((entries, &[]));
            entries = others;
            Descriptor::new(own).cost(hits(message, descriptor))
        });
        let descriptors = descriptors.collect();
        let mut gives_back = Vec::new();
        if message.descriptors.iter().any(|descriptor| descriptor.is_negative_hits) {
            gives_back.extend(message.descriptors.iter().map(|one| one.is_negative_hits));
        }
        Self { descriptors, gives_back }
    }

    /// Adds the limits of the descriptors.
    pub(super) fn under(mut self, own: &'e OwnLimits) -> Self {
        own.added_to(&mut self.descriptors);
        self
    }

    /// Returns whether it gives units back.
    pub(super) const fn has_refunds(&self) -> bool {
        !self.gives_back.is_empty()
    }

    /// The descriptors that ask for units; none of the others may refuse these, not even as a look.
    pub(super) fn charges(&self) -> Cow<'_, [Descriptor<'e>]> {
        if self.has_refunds() {
            Cow::Owned(self.part(false).collect())
        } else {
            Cow::Borrowed(&self.descriptors)
        }
    }

    /// The descriptors that give units back.
    pub(super) fn refunds(&self) -> Vec<Descriptor<'e>> {
        self.part(true).collect()
    }

    fn part(&self, gives_back: bool) -> impl Iterator<Item = Descriptor<'e>> {
        let all = self.descriptors.iter().zip(&self.gives_back);
        all.filter(move |(_, back)| **back == gives_back).map(|(one, _)| *one)
    }

    /// Puts the items of the charges and of the refunds in the order of the message; `none` stands for missing items.
    pub(super) fn in_order<T>(
        &self,
        charges: impl IntoIterator<Item = T>,
        refunds: impl IntoIterator<Item = T>,
        none: impl Fn() -> T,
    ) -> Vec<T> {
        if !self.has_refunds() {
            return charges.into_iter().collect();
        }
        let mut charges = charges.into_iter();
        let mut refunds = refunds.into_iter();
        let all = self.gives_back.iter().map(|back| {
            let next = if *back { refunds.next() } else { charges.next() };
            next.unwrap_or_else(&none)
        });
        all.collect()
    }
}

/// The units of a descriptor: its own, else the units of the request, where 0 means 1.
fn hits(message: &RateLimitRequest, descriptor: &RateLimitDescriptor) -> u64 {
    descriptor.hits_addend.unwrap_or_else(|| message.hits_addend.max(1).into())
}

/// Refuses a message without a domain, or with too few or too many descriptors or entries.
fn check(message: &RateLimitRequest) -> Result<(), RequestRefusal> {
    let wrong = match message.descriptors.len() {
        _ if message.domain.is_empty() => {
            "the domain is empty: expected the domain of the rules".to_owned()
        }
        0 => "there are no descriptors: expected one at least".to_owned(),
        1..=MOST_DESCRIPTORS => {
            let mut numbered = message.descriptors.iter().enumerate();
            return numbered.try_for_each(|(number, one)| check_count(number, one.entries.len()));
        }
        many => format!("there are {many} descriptors: expected at most {MOST_DESCRIPTORS}"),
    };
    Err(RefusalKind::InvalidQuestion.because(wrong))
}

fn check_count(number: usize, entries: usize) -> Result<(), RequestRefusal> {
    if entries <= MOST_ENTRIES {
        return Ok(());
    }
    Err(RefusalKind::InvalidQuestion.because(format!(
        "descriptor {number} has {entries} entries: expected at most {MOST_ENTRIES}"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::messages::EntryMessage;

    fn descriptor(hits_addend: Option<u64>, is_negative_hits: bool) -> RateLimitDescriptor {
        RateLimitDescriptor { hits_addend, is_negative_hits, ..Default::default() }
    }

    fn request(hits_addend: u32, descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
        RateLimitRequest { domain: "d".into(), descriptors, hits_addend }
    }

    fn costs(message: &RateLimitRequest) -> (Vec<u64>, Vec<u64>) {
        let entries = entries(message).unwrap();
        let question = GrpcQuestion::of(message, &entries);
        let units = |all: &[Descriptor<'_>]| all.iter().map(Descriptor::units).collect();
        (units(&question.charges()), units(&question.refunds()))
    }

    #[test]
    fn a_descriptors_own_hits_stand_before_those_of_the_request() {
        let all =
            vec![descriptor(None, false), descriptor(Some(0), false), descriptor(Some(7), false)];
        assert_eq!(costs(&request(0, all.clone())), (vec![1, 0, 7], vec![]));
        assert_eq!(costs(&request(3, all)), (vec![3, 0, 7], vec![]));
        assert_eq!(costs(&request(1, vec![descriptor(Some(u64::MAX), false)])).0, [u64::MAX]);
    }

    #[test]
    fn what_is_given_back_is_not_asked_for() {
        let mixed = request(2, vec![descriptor(None, true), descriptor(Some(5), false)]);
        assert_eq!(costs(&mixed), (vec![5], vec![2]));
        let entries = entries(&mixed).unwrap();
        let question = GrpcQuestion::of(&mixed, &entries);
        let in_order =
            |refunds: Option<&'static str>| question.in_order(["charge"], refunds, || "");
        assert_eq!(in_order(Some("refund"))[..], ["refund", "charge"]);
        assert_eq!(in_order(None)[..], ["", "charge"]);
    }

    #[test]
    fn as_many_entries_as_there_may_be_are_read_in_their_order() {
        let of_entries = |entries: Vec<EntryMessage>| {
            let last = RateLimitDescriptor { entries, ..Default::default() };
            request(0, vec![descriptor(None, false), last])
        };
        let entry = |key: &str, value: &str| EntryMessage {
            key: key.to_owned().into(),
            value: value.to_owned().into(),
        };
        let many =
            |number: u32| (0..number).map(|number| entry(&number.to_string(), "a")).collect();
        assert!(entries(&of_entries(many(64))).is_ok());
        let refused = entries(&of_entries(many(65))).unwrap_err();
        assert_eq!(refused.detail, "descriptor 1 has 65 entries: expected at most 64");
        let twice = of_entries(vec![entry("a", "x"), entry("b", "x"), entry("a", "y")]);
        let all = entries(&twice).unwrap();
        let of_twice = [("a", "x"), ("b", "x"), ("a", "y")];
        assert_eq!(GrpcQuestion::of(&twice, &all).descriptors[1].entries(), of_twice);
    }
}
