//! Invariants of the parser of messages, used by the fuzzer and, over its seeds, by the tests.

use std::sync::LazyLock;
use std::time::Duration;

use prost::Message as _;
use tidegate::{AlgorithmKind, Descriptor, Policy, Request, RuleSpec, Spec, key_bytes, key_text};

use super::messages::{EntryMessage, RateLimitDescriptor, RateLimitRequest};
use super::own_limits::OwnLimits;
use super::question::{self, GrpcQuestion};
use crate::admits::no_more_than_the_limit;

/// Rules that use the limits of descriptors, in the domain of the seed that has one.
static LOOKS: LazyLock<Policy> = LazyLock::new(|| {
    let rule = |name: &str, algorithm| {
        let spec = Spec::new(algorithm, 5, Duration::from_secs(1));
        RuleSpec::new(name, spec).in_domain("d").limit_from_request()
    };
    let rules =
        vec![rule("bucket", AlgorithmKind::TokenBucket), rule("log", AlgorithmKind::SlidingLog)];
    Policy::new(rules).unwrap_or_default()
});

/// Panics if a message is misunderstood.
pub(crate) fn judge(sent: &[u8]) {
    let (Ok(message), Ok(sent)) = (RateLimitRequest::read(sent), RateLimitRequest::decode(sent))
    else {
        return;
    };
    assert!(is_text_of(message.domain(), &sent.domain), "{message:?}");
    match question::entries(&message) {
        Ok(entries) => {
            let question = GrpcQuestion::of(&message, &entries);
            judge_question(&sent, &question);
            no_more_than_the_limit(&Request::new(message.domain(), &question.descriptors));
            judge_own_limits(&message, &question);
        }
        Err(status) => {
            let asks = !sent.domain.is_empty() && !sent.descriptors.is_empty();
            assert!(!asks || status.detail.contains("expected at most"), "{status:?}");
            assert!(status.code() == tonic::Code::InvalidArgument, "{status:?}");
        }
    }
}

/// Each descriptor is charged or refunded, in the order of the message.
fn judge_question(message: &RateLimitRequest, question: &GrpcQuestion<'_>) {
    let all = &message.descriptors;
    let (charges, refunds) = (question.charges(), question.refunds());
    let gives_back = all.iter().any(|descriptor| descriptor.is_negative_hits);
    assert_eq!(question.has_refunds(), gives_back);
    let in_order = question.in_order(charges.to_vec(), refunds, || Descriptor::new(&[]));
    assert_eq!((in_order.len(), &in_order[..]), (all.len(), &question.descriptors[..]));
    for (sent, descriptor) in all.iter().zip(&in_order) {
        let hits = sent.hits_addend.unwrap_or(message.hits_addend.max(1).into());
        judge_descriptor(sent, hits, descriptor);
    }
    let asking = all.iter().filter(|descriptor| !descriptor.is_negative_hits);
    assert_eq!(charges.len(), asking.count());
}

/// The entries are as sent, in order, with this cost.
fn judge_descriptor(sent: &RateLimitDescriptor, cost: u64, asked: &Descriptor<'_>) {
    assert!(asked.units() == cost && are_of(asked.entries(), &sent.entries), "{asked:?}");
}

/// The entries are the texts of those that were sent, in order.
fn are_of(entries: &[(&str, &str)], sent: &[EntryMessage]) -> bool {
    let one = |((name, value), sent): (&(&str, &str), &EntryMessage)| {
        is_text_of(name, &sent.key) && is_text_of(value, &sent.value)
    };
    entries.len() == sent.len() && entries.iter().zip(sent).all(one)
}

/// The text stands for these bytes, and no other does.
fn is_text_of(text: &str, bytes: &[u8]) -> bool {
    *key_bytes(text) == *bytes && key_text(bytes) == text
}

/// Limits that rules use are applied, or refused as impossible.
fn judge_own_limits(message: &RateLimitRequest, question: &GrpcQuestion<'_>) {
    let refused = OwnLimits::of(message, &question.descriptors, &LOOKS).err();
    let expected = tonic::Code::InvalidArgument;
    assert!(refused.as_ref().is_none_or(|status| status.code() == expected), "{refused:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;

    #[test]
    fn the_rules_look_at_the_limit_of_a_seed() {
        let looked_at = |sent: &Vec<u8>| {
            let message = RateLimitRequest::decode(&sent[..]).unwrap();
            let brings = message.descriptors.iter().any(|descriptor| descriptor.limit.is_some());
            brings && LOOKS.looks_at_own_limit(&key_text(&message.domain), &Descriptor::new(&[]))
        };
        assert!(seeds::of("rls").iter().any(looked_at));
    }

    #[test]
    fn every_seed_and_what_lies_close_to_it_is_judged() {
        let seeds = seeds::of("rls");
        let others = [0, 1, 8, 0x0a, 0x12, 0x18, 0x20, 0x7f, 0x80, 0xff];
        let judged = seeds::judge_near(&seeds, &others, judge);
        let understood = seeds.iter().filter(|seed| RateLimitRequest::decode(&seed[..]).is_ok());
        let understood = understood.count();
        assert!(judged > 2000 && understood == 8, "{judged}, {understood} seeds");
    }

    #[test]
    fn what_lies_further_from_the_seeds_is_judged() {
        seeds::judge_far("rls", judge);
    }
}
