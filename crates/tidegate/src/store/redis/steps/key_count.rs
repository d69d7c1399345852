//! The number of keys that a rule has in the store.

use crate::rules::{OnFull, PolicyRule};
use crate::store::redis::key_of_rule;
use crate::store::redis::script::Among;

/// The count of a rule's keys in the store.
#[derive(Debug)]
pub(super) struct KeyCount {
    most: usize,
    name: String,
    /// By variant, the key of the overflow limiter; empty if the rule refuses new keys instead.
    shared: Vec<Vec<u8>>,
}

impl KeyCount {
    /// Returns `None` if the rule does not limit its number of keys.
    pub(super) fn of(prefix: &str, rule: &PolicyRule) -> Option<Self> {
        let spec = rule.spec();
        let most = spec.max_keys?;
        let shares = spec.on_full == OnFull::Share && !spec.limit_from_request;
        let variants = if shares { rule.variants() } else { 0 };
        let shared = (0..variants).map(|number| format!("overflow:{number}"));
        let shared =
            shared.map(|what| (prefix.to_owned() + &key_of_rule(rule, &what)).into_bytes());
        Some(Self { most, name: key_of_rule(rule, "keys"), shared: shared.collect() })
    }

    /// Returns the count for a limiter of this variant of the rule; `None` for values that are looked up.
    pub(super) fn among<'a>(&'a self, prefix: &'a str, variant: Option<usize>) -> Among<'a> {
        let shared = variant.and_then(|variant| self.shared.get(variant));
        Among { name: (prefix, &self.name), most: self.most, shared: shared.map(Vec::as_slice) }
    }
}
