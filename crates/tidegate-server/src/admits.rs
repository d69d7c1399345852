//! An invariant of every protocol: no input of a caller admits more than the limit.

use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Spec};

const LIMIT: u64 = 3;

/// Panics if requests of a caller are admitted more often than a rule allows whose key is the caller's input.
pub(crate) fn no_more_than_the_limit(request: &Request<'_>) {
    for descriptor in request.descriptors() {
        let names = descriptor.entries().iter().map(|(name, _)| *name);
        let mut names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        let spec = Spec::per_hour(LIMIT).algorithm(AlgorithmKind::SlidingLog);
        let rule = RuleSpec::new("own", spec).in_domain(request.domain()).key(names);
        let policy = Policy::new(vec![rule]);
        let gate = Gate::new(policy.unwrap_or_else(|errors| panic!("{errors}: {descriptor:?}")));
        let one = Descriptor::new(descriptor.entries());
        let ask = || gate.admits((request.domain(), one));
        let admitted = (0..=LIMIT).filter(|_| ask()).count() as u64;
        assert_eq!(admitted, LIMIT, "{descriptor:?}");
    }
}
