//! The fields of rules and policies as texts, and the effects of their changes.
//!
//! `PolicyDiff` compares these texts field by field.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

use tidegate::{
    AlgorithmKind, Limit, Micros, Mode, OnExcess, OverrideSpec, Policy, ResetField, RuleSpec, Spec,
    StoreSettings,
};

use super::{FieldDiff, Setting};
use crate::labels;
use crate::report::cut_to;

/// The maximum number of characters of a value that are shown.
const MOST_CHARS: usize = 200;

/// A field, and its value unless it is left out.
pub type FieldText = (&'static str, Option<String>);

/// A field of `T` and its value, unless it is left out.
type NamedValue<T> = (&'static str, fn(&T) -> Option<String>);

/// The warning of a revision that is smaller than it was, so that a store keeps the values of the old policy.
pub(super) fn falling_revision(old: &Policy, new: &Policy) -> Option<String> {
    let before = old.revision()?;
    if new.revision().is_some_and(|after| after >= before) {
        return None;
    }
    // A policy without a revision is older than all policies with one.
    let after = text(new.revision()).unwrap_or_else(|| "none".to_owned());
    Some(format!(
        "`revision` falls from {before} to {after}: over a store, keys that are in use keep the limits of {before}; \
         expected at least {before}"
    ))
}

pub(super) const POLICY_FIELDS: [NamedValue<Policy>; 4] = [
    ("revision", |policy| text(policy.revision())),
    ("reset", |policy| match policy.reset_field() {
        ResetField::Unix => Some("unix".to_owned()),
        _ => Some("seconds".to_owned()),
    }),
    ("on_no_rule", |policy| some(&on_no_rule(policy))),
    ("[memory] max_keys", |policy| text(policy.max_keys())),
];

pub(super) const STORE_FIELDS: [NamedValue<StoreSettings>; 13] = [
    ("url", |store| Some(store.url.to_string())),
    ("username", |store| store.username.clone()),
    ("password", |store| text(store.password.as_ref())),
    ("sentinel_username", |store| store.sentinel_username.clone()),
    ("sentinel_password", |store| text(store.sentinel_password.as_ref())),
    ("tls_roots", |store| file(store.tls_roots.as_ref())),
    ("tls_cert", |store| file(store.tls_cert.as_ref())),
    ("tls_key", |store| file(store.tls_key.as_ref())),
    ("timeout", |store| Some(Micros::from(store.timeout).to_string())),
    ("key_prefix", |store| Some(store.key_prefix.clone())),
    ("max_in_flight", |store| Some(store.max_in_flight.to_string())),
    ("nodes", |store| text(store.nodes)),
    ("denial_memory", |store| Some(store.denial_memory.to_string())),
];

/// The fields of a rule that differ.
pub(super) fn of_rules(old: &RuleSpec, new: &RuleSpec) -> Vec<FieldDiff> {
    let mut found = Vec::new();
    // The list always has the same fields in the same order, so two lists fit together.
    for ((field, before), (_, after)) in fields(old).into_iter().zip(fields(new)) {
        if before != after {
            let waits = waits(field, old, new);
            found.push(FieldDiff {
                effect: effect(field, old, new),
                longest_wait_us: waits.then(|| longest_wait_us(&new.spec)).flatten(),
                ..FieldDiff::plain(field.to_owned(), before, after)
            });
        }
    }
    found.extend(of_overrides(old, new));
    found
}

/// The overrides that differ, by their entries.
fn of_overrides(old: &RuleSpec, new: &RuleSpec) -> Vec<FieldDiff> {
    fn by_name(rule: &RuleSpec) -> BTreeMap<String, &OverrideSpec> {
        rule.overrides.iter().map(|one| (override_name(one), one)).collect()
    }
    fn names(rule: &RuleSpec) -> impl Iterator<Item = String> {
        rule.overrides.iter().map(override_name)
    }
    fn order(rule: &RuleSpec) -> Option<String> {
        Some(names(rule).collect::<Vec<_>>().join(", "))
    }
    let before = by_name(old);
    let after = by_name(new);
    let gone = names(old).filter(|name| !after.contains_key(name));
    let mut found = Vec::new();
    for field in names(new).chain(gone) {
        let was = before.get(&field).copied();
        let is = after.get(&field).copied();
        let old_values = was.map(override_values);
        let new_values = is.map(override_values);
        if old_values == new_values {
            continue;
        }
        let spec = with_override(new, is);
        // Under another key the limiters start fresh, so no caller waits because of earlier usage.
        let waits = old.key == new.key && is_tighter(&with_override(old, was), &spec);
        let longest_wait_us = waits.then(|| longest_wait_us(&spec)).flatten();
        found
            .push(FieldDiff { longest_wait_us, ..FieldDiff::plain(field, old_values, new_values) });
    }
    // The first override that matches decides, so their order alone can change decisions.
    if found.is_empty() && names(old).ne(names(new)) {
        found.push(FieldDiff::plain("the order of".to_owned(), order(old), order(new)));
    }
    found
}

/// The values that hold under an override.
fn with_override(rule: &RuleSpec, other: Option<&OverrideSpec>) -> Spec {
    let mut spec = rule.spec;
    if let Some(other) = other {
        spec.limit = other.limit.unwrap_or(spec.limit);
        spec.window = other.window.or(spec.window);
        spec.capacity = other.capacity.or(spec.capacity);
    }
    spec
}

/// The settings of two policies that differ.
pub(super) fn of_policies(old: &Policy, new: &Policy) -> Vec<Setting> {
    let mut found = Vec::new();
    for (name, value) in POLICY_FIELDS {
        let before = value(old);
        let after = value(new);
        if before != after {
            let name = name.to_owned();
            found.push(Setting { name, old: before, new: after, needs_restart: false });
        }
    }
    if old.store() != new.store() {
        found.extend(of_stores(old.store(), new.store()));
    }
    found
}

/// The fields of `[store]` that differ. A password is not shown: where it alone differs, both texts
/// of the URL are the same.
fn of_stores(old: Option<&StoreSettings>, new: Option<&StoreSettings>) -> Vec<Setting> {
    let is_other_url = old.map(|store| &store.url) != new.map(|store| &store.url);
    let usual = old.or(new).map(|store| StoreSettings::new(store.url.clone()));
    let mut found = Vec::new();
    for (name, value) in STORE_FIELDS {
        let before = old.and_then(value).map(cut);
        let after = new.and_then(value).map(cut);
        // Of a section that is added or removed, defaults need no line.
        let is_usual = (old.is_none() || new.is_none())
            && usual.as_ref().and_then(value).map(cut) == before.clone().or(after.clone());
        let differs = before != after && !is_usual;
        // Two URLs are compared as values, because their texts hide the password; and the URL of
        // `usual` is one of them.
        if differs || (name == "url" && is_other_url) {
            let name = format!("[store] {name}");
            found.push(Setting { name, old: before, new: after, needs_restart: true });
        }
    }
    found
}

/// Every field of a rule but its overrides, in one order.
#[must_use]
pub fn fields(rule: &RuleSpec) -> Vec<FieldText> {
    let RuleSpec { spec, .. } = rule;
    // A flag that is off has no text: a file leaves it out as well.
    vec![
        ("when", some(&entries(&rule.when))),
        ("key", some(&rule.key.join(", "))),
        ("match", Some(if rule.exact { "exact" } else { "subset" }.to_owned())),
        ("mode", Some(labels::mode(rule.mode).to_owned())),
        ("algorithm", Some(spec.algorithm.name().to_owned())),
        ("limit", Some(limit(spec))),
        ("capacity", text(spec.capacity)),
        ("initial", text(spec.initial)),
        ("buckets", text(spec.buckets)),
        ("strict", text(spec.strict)),
        ("anchor", text(spec.anchor.map(labels::anchor))),
        ("resolution", text(spec.resolution.map(Micros::from))),
        ("layout", text(spec.layout.map(labels::layout))),
        ("max_memory", text(spec.max_memory)),
        ("max_debt", text(spec.max_debt)),
        ("max_keys", text(rule.max_keys)),
        ("on_full", Some(labels::on_full(rule.on_full).to_owned())),
        ("on_excess", Some(excess(rule.on_excess))),
        ("usage", Some(labels::usage(rule.usage).to_owned())),
        ("on_store_error", Some(labels::on_store_error(rule.on_store_error).to_owned())),
        ("dedupe", text(rule.dedupe.map(Micros::from))),
        ("max_life", text(rule.max_life.map(Micros::from))),
        ("hash_tag", rule.hash_tag.clone()),
        ("across_slots", text(rule.across_slots.then_some(true))),
        ("lease", text(rule.lease)),
        ("split", text(rule.split.then_some(true))),
        ("limit_from_request", text(rule.limit_from_request.then_some(true))),
        ("near", text(rule.near)),
        ("hide_keys", text(rule.hide_keys.then_some(true))),
    ]
}

/// The effect of a change of a field on callers who have used the rule.
fn effect(field: &str, old: &RuleSpec, new: &RuleSpec) -> Option<&'static str> {
    match field {
        "key" => Some("its limiters start fresh"),
        "mode" if new.mode == Mode::Enforce => Some("it refuses from then on"),
        "mode" if old.mode == Mode::Enforce => Some("it refuses no request from then on"),
        "limit" => match (old.spec.limit, new.spec.limit) {
            // Without a limit nothing was counted that could carry over.
            (Limit::Unlimited, _) => Some("its limiters start fresh"),
            (Limit::Units(_), Limit::Unlimited) => None,
            (Limit::Units(_), Limit::Units(0)) => Some("it denies every cost from then on"),
            (Limit::Units(before), Limit::Units(after)) if after < before => {
                Some("lower: usage carries over")
            }
            (Limit::Units(before), Limit::Units(after)) if after > before => {
                Some("higher: the difference is added immediately")
            }
            _ => Some("usage carries over"),
        },
        _ => None,
    }
}

/// Returns whether a change of a field can make callers wait who would not have waited before.
fn waits(field: &str, old: &RuleSpec, new: &RuleSpec) -> bool {
    let before = units(old.spec.limit);
    let after = units(new.spec.limit);
    // Fresh limiters carry no usage over; without a limit no caller waits, and at 0 no wait helps.
    if old.key != new.key || before.is_none() || after.is_none() || after == Some(0) {
        return false;
    }
    match field {
        // The text of a limit has its window, so a change of the window alone arrives here too.
        "limit" => after < before || old.spec.window != new.spec.window,
        "capacity" => capacity(&new.spec) < capacity(&old.spec),
        "algorithm" | "buckets" | "anchor" => true,
        // In shadow mode units were counted too, so a rule may refuse from its first request on.
        "mode" => new.mode == Mode::Enforce,
        _ => false,
    }
}

/// Returns whether usage can be more than new values allow.
fn is_tighter(old: &Spec, new: &Spec) -> bool {
    match (old.limit, new.limit) {
        (Limit::Unlimited, _) | (_, Limit::Unlimited | Limit::Units(0)) => false,
        (Limit::Units(before), Limit::Units(after)) => {
            after < before || old.window != new.window || capacity(new) < capacity(old)
        }
    }
}

fn capacity(spec: &Spec) -> Option<u64> {
    spec.capacity.or(units(spec.limit))
}

fn units(limit: Limit) -> Option<u64> {
    match limit {
        Limit::Unlimited => None,
        Limit::Units(units) => Some(units),
    }
}

/// The longest wait for a unit: a window, or in a counter as long as after a full limit.
fn longest_wait_us(spec: &Spec) -> Option<u64> {
    let window_us = Micros::from(spec.window?).as_micros();
    let weighs_on = spec.algorithm == AlgorithmKind::SlidingCounter;
    // After a window that was filled at its beginning, a unit fits once its weight has fallen by one unit.
    let limit = units(spec.limit).filter(|limit| weighs_on && *limit > 0);
    // Rounded up: the wait that is shown must not be too short.
    Some(window_us.saturating_add(limit.map_or(0, |limit| window_us.div_ceil(limit))))
}

/// The beginning of a long text.
pub(super) fn cut(text: String) -> String {
    cut_to(MOST_CHARS, text)
}

/// Whose requests a rule decides.
pub(super) fn whom(rule: &RuleSpec) -> String {
    let each = match rule.key.as_slice() {
        [] => "all together".to_owned(),
        key => format!("each {}", key.join(", ")),
    };
    match entries(&rule.when) {
        when if when.is_empty() => each,
        when => format!("{each}, if {when}"),
    }
}

/// The algorithm, the limit and the mode of a rule.
pub(super) fn summary(rule: &RuleSpec) -> String {
    let mode = match rule.mode {
        Mode::Enforce => String::new(),
        mode => format!(", mode {}", labels::mode(mode)),
    };
    format!("{} {}{mode}", rule.spec.algorithm.name(), limit(&rule.spec))
}

/// The limit and its window, such as `100/1m`.
fn limit(spec: &Spec) -> String {
    let window = spec.window.map(|window| format!("/{}", Micros::from(window)));
    match spec.limit {
        Limit::Unlimited => "unlimited".to_owned(),
        Limit::Units(units) => format!("{units}{}", window.unwrap_or_default()),
    }
}

fn excess(on_excess: OnExcess) -> String {
    match on_excess {
        OnExcess::Reject => "reject".to_owned(),
        OnExcess::Wait { wait, max_waiters } => {
            format!("wait {}, max_waiters {max_waiters}", Micros::from(wait))
        }
    }
}

/// The domains with a decision of their own on requests without a rule, then `*` for other domains.
fn on_no_rule(policy: &Policy) -> String {
    let all = policy.on_no_rules();
    let all = all.map(|(domain, word)| format!("{domain} {}", labels::on_no_rule(word)));
    all.collect::<Vec<_>>().join(", ")
}

fn override_name(other: &OverrideSpec) -> String {
    format!("override {}", entries(&other.entries))
}

fn override_values(other: &OverrideSpec) -> String {
    let limit = other.limit.map(|limit| match limit {
        Limit::Unlimited => "limit unlimited".to_owned(),
        Limit::Units(units) => format!("limit {units}"),
    });
    let window = other.window.map(|window| format!("window {}", Micros::from(window)));
    let capacity = other.capacity.map(|capacity| format!("capacity {capacity}"));
    [limit, window, capacity].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn entries(entries: &[(String, String)]) -> String {
    entries.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

fn text(value: Option<impl Display>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn file(path: Option<&PathBuf>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
