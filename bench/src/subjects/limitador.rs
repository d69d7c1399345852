//! limitador 0.14, in memory: fixed windows over rules with conditions and variables.
//!
//! Asked by `check_rate_limited_and_update` of its blocking limiter, which its in-memory storage is for (its
//! asynchronous limiter only differs over Redis), so no runtime is involved. Keyed, the key is the variable `user`: its
//! API takes it as a map of owned strings made into a `Context`, so both are allocated per decision, as in any program
//! that uses it. Without a key the empty `Context` is made once per batch.

use super::{Candidate, Subject};
use crate::cases::{Case, Rule, Shape};
use crate::pace::Pace;
use crate::workload::Ask;
use ::limitador::RateLimiter;
use ::limitador::limit::{Context, Limit, Namespace};
use std::collections::HashMap;

/// Room for twice the keys of the largest case: its cache must not evict.
const MOST_KEYS: u64 = 2_000_000;
/// Its windows are whole seconds; an hour, so that none ends while a case runs.
const WINDOW_S: u64 = 3600;
const NAMESPACE: &str = "bench";

/// A simple limit, and one per user.
pub fn offers(case: &Case) -> Vec<Candidate> {
    let rule = case.rule;
    let simple =
        Candidate::new("limitador/simple", move || Box::new(Simple(limiter(rule, vec![]))));
    let per_user = Candidate::asked(
        "limitador/String",
        move || limiter(rule, vec!["user"]),
        |limiter, ask| {
            let values = HashMap::from([("user".to_owned(), ask.key.clone())]);
            limiter.ask(&Context::from(values))
        },
    );
    match case.shape {
        Shape::One => vec![simple],
        Shape::Keyed => vec![per_user],
        Shape::HotKey => vec![simple, per_user],
        _ => Vec::new(),
    }
}

struct Limiter {
    limits: RateLimiter,
    namespace: Namespace,
}

fn limiter(rule: Rule, variables: Vec<&str>) -> Limiter {
    let limits = RateLimiter::new(MOST_KEYS);
    let variables = variables.into_iter().filter_map(|name| name.try_into().ok());
    limits.add_limit(Limit::new(NAMESPACE, rule.capacity, WINDOW_S, [], variables));
    Limiter { limits, namespace: NAMESPACE.into() }
}

impl Limiter {
    fn ask(&self, context: &Context) -> bool {
        let checked = self.limits.check_rate_limited_and_update(&self.namespace, context, 1);
        // A check that no limit applied to would be no decision: it counts as denied.
        checked.is_ok_and(|result| !result.limited && !result.counters.is_empty())
    }
}

struct Simple(Limiter);

impl Subject for Simple {
    fn decide(&self, _: &Ask) -> bool {
        self.0.ask(&Context::default())
    }

    fn run(&self, asks: &[Ask], pace: Pace) -> u64 {
        let context = Context::default();
        pace.count(asks, |_| self.0.ask(&context))
    }
}
