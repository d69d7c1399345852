//! Rules that no request of a layer can match, because the layer never adds an entry that they need, or because the
//! policy has no rule in the layer's domain.
//!
//! A layer prints these sentences on standard error when it makes its first service.

use std::collections::BTreeSet;

use crate::request::place_of;
use crate::rules::{Mode, Policy, PolicyRule};

/// Returns a sentence for each rule of the domain that matches no descriptor of these entries with any values, or one
/// sentence if the rules are all in other domains.
pub(super) fn unmatched(policy: &Policy, domain: &str, descriptors: &[Vec<&str>]) -> Vec<String> {
    let mut of_domain = policy.rules().iter().filter(|rule| rule.domain() == domain).peekable();
    if of_domain.peek().is_none() {
        return without_rules(policy, domain).into_iter().collect();
    }
    let counting = of_domain.filter(|rule| rule.mode() != Mode::Off);
    let sentences = counting.filter_map(|rule| {
        let spec = rule.spec();
        let needed = spec.key.iter().chain(spec.when.iter().map(|(name, _)| name));
        let missing = descriptors.iter().map(|added| needed.clone().find(|name| !has(added, name)));
        // The rule can match unless every descriptor misses an entry.
        let missing: Option<Vec<_>> = missing.collect();
        let entry = missing?.into_iter().next()?;
        let added: Vec<_> =
            descriptors.iter().map(|added| format!("({})", added.join(", "))).collect();
        Some(format!(
            "no request of this RateLimitLayer can match the rule `{}`: it needs the entry `{entry}`, and the layer \
             adds {}; expected an `Entries` with `{entry}` in `RateLimitLayer::descriptor`; a rule of another layer \
             needs a domain of its own, which that layer names by `RateLimitLayer::domain`",
            rule.name(),
            added.join(" and "),
        ))
    });
    sentences.collect()
}

/// Returns the sentence about a domain in which the policy has no rule; a policy without any rule limits no request on
/// purpose.
fn without_rules(policy: &Policy, domain: &str) -> Option<String> {
    let domains: BTreeSet<_> = policy.rules().iter().map(PolicyRule::domain).collect();
    let others: Vec<_> = domains.iter().map(|other| format!("`{other}`")).collect();
    (!others.is_empty()).then(|| {
        format!(
            "this RateLimitLayer limits no request: the policy has no rule in the domain `{domain}`, only in {}; \
             expected one of these in `RateLimitLayer::domain`",
            others.join(", ")
        )
    })
}

/// Returns whether these names of entries include `name`, which may have a place.
fn has(added: &[&str], name: &str) -> bool {
    added.contains(&name)
        || place_of(name).is_some_and(|(entry, place)| {
            added.iter().filter(|added| **added == entry).count() >= place
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::RuleSpec;

    fn found(rules: Vec<RuleSpec>, descriptors: &[Vec<&str>]) -> Vec<String> {
        unmatched(&Policy::new(rules).unwrap(), "default", descriptors)
    }

    fn rule(name: &str) -> RuleSpec {
        RuleSpec::new(name, "1/s")
    }

    #[test]
    fn a_rule_is_found_if_no_descriptor_has_all_that_it_needs() {
        let usual = [vec!["ip", "method", "path"]];
        let rules = vec![
            rule("all"),
            rule("address").key(["ip"]).when("path", "/login"),
            rule("user").key(["ip", "user"]),
            rule("tenant").when("tenant", "a"),
            rule("off").key(["user"]).mode(Mode::Off),
            rule("elsewhere").key(["user"]).in_domain("other"),
        ];
        let sentences = found(rules, &usual);
        assert_eq!(sentences.len(), 2, "{sentences:?}");
        let begin = "no request of this RateLimitLayer can match the rule `user`: it needs the entry `user`, and the \
                     layer adds (ip, method, path); expected an `Entries` with `user` in";
        assert!(sentences[0].starts_with(begin), "{sentences:?}");
        assert!(sentences[1].contains("`tenant`: it needs the entry `tenant`"), "{sentences:?}");
    }

    #[test]
    fn entries_of_two_descriptors_do_not_add_up() {
        let two = [vec!["ip"], vec!["user"]];
        assert_eq!(found(vec![rule("user").key(["user"])], &two), [""; 0]);
        let both = found(vec![rule("both").key(["ip", "user"])], &two);
        assert!(
            both[0].contains("the entry `user`, and the layer adds (ip) and (user)"),
            "{both:?}"
        );
    }

    #[test]
    fn a_domain_without_a_rule_is_found_unless_the_policy_has_none_at_all() {
        let sentence = "this RateLimitLayer limits no request: the policy has no rule in the domain `default`, only in \
                        `login`, `pay`; expected one of these in `RateLimitLayer::domain`";
        let cases = [
            (vec![], vec![]),
            (vec![rule("off").mode(Mode::Off)], vec![]),
            (vec![rule("a").in_domain("pay"), rule("b")], vec![]),
            (vec![rule("a").in_domain("pay"), rule("b").in_domain("login")], vec![sentence]),
        ];
        for (rules, expected) in cases {
            assert_eq!(found(rules, &[vec!["ip"]]), expected);
        }
    }
}
