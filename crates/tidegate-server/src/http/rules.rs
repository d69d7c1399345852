//! `GET /v1/rules`: the policy in force, with the names of a configuration; lengths in microseconds. `routes.rs`
//! calls [`rules`] at the admin listener; the other types are the JSON of the answer.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use hyper::header::{ETAG, HeaderValue};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use tidegate::{LeaseSpec, Limit, Micros, OnExcess, OverrideSpec, ResetField, RuleSpec, Spec};

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

/// A rule, with the names of its fields in a configuration. A field without a value is left out.
struct RuleJson<'a>(&'a RuleSpec);

impl Serialize for RuleJson<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let rule = self.0;
        let mut json = to.serialize_map(None)?;
        json.serialize_entry("domain", &rule.domain)?;
        json.serialize_entry("name", &rule.name)?;
        json.serialize_entry("mode", labels::mode(rule.mode))?;
        json.serialize_entry("match", if rule.exact { "exact" } else { "subset" })?;
        json.serialize_entry("when", &OrderedMap(&rule.when))?;
        json.serialize_entry("key", &rule.key)?;
        json.serialize_entry("algorithm", rule.spec.algorithm.name())?;
        write_values(&rule.spec, &mut json)?;
        given(&mut json, "max_keys", rule.max_keys)?;
        json.serialize_entry("on_full", labels::on_full(rule.on_full))?;
        match rule.on_excess {
            OnExcess::Reject => json.serialize_entry("on_excess", "reject")?,
            OnExcess::Wait { wait, max_waiters } => {
                json.serialize_entry("on_excess", &WaitJson { wait_us: in_us(wait), max_waiters })?;
            }
        }
        json.serialize_entry("usage", labels::usage(rule.usage))?;
        json.serialize_entry("on_store_error", labels::on_store_error(rule.on_store_error))?;
        given(&mut json, "dedupe_us", rule.dedupe.map(in_us))?;
        given(&mut json, "max_life_us", rule.max_life.map(in_us))?;
        given(&mut json, "hash_tag", rule.hash_tag.as_ref())?;
        given(&mut json, "across_slots", rule.across_slots.then_some(true))?;
        given(&mut json, "lease", rule.lease.map(LeaseJson::from))?;
        given(&mut json, "split", rule.split.then_some(true))?;
        given(&mut json, "limit_from_request", rule.limit_from_request.then_some(true))?;
        given(&mut json, "near", rule.near.map(|near| f64::from(near.parts_per_million()) / 1e6))?;
        given(&mut json, "hide_keys", rule.hide_keys.then_some(true))?;
        let overrides: Vec<_> = rule.overrides.iter().map(OverrideJson).collect();
        json.serialize_entry("overrides", &overrides)?;
        json.end()
    }
}

/// Writes the values of a rule.
fn write_values<J: SerializeMap>(spec: &Spec, json: &mut J) -> Result<(), J::Error> {
    json.serialize_entry("limit", &units(spec.limit))?;
    given(json, "window_us", spec.window.map(in_us))?;
    given(json, "buckets", spec.buckets)?;
    given(json, "strict", spec.strict)?;
    given(json, "anchor", spec.anchor.map(labels::anchor))?;
    given(json, "capacity", spec.capacity)?;
    given(json, "initial", spec.initial)?;
    given(json, "resolution_us", spec.resolution.map(in_us))?;
    given(json, "layout", spec.layout.map(labels::layout))?;
    given(json, "max_memory", spec.max_memory)?;
    given(json, "max_debt", spec.max_debt)
}

/// Other values for some keys of a rule.
struct OverrideJson<'a>(&'a OverrideSpec);

impl Serialize for OverrideJson<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut json = to.serialize_map(None)?;
        json.serialize_entry("match", &OrderedMap(&self.0.entries))?;
        given(&mut json, "limit", self.0.limit.map(units))?;
        given(&mut json, "window_us", self.0.window.map(in_us))?;
        given(&mut json, "capacity", self.0.capacity)?;
        json.end()
    }
}

/// Writes a field if it has a value.
fn given<J: SerializeMap>(
    json: &mut J,
    name: &str,
    value: Option<impl Serialize>,
) -> Result<(), J::Error> {
    value.map_or(Ok(()), |value| json.serialize_entry(name, &value))
}

/// The longest wait of a request above the limit, and the largest number of requests that wait.
#[derive(Serialize)]
struct WaitJson {
    wait_us: u64,
    max_waiters: usize,
}

/// The lease of a rule.
#[derive(Serialize)]
struct LeaseJson {
    max: String,
    life_us: u64,
}

impl From<LeaseSpec> for LeaseJson {
    fn from(lease: LeaseSpec) -> Self {
        Self { max: format!("{}%", lease.max_percent), life_us: in_us(lease.life) }
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
    let rules = policy.rules().iter().map(|rule| RuleJson(rule.spec())).collect();
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
    let rules: Vec<_> = policy.rules().iter().map(|rule| RuleJson(rule.spec())).collect();
    serde_json::json!({ "rules": rules })
}
