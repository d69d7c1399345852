//! The limits that the descriptors of a message supply (`RateLimitDescriptor.limit`), for the rules with
//! `limit_from_request`. `decide.rs` reads them before it asks the gate.

use std::time::Duration;

use tidegate::{Descriptor, Limit, Policy, RequestLimit};

use super::messages::{Multiplier, RateLimitOverride, RateLimitRequest};
use super::unit::seconds_of;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The limit of each descriptor; empty if no descriptor has one.
#[derive(Debug, Default)]
pub(super) struct OwnLimits(Vec<Option<RequestLimit>>);

impl OwnLimits {
    /// The limits in a message, for the rules of `policy`.
    ///
    /// # Errors
    /// Returns a refusal if a rule that uses the limit cannot have it, or the store cannot
    /// hold it. A limit that no rule uses is not checked.
    pub(super) fn of(
        message: &RateLimitRequest,
        descriptors: &[Descriptor<'_>],
        policy: &Policy,
    ) -> Result<Self, RequestRefusal> {
        let all = message.descriptors.iter().zip(descriptors).enumerate();
        let own = all.map(|(number, (sent, descriptor))| {
            let Some(limit) = &sent.limit else { return Ok(None) };
            own_limit(limit, message.domain(), descriptor, policy).map_err(|error| {
                RefusalKind::InvalidLimit.because(format!("descriptor {number}: {error}"))
            })
        });
        Ok(Self(own.collect::<Result<_, _>>()?))
    }

    /// The descriptors, each with its limit.
    pub(super) fn added_to<'a>(&'a self, descriptors: &mut [Descriptor<'a>]) {
        for (descriptor, own) in descriptors.iter_mut().zip(&self.0) {
            if let Some(own) = own {
                *descriptor = descriptor.limit(own);
            }
        }
    }
}

/// The limit of one descriptor; `None` if no rule uses it.
fn own_limit(
    limit: &RateLimitOverride,
    domain: &str,
    descriptor: &Descriptor<'_>,
    policy: &Policy,
) -> Result<Option<RequestLimit>, String> {
    // Before the unit is read: a limit that no rule uses must not refuse the call.
    if !policy.looks_at_own_limit(domain, descriptor) {
        return Ok(None);
    }
    let seconds = seconds_of(limit.unit).ok_or_else(|| {
        format!(
            "`limit` has unit {}: expected SECOND, MINUTE, HOUR, DAY, WEEK, MONTH or YEAR",
            limit.unit
        )
    })?;
    let multiplier = u64::from(limit.unit_multiplier.map_or(1, |Multiplier(units)| units.max(1)));
    let window = Duration::from_micros((seconds * 1_000_000).saturating_mul(multiplier));
    let units = Limit::Units(limit.requests_per_unit.into());
    let own = policy.own_limit(domain, descriptor, units, window);
    let own = own.map_err(|errors| format!("its `limit` cannot be: {errors}"))?;
    // The rules of a policy were checked when it was loaded; values of a request come only now.
    let held = policy.store().is_none_or(|store| own.rules().all(|rule| store.can_hold(rule)));
    if held { Ok(Some(own)) } else { Err("no store can hold its `limit`".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::messages::RateLimitDescriptor;
    use tidegate::{AlgorithmKind, RuleSpec, Spec};

    /// The result for a limit under two rules that use it, and one that does not.
    fn own(requests_per_unit: u32, unit: i32) -> Result<Vec<Spec>, RequestRefusal> {
        let spec = |algorithm| Spec::new(algorithm, 5, Duration::from_secs(1));
        let mut bucket = spec(AlgorithmKind::TokenBucket);
        bucket.capacity = Some(7);
        let policy = Policy::new(vec![
            RuleSpec::new("bucket", bucket).limit_from_request(),
            RuleSpec::new("log", spec(AlgorithmKind::SlidingLog)).limit_from_request(),
            RuleSpec::new("fixed", spec(AlgorithmKind::FixedWindow)),
        ]);
        let limit = Some(RateLimitOverride { requests_per_unit, unit, unit_multiplier: None });
        let descriptors = vec![RateLimitDescriptor { limit, ..Default::default() }];
        let domain = "default".into();
        let message = RateLimitRequest { domain, descriptors, hits_addend: 0 };
        let mut asked = [Descriptor::new(&[])];
        let own = OwnLimits::of(&message, &asked, &policy.unwrap())?;
        own.added_to(&mut asked);
        Ok(asked[0].own_limit().unwrap().rules().map(|rule| *rule.spec()).collect())
    }

    #[test]
    fn a_limit_is_that_of_each_rule_with_another_limit_and_window() {
        for (unit, secs) in
            [(1, 1), (2, 60), (3, 3_600), (4, 86_400), (7, 604_800), (6, 31_536_000)]
        {
            let specs = own(30, unit).unwrap();
            let expected = |spec: &Spec| (spec.limit, spec.window);
            let said = (Limit::Units(30), Some(Duration::from_secs(secs)));
            assert!(
                specs.len() == 2 && specs.iter().all(|spec| expected(spec) == said),
                "{specs:?}"
            );
            assert_eq!(
                (specs[0].algorithm, specs[0].capacity),
                (AlgorithmKind::TokenBucket, Some(7))
            );
        }
    }
}
