//! `GET /v1/rules`: the policy in force, with the names of a configuration; lengths in microseconds. `routes.rs`
//! calls [`rules`] at the admin listener; the other types are the JSON of the answer.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{ETAG, HeaderValue};
use serde::Serialize;
use tidegate::{LeaseSpec, Limit, Micros, OnExcess, OverrideSpec, PolicyRule, ResetField, Spec};

use super::answer;
use super::message::HttpResponse;
use super::table::AdmittedRequest;
use crate::configuration::Configuration;
use crate::limiters::Limiters;
use crate::ordered_map::OrderedMap;
use crate::refusal::RequestRefusal;
use tidegate_lab::labels;

/// The answer.
#[derive(Serialize)]
struct RulesJson<'a> {
    /// The file of the server; none if the rules are built in.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<NonZeroU32>,
    rules: Vec<RuleJson<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset: Option<&'static str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    on_no_rule: BTreeMap<&'a str, &'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryJson>,
    /// The address of the shared store, without the password.
    #[serde(skip_serializing_if = "Option::is_none")]
    store: Option<String>,
    reloads: ReloadsJson,
}

/// The attempts to put another configuration in force.
#[derive(Serialize)]
struct ReloadsJson {
    succeeded: u64,
    failed: u64,
    refused: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_us: Option<u64>,
    /// Why the file could not be put in force when it was read last.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The memory that all rules together may use.
#[derive(Serialize)]
struct MemoryJson {
    max_keys: NonZeroUsize,
}

/// A rule, with the names of its fields in a configuration.
#[derive(Serialize)]
struct RuleJson<'a> {
    domain: &'a str,
    name: &'a str,
    mode: &'static str,
    r#match: &'static str,
    when: OrderedMap<'a>,
    key: &'a [String],
    algorithm: &'static str,
    #[serde(flatten)]
    values: RuleValues,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_keys: Option<usize>,
    on_full: &'static str,
    on_excess: ExcessJson,
    usage: &'static str,
    on_store_error: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dedupe_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_life_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash_tag: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    across_slots: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<LeaseJson>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    split: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    limit_from_request: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    near: Option<f64>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    hide_keys: bool,
    overrides: Vec<OverrideJson<'a>>,
}

/// The handling of a request above the limit: a name, or the longest wait and the largest number of waiters.
#[derive(Serialize)]
#[serde(untagged)]
enum ExcessJson {
    Word(&'static str),
    Wait { wait_us: u64, max_waiters: usize },
}

impl From<OnExcess> for ExcessJson {
    fn from(on_excess: OnExcess) -> Self {
        match on_excess {
            OnExcess::Reject => Self::Word("reject"),
            OnExcess::Wait { wait, max_waiters } => {
                Self::Wait { wait_us: in_us(wait), max_waiters }
            }
        }
    }
}

/// The lease of a rule.
#[derive(Serialize)]
struct LeaseJson {
    max: String,
    life_us: u64,
}

/// Other values for some keys of a rule.
#[derive(Serialize)]
struct OverrideJson<'a> {
    r#match: OrderedMap<'a>,
    #[serde(flatten)]
    values: RuleValues,
}

/// The values of a rule; absent fields are left out.
#[derive(Default, Serialize)]
struct RuleValues {
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    buckets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    anchor: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    initial: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resolution_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layout: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_memory: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_debt: Option<u64>,
}

impl<'a> From<&'a PolicyRule> for RuleJson<'a> {
    fn from(rule: &'a PolicyRule) -> Self {
        let spec = rule.spec();
        Self {
            domain: &spec.domain,
            name: &spec.name,
            mode: labels::mode(spec.mode),
            r#match: if spec.exact { "exact" } else { "subset" },
            when: OrderedMap(&spec.when),
            key: &spec.key,
            algorithm: spec.spec.algorithm.name(),
            values: RuleValues::from(&spec.spec),
            max_keys: spec.max_keys,
            on_full: labels::on_full(spec.on_full),
            on_excess: spec.on_excess.into(),
            usage: labels::usage(spec.usage),
            on_store_error: labels::on_store_error(spec.on_store_error),
            dedupe_us: spec.dedupe.map(in_us),
            max_life_us: spec.max_life.map(in_us),
            hash_tag: spec.hash_tag.as_deref(),
            across_slots: spec.across_slots,
            lease: spec.lease.map(LeaseJson::from),
            split: spec.split,
            limit_from_request: spec.limit_from_request,
            // The float nearest to a decimal is printed as that decimal.
            near: spec.near.map(|near| f64::from(near.parts_per_million()) / 1e6),
            hide_keys: spec.hide_keys,
            overrides: spec.overrides.iter().map(OverrideJson::from).collect(),
        }
    }
}

