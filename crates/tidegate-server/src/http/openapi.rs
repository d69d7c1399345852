//! `GET /openapi.json`: the paths of the server with their requests and answers, as a document of OpenAPI 3.1, for
//! viewers and for generators of clients. `openapi/openapi.json` describes each row of `routes.rs`; this file
//! adds the facts of the rows, and leaves out the rows that a client may not use.
//!
//! The document is written by hand. A crate that derives it from types (schemars, utoipa) would see none of the bodies that
//! are read and written without serde, and would not know the bounds, statuses and header fields of the others.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use hyper::body::Bytes;
use serde_json::{Map, Value, json};
use tidegate::printable;

use super::answer;
use super::message::HttpResponse;
use super::table::{AdmittedRequest, PublicUse, Row};
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::verbs::PublicVerbs;

/// The descriptions of all rows, and the types that they refer to.
const DOCUMENT: &str = include_str!("openapi/openapi.json");
/// The public listener at its default address.
const PUBLIC: &str = "http://127.0.0.1:8080";
/// The statuses of requests with a body. The file has every other status that any request may have under its number, too.
const OF_BODIES: [&str; 3] = ["408", "413", "415"];
/// The statuses of requests that are asked for a token.
const OF_TOKENS: [&str; 2] = ["401", "403"];

/// The documents that were made, each with its reader. There are as many as sets of verbs that are granted.
static MADE: Mutex<Vec<(Option<PublicVerbs>, Bytes)>> = Mutex::new(Vec::new());

/// Answers with the document: for a client with the paths that its verbs grant, for an operator with all paths.
pub(super) async fn document(
    rows: &[Row],
    asked: AdmittedRequest<'_>,
) -> Result<HttpResponse, RequestRefusal> {
    let client = asked.configuration.is_none().then_some(asked.verbs);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, text)) = made.iter().find(|(reader, _)| *reader == client) {
        return Ok(answer::of_json(text.clone()));
    }
    // Made once: it takes some milliseconds, and a client may ask as often as it likes.
    let document = described(rows, client).ok_or_else(|| {
        RefusalKind::Internal.because("the description of the paths is not complete")
    })?;
    let text = Bytes::from(printable::json(&document.to_string()).into_owned());
    made.push((client, text.clone()));
    Ok(answer::of_json(text))
}

/// The document; `None` if the file does not describe each row.
fn described(rows: &[Row], client: Option<PublicVerbs>) -> Option<Value> {
    let mut document: Value = serde_json::from_str(DOCUMENT).ok()?;
    *document.pointer_mut("/info/version")? = env!("CARGO_PKG_VERSION").into();
    let responses = document.pointer("/components/responses")?.as_object()?;
    let statuses: Vec<_> = responses.keys().filter(|name| name.starts_with(['4', '5'])).collect();
    let mut paths = Map::new();
    for row in rows {
        if !client.is_none_or(|verbs| row.public.admits(verbs)) {
            continue;
        }
        let method = row.method.as_str().to_ascii_lowercase();
        let operation = document.get("paths")?.get(row.path)?.get(&method)?.as_object()?;
        let operation = completed(operation.clone(), row, &statuses, client.is_none())?;
        let path = paths.entry(row.path).or_insert_with(|| json!({}));
        path.as_object_mut()?.insert(method, operation.into());
    }
    document["paths"] = paths.into();
    drop_unused(&mut document)?;
    Some(document)
}

/// An operation with the verb and the role that it needs, the statuses that every request may have, and the listener that
/// answers it.
fn completed(
    mut operation: Map<String, Value>,
    row: &Row,
    statuses: &[&String],
    is_for_operator: bool,
) -> Option<Map<String, Value>> {
    let has_body = operation.contains_key("requestBody");
    let is_open = operation.contains_key("security");
    let responses = operation.get_mut("responses")?.as_object_mut()?;
    for status in statuses {
        let is_of_body = OF_BODIES.contains(&status.as_str());
        let is_of_token = OF_TOKENS.contains(&status.as_str());
        if (has_body || !is_of_body) && !(is_open && is_of_token) {
            let reference = format!("#/components/responses/{status}");
            responses.entry(status.as_str()).or_insert_with(|| json!({"$ref": reference}));
        }
    }
    let mut description = operation.get("description")?.as_str()?.to_owned();
    if let PublicUse::Granted(verb) = row.public {
        description += &format!(" The public listener asks for the verb `{}`.", verb.name());
    }
    if is_for_operator && let Some(role) = row.admin {
        description += &format!(" The admin listener asks for the role `{}`.", role.name());
    }
    operation.insert("description".to_owned(), description.into());
    if is_for_operator && row.admin.is_none() && !row.is_open() {
        let server = json!({"url": PUBLIC, "description": "The public listener, by default"});
        operation.insert("servers".to_owned(), json!([server]));
    }
    Some(operation)
}

