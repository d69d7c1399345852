//! The fields of rules and policies as texts, and the effects of their changes.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

use tidegate::{
    AlgorithmKind, Limit, Micros, Mode, OnExcess, OverrideSpec, Policy, ResetField, RuleSpec,
    Secret, Spec, StoreSettings,
};

use super::{FieldDiff, Setting};
use crate::labels;

/// The maximum number of characters of a value that are shown.
const MOST_CHARS: usize = 200;

/// A field, and its value unless it is left out.
type FieldText = (&'static str, Option<String>);

/// The fields of a rule that differ.
pub(super) fn of_rules(old: &RuleSpec, new: &RuleSpec) -> Vec<FieldDiff> {
    let pairs = fields(old).into_iter().zip(fields(new));
    let pairs = pairs.filter(|((_, old), (_, new))| old != new);
    let mut found: Vec<_> = pairs
        .map(|((field, before), (_, after))| {
            let (effect, waits) = (effect(field, old, new), waits(field, old, new));
            let longest_wait_us = waits.then(|| longest_wait_us(&new.spec)).flatten();
            let plain = FieldDiff::plain(field.to_owned(), before, after);
            FieldDiff { effect, longest_wait_us, ..plain }
        })
        .collect();
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
    let (before, after) = (by_name(old), by_name(new));
    let gone = names(old).filter(|name| !after.contains_key(name));
    let differing = names(new).chain(gone).filter_map(|field| {
        let (was, is) = (before.get(&field).copied(), after.get(&field).copied());
        let (old_values, new_values) = (was.map(override_values), is.map(override_values));
        if old_values == new_values {
            return None;
        }
        let spec = with_override(new, is);
        let waits = old.key == new.key && is_tighter(&with_override(old, was), &spec);
        let longest_wait_us = waits.then(|| longest_wait_us(&spec)).flatten();
        Some(FieldDiff { longest_wait_us, ..FieldDiff::plain(field, old_values, new_values) })
    });
    let mut found: Vec<_> = differing.collect();
    if found.is_empty() && names(old).ne(names(new)) {
        let order = |rule| Some(names(rule).collect::<Vec<_>>().join(", "));
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
    let plain = |name: &str, old: Option<String>, new: Option<String>| {
        (old != new).then(|| Setting { name: name.to_owned(), old, new, needs_restart: false })
    };
    let revision = |policy: &Policy| policy.revision().map(|number| number.to_string());
    let max_keys = |policy: &Policy| policy.max_keys().map(|number| number.to_string());
    let reset = |policy: &Policy| {
        let word = match policy.reset_field() {
            ResetField::Unix => "unix",
            _ => "seconds",
        };
        Some(word.to_owned())
    };
    let mut found: Vec<_> = [
        plain("revision", revision(old), revision(new)),
        plain("reset", reset(old), reset(new)),
        plain("[memory] max_keys", max_keys(old), max_keys(new)),
    ]
    .into_iter()
    .flatten()
    .collect();
    if old.store() != new.store() {
        found.extend(of_stores(old.store(), new.store()));
    }
    found
}

/// The fields of `[store]` that differ. A password is not shown: where it alone differs, both texts
/// of the URL are the same.
fn of_stores(old: Option<&StoreSettings>, new: Option<&StoreSettings>) -> Vec<Setting> {
    let fields = |store: Option<&StoreSettings>| -> [FieldText; 13] {
        let of = |value: fn(&StoreSettings) -> Option<String>| store.and_then(value);
        let file = |file: fn(&StoreSettings) -> Option<&PathBuf>| {
            Some(file(store?)?.display().to_string())
        };
        [
            ("[store] url", of(|store| Some(store.url.to_string()))),
            ("[store] username", of(|store| store.username.clone())),
            ("[store] password", of(|store| store.password.as_ref().map(Secret::to_string))),
            ("[store] sentinel_username", of(|store| store.sentinel_username.clone())),
            (
                "[store] sentinel_password",
                of(|store| store.sentinel_password.as_ref().map(Secret::to_string)),
            ),
            ("[store] tls_roots", file(|store| store.tls_roots.as_ref())),
            ("[store] tls_cert", file(|store| store.tls_cert.as_ref())),
            ("[store] tls_key", file(|store| store.tls_key.as_ref())),
            ("[store] timeout", of(|store| Some(Micros::from(store.timeout).to_string()))),
            ("[store] key_prefix", of(|store| Some(store.key_prefix.clone()))),
            ("[store] max_in_flight", of(|store| Some(store.max_in_flight.to_string()))),
            ("[store] nodes", of(|store| store.nodes.map(|nodes| nodes.to_string()))),
            ("[store] denial_memory", of(|store| Some(store.denial_memory.to_string()))),
        ]
    };
    let is_other_url = old.map(|store| &store.url) != new.map(|store| &store.url);
    let pairs = fields(old).into_iter().zip(fields(new));
    let pairs = pairs
        .filter(|((name, old), (_, new))| old != new || (*name == "[store] url" && is_other_url));
    let setting = |((name, old), (_, new)): (FieldText, FieldText)| Setting {
        name: name.to_owned(),
        old: old.map(cut),
        new: new.map(cut),
        needs_restart: true,
    };
    pairs.map(setting).collect()
}

/// Every field of a rule but its overrides, in one order.
fn fields(rule: &RuleSpec) -> Vec<FieldText> {
    let RuleSpec { spec, .. } = rule;
    let yes = |is: bool| is.then(|| "true".to_owned());
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
        ("max_keys", text(rule.max_keys)),
        ("on_full", Some(labels::on_full(rule.on_full).to_owned())),
        ("on_excess", Some(excess(rule.on_excess))),
        ("usage", Some(labels::usage(rule.usage).to_owned())),
        ("on_store_error", Some(labels::on_store_error(rule.on_store_error).to_owned())),
        ("dedupe", text(rule.dedupe.map(Micros::from))),
        ("max_life", text(rule.max_life.map(Micros::from))),
        ("hash_tag", rule.hash_tag.clone()),
        ("across_slots", yes(rule.across_slots)),
        ("lease", text(rule.lease)),
        ("split", yes(rule.split)),
        ("limit_from_request", yes(rule.limit_from_request)),
        ("near", text(rule.near)),
        ("hide_keys", yes(rule.hide_keys)),
    ]
}

/// The effect of a change of a field on callers who have used the rule.
fn effect(field: &str, old: &RuleSpec, new: &RuleSpec) -> Option<&'static str> {
    match field {
        "key" => Some("its limiters start fresh"),
        "mode" if new.mode == Mode::Enforce => Some("it refuses from then on"),
        "mode" if old.mode == Mode::Enforce => Some("it refuses no request from then on"),
        "limit" => match (old.spec.limit, new.spec.limit) {
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
    let is_limited = |rule: &RuleSpec| !matches!(rule.spec.limit, Limit::Unlimited);
    if old.key != new.key
        || !is_limited(old)
        || !is_limited(new)
        || new.spec.limit == Limit::Units(0)
    {
        return false;
    }
    match field {
        "limit" => {
            units(new.spec.limit) < units(old.spec.limit) || old.spec.window != new.spec.window
        }
        "capacity" => capacity(&new.spec) < capacity(&old.spec),
        "algorithm" | "buckets" | "anchor" => true,
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
    let limit = units(spec.limit).filter(|limit| weighs_on && *limit > 0);
    Some(window_us.saturating_add(limit.map_or(0, |limit| window_us.div_ceil(limit))))
}

/// The beginning of a long text.
pub(super) fn cut(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MOST_CHARS) {
        text.truncate(end);
        text.push('…');
        text.shrink_to_fit();
    }
    text
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

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
