//! A descriptor on the command line: entries as `NAME=VALUE`.

use serde::Serialize;

use crate::ordered_map::OrderedMap;

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct EntryArg {
    name: String,
    value: String,
}

/// Reads `NAME=VALUE`; the value may have further `=`, and may be empty.
pub(super) fn parse(text: &str) -> Result<EntryArg, String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => {
            Ok(EntryArg { name: name.to_owned(), value: value.to_owned() })
        }
        _ => Err("expected an entry as NAME=VALUE, such as user=ada".to_owned()),
    }
}

/// The body of a request.
pub(super) fn body(domain: &str, entries: &[EntryArg], cost: Option<u64>) -> String {
    let entries: Vec<_> = entries.iter().map(|one| (one.name.clone(), one.value.clone())).collect();
    let body = DescriptorBody { cost, descriptor: OrderedMap(&entries), domain };
    serde_json::to_string(&body).unwrap_or_default()
}

#[derive(Serialize)]
struct DescriptorBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    descriptor: OrderedMap<'a>,
    domain: &'a str,
}

/// The entries for a person: `user=ada, path=/login`.
pub(super) fn shown(entries: &[EntryArg]) -> String {
    let entries = entries.iter().map(|one| format!("{}={}", one.name, one.value));
    let entries: Vec<_> = entries.collect();
    if entries.is_empty() { "no entries".to_owned() } else { entries.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_cut_at_its_first_equals_sign() {
        let entries: Vec<_> =
            ["q=a=b", "user="].into_iter().map(|one| parse(one).unwrap()).collect();
        assert_eq!(shown(&entries), "q=a=b, user=");
        let expected = r#"{"cost":0,"descriptor":{"q":"a=b","user":""},"domain":"d"}"#;
        let twice = ["b=1", "a=2", "b=3"].map(|one| parse(one).unwrap());
        assert!(body("d", &twice, None).contains(r#"{"b":"1","a":"2","b":"3"}"#));
        assert_eq!(body("d", &entries, Some(0)), expected);
        for wrong in ["user", "=ada", ""] {
            assert!(parse(wrong).unwrap_err().contains("NAME=VALUE"));
        }
    }
}