/// Drops the components that no path refers to, so that a client reads nothing about operators.
fn drop_unused(document: &mut Value) -> Option<()> {
    let mut used = BTreeSet::new();
    let mut unread = vec![document.get("paths")?];
    while let Some(value) = unread.pop() {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str)
            && used.insert(reference.to_owned())
        {
            unread.push(document.pointer(reference.strip_prefix('#')?)?);
        }
        unread.extend(value.as_object().into_iter().flat_map(Map::values));
        unread.extend(value.as_array().into_iter().flatten());
    }
    let components = document.get_mut("components")?.as_object_mut()?;
    for (kind, all) in components.iter_mut().filter(|(kind, _)| *kind != "securitySchemes") {
        all.as_object_mut()?
            .retain(|name, _| used.contains(&format!("#/components/{kind}/{name}")));
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::ValueEnum;

    use super::*;
    use crate::http::routes::ROWS;

    const PAGE: &str = include_str!("../../../../docs/http.md");

    fn paths(document: &Value) -> BTreeSet<(String, String)> {
        let paths = document["paths"].as_object().unwrap();
        let each = paths.iter().flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(|method| (path.clone(), method.to_uppercase()))
        });
        each.collect()
    }

    #[test]
    fn each_row_is_described_and_nothing_else() {
        let rows = ROWS.iter().map(|row| (row.path.to_owned(), row.method.to_string()));
        let rows: BTreeSet<_> = rows.collect();
        let file = serde_json::from_str(DOCUMENT).unwrap();
        assert_eq!(paths(&file), rows);
        assert_eq!(paths(&described(&ROWS, None).unwrap()), rows);
    }

    #[test]
    fn each_reference_leads_somewhere_and_each_component_is_used() {
        let file: Value = serde_json::from_str(DOCUMENT).unwrap();
        // A reference that leads nowhere makes no document.
        assert_eq!(described(&ROWS, None).unwrap()["components"], file["components"]);
    }

    #[test]
    fn each_field_has_its_meaning_and_an_example() {
        let document = described(&ROWS, None).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap().values();
        let fields = schemas.filter_map(|schema| schema["properties"].as_object()).flatten();
        let mut read = 0;
        for (name, field) in fields {
            let meant = match field["$ref"].as_str() {
                Some(reference) => document.pointer(&reference[1..]).unwrap(),
                None => field,
            };
            assert!(field.get("description").or(meant.get("description")).is_some(), "{name}");
            let shows = ["examples", "enum", "properties", "allOf", "items"];
            let shows = shows.iter().any(|part| meant.get(part).is_some());
            assert!(shows || meant["type"] == "boolean", "{name}: {field}");
            read += 1;
        }
        assert!(read > 150, "{read}");
    }

    #[test]
    fn each_problem_is_in_the_description_of_its_status() {
        let document = described(&ROWS, None).unwrap();
        let mut texts: BTreeMap<&str, String> = BTreeMap::new();
        for path in document["paths"].as_object().unwrap().values().filter_map(Value::as_object) {
            let responses =
                path.values().filter_map(|operation| operation["responses"].as_object());
            for (status, response) in responses.flatten() {
                let response = response["$ref"]
                    .as_str()
                    .map_or(response, |reference| document.pointer(&reference[1..]).unwrap());
                *texts.entry(status).or_default() += response["description"].as_str().unwrap();
            }
        }
        texts.insert("405", document["info"]["description"].as_str().unwrap().to_owned());
        texts.insert("404", texts["404"].clone() + &texts["405"]);
        for kind in RefusalKind::value_variants() {
            let document = kind.because("").document();
            let problem: Value = serde_json::from_slice(&document).unwrap();
            let (_, name) = problem["type"].as_str().unwrap().rsplit_once(':').unwrap();
            let text = &texts[problem["status"].to_string().as_str()];
            assert!(text.contains(&format!("`{name}`")), "{problem}");
        }
    }

    #[test]
    fn the_page_has_each_path_and_no_other() {
        let rows = PAGE.lines().filter(|line| line.starts_with("| `"));
        let requests = rows.flat_map(|row| row.split('`')).filter_map(|part| {
            let (method, path) = part.split_once(" /")?;
            let is_method = method.bytes().all(|byte| byte.is_ascii_uppercase());
            is_method.then(|| (format!("/{path}"), method.to_owned()))
        });
        let mut requests: BTreeSet<_> = requests.collect();
        // The listener of probes has two paths, and no document.
        requests.retain(|(path, _)| path != "/livez" && path != "/readyz");
        assert_eq!(requests, paths(&described(&ROWS, None).unwrap()));
    }
}
