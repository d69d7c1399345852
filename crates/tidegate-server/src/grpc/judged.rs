//! What holds for every message, whatever is in it: for the fuzzer, and for its seeds whenever tests run.

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::ratelimit::v3::RateLimitRequest;
use prost::Message;
use tidegate::Descriptor;

use super::question::{Entries, Question};

/// Panics where a message is taken for what it is not.
pub(crate) fn judge(sent: &[u8]) {
    let Ok(message) = RateLimitRequest::decode(sent) else { return };
    match Entries::of(&message) {
        Ok(entries) => judge_question(&message, &Question::of(&message, &entries)),
        Err(status) => {
            let asks = !message.domain.is_empty() && !message.descriptors.is_empty();
            assert!(!asks || status.message().contains("expected at most"), "{status:?}");
            assert!(status.code() == tonic::Code::InvalidArgument, "{status:?}");
        }
    }
}

/// Each descriptor is asked for or given back, at its own place.
fn judge_question(message: &RateLimitRequest, question: &Question<'_>) {
    let all = &message.descriptors;
    let gives_back = all.iter().any(|descriptor| descriptor.is_negative_hits);
    assert_eq!(question.charges.len(), all.len());
    assert_eq!(question.refunds.len(), if gives_back { all.len() } else { 0 });
    assert_eq!(question.asks(message), all.iter().any(|descriptor| !descriptor.is_negative_hits));
    for (place, sent) in all.iter().enumerate() {
        let hits = sent.hits_addend.as_ref().map_or(message.hits_addend.max(1).into(), |h| h.value);
        let (charge, refund) = if sent.is_negative_hits { (0, hits) } else { (hits, 0) };
        judge_descriptor(sent, charge, &question.charges[place]);
        if gives_back {
            judge_descriptor(sent, refund, &question.refunds[place]);
        }
    }
}

/// The entries that were sent, in their order, at this cost.
fn judge_descriptor(sent: &RateLimitDescriptor, cost: u64, asked: &Descriptor<'_>) {
    let entries = sent.entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str()));
    assert!(asked.units() == cost && entries.eq(asked.entries().iter().copied()), "{asked:?}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SEEDS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/rls");

    #[test]
    fn every_seed_and_what_lies_close_to_it_is_judged() {
        let (mut judged, mut understood) = (0, 0);
        for seed in fs::read_dir(SEEDS).unwrap() {
            let seed = fs::read(seed.unwrap().path()).unwrap();
            judge(&seed);
            understood += usize::from(RateLimitRequest::decode(&seed[..]).is_ok());
            for place in 0..seed.len() {
                judge(&seed[..place]);
                for other in [0, 1, 8, 0x0a, 0x12, 0x18, 0x20, 0x7f, 0x80, 0xff] {
                    let mut near = seed.clone();
                    near[place] = other;
                    judge(&near);
                    judged += 1;
                }
            }
        }
        assert!(judged > 2000 && understood == 6, "{judged}, {understood} seeds");
    }
}
