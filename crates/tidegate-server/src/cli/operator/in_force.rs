//! The policy of `GET /v1/rules`, read as a configuration for `tidegate rules`: both have the same names of fields,
//! so the answer is written as TOML and parsed by the engine.

use std::fmt::Write;

use serde_json::{Map, Value};
use tidegate::{Policy, config};

use crate::failure::Failure;

/// Returns the policy of an answer.
///
/// # Errors
/// Returns an error if it has no rules, or fields that this version does not know.
pub(super) fn policy(answer: &Value) -> Result<Policy, Failure> {
    let policy = match configuration(answer) {
        Some(text) => config::parse("the answer", &text).map_err(|errors| errors.to_string()),
        None => Err("the answer has no rules".to_owned()),
    };
    policy.map_err(|why| {
        Failure::new(format!(
            "the rules of the server cannot be shown ({why}): expected a server of this version; \
             --format json prints them as they are"
        ))
    })
}

/// The text of the configuration, if the answer has rules.
fn configuration(answer: &Value) -> Option<String> {
    let rules = answer.get("rules")?.as_array()?;
    let mut text = String::new();
    for rule in rules.iter().filter_map(Value::as_object) {
        text.push_str("[[rule]]\n");
        fields(rule, &mut text);
        let overrides = rule.get("overrides").and_then(Value::as_array);
        for other in overrides.into_iter().flatten().filter_map(Value::as_object) {
            text.push_str("[[rule.override]]\n");
            fields(other, &mut text);
        }
    }
    Some(text)
}

fn fields(of: &Map<String, Value>, text: &mut String) {
    for (name, value) in of {
        let is_empty = value.is_null()
            || value.as_object().is_some_and(Map::is_empty)
            || value.as_array().is_some_and(Vec::is_empty);
        if name != "overrides" && !is_empty {
            let (name, value) = field(name, value);
            let _ = writeln!(text, "{name} = {value}");
        }
    }
}

/// A field of the configuration: a length of time is a text there.
fn field(name: &str, value: &Value) -> (String, String) {
    match (name.strip_suffix("_us"), value.as_u64()) {
        (Some(name), Some(us)) => (quoted(name), format!("\"{us}us\"")),
        _ => (quoted(name), written(value)),
    }
}

/// A value of JSON as TOML.
fn written(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| field(name, value));
            let fields: Vec<_> = fields.map(|(name, value)| format!("{name} = {value}")).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// A text of JSON is one of TOML, but for one character that TOML wants escaped.
fn quoted(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::by_example;
    use serde_json::json;

    #[test]
    fn lengths_overrides_and_odd_texts_come_back() {
        let answer = json!({"rules": [{
            "domain": "a \"b\" \\ \u{7f}\n", "name": "r", "mode": "shadow", "match": "subset",
            "when": {"a.b": "x*"}, "key": ["user"], "algorithm": "token_bucket", "limit": 3,
            "window_us": 1_500_000, "on_full": "share", "usage": "requested", "on_store_error": "local",
            "on_excess": {"wait_us": 2_000_000, "max_waiters": 7},
            "overrides": [{"match": {"user": "vip"}, "limit": 9}],
        }]});
        let policy = policy(&answer).unwrap();
        let spec = policy.rules()[0].spec();
        assert_eq!(spec.domain, "a \"b\" \\ \u{7f}\n");
        assert_eq!(spec.when, [("a.b".to_owned(), "x*".to_owned())]);
        assert_eq!(spec.spec.window, Some(std::time::Duration::from_millis(1_500)));
        assert_eq!(spec.overrides.len(), 1);
    }

    #[test]
    fn every_field_of_the_page_of_all_fields_comes_back() {
        for policy in by_example() {
            let shown = crate::http::json_of(&policy);
            let back = super::policy(&shown).unwrap();
            let specs = |policy: &Policy| {
                policy.rules().iter().map(|rule| rule.spec().clone()).collect::<Vec<_>>()
            };
            assert_eq!(specs(&back), specs(&policy));
        }
    }

    #[test]
    fn a_field_that_is_not_known_is_named() {
        let rule = json!({"name": "r", "algorithm": "token_bucket", "limit": 1, "window_us": 1_000_000, "new": 1});
        let said = format!("{:?}", policy(&json!({"rules": [rule]})).unwrap_err());
        assert!(said.contains("unknown field `new`") && said.contains("--format json"), "{said}");
        assert!(policy(&json!({})).is_err());
    }
}