impl<'a> From<&'a OverrideSpec> for OverrideJson<'a> {
    fn from(other: &'a OverrideSpec) -> Self {
        let values = RuleValues {
            limit: other.limit.map(units),
            window_us: other.window.map(in_us),
            capacity: other.capacity,
            ..RuleValues::default()
        };
        Self { r#match: OrderedMap(&other.entries), values }
    }
}

impl From<LeaseSpec> for LeaseJson {
    fn from(lease: LeaseSpec) -> Self {
        Self { max: format!("{}%", lease.max_percent), life_us: in_us(lease.life) }
    }
}

impl From<&Spec> for RuleValues {
    fn from(spec: &Spec) -> Self {
        Self {
            limit: Some(units(spec.limit)),
            window_us: spec.window.map(in_us),
            buckets: spec.buckets,
            strict: spec.strict,
            anchor: spec.anchor.map(labels::anchor),
            capacity: spec.capacity,
            initial: spec.initial,
            resolution_us: spec.resolution.map(in_us),
            layout: spec.layout.map(labels::layout),
            max_memory: spec.max_memory,
            max_debt: spec.max_debt,
        }
    }
}

/// A limit as written: -1 for unlimited.
fn units(limit: Limit) -> i64 {
    match limit {
        Limit::Unlimited => -1,
        Limit::Units(units) => i64::try_from(units).unwrap_or(i64::MAX),
    }
}

/// Answers with the policy in force, and the tag of the configuration.
pub(super) async fn rules(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let limiters = Arc::clone(&asked.app.limiters);
    let configuration = asked.configuration()?;
    answer::made_apart(move || shown(&limiters, &configuration)).await
}

fn shown(
    limiters: &Limiters,
    configuration: &Configuration,
) -> Result<HttpResponse, RequestRefusal> {
    // Read before the policy: a tag is never newer than the rules next to it.
    let etag = HeaderValue::from_str(&configuration.etag());
    let policy = limiters.policy();
    let rules = policy.rules().iter().map(RuleJson::from).collect();
    let reset = (policy.reset_field() == ResetField::Unix).then_some("unix");
    let on_no_rule = policy.on_no_rules();
    let on_no_rule = on_no_rule.map(|(domain, word)| (domain, labels::on_no_rule(word))).collect();
    let store = policy.store().map(|store| store.url.to_string());
    let memory = policy.max_keys().map(|max_keys| MemoryJson { max_keys });
    let reloads = configuration.reloads();
    let [succeeded, failed, refused] = reloads.counts().map(|(_, count)| count);
    let reloads = ReloadsJson {
        succeeded,
        failed,
        refused,
        last_us: reloads.last_us(),
        error: reloads.error(),
    };
    let revision = policy.revision();
    let file = configuration.file().map(|file| file.display().to_string());
    let shown = RulesJson { file, revision, rules, reset, on_no_rule, memory, store, reloads };
    let mut response = answer::json(&shown)?;
    response.headers_mut().extend(etag.ok().map(|etag| (ETAG, etag)));
    Ok(response)
}

/// Returns the microseconds of a length that a checked rule has.
const fn in_us(length: Duration) -> u64 {
    Micros::from_duration(length).as_micros()
}

/// The rules of a policy, as the answer has them.
#[cfg(test)]
pub(crate) fn json_of(policy: &tidegate::Policy) -> serde_json::Value {
    let rules: Vec<_> = policy.rules().iter().map(RuleJson::from).collect();
    serde_json::json!({ "rules": rules })
}
