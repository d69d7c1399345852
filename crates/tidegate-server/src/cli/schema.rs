//! `tidegate schema` prints a JSON Schema of the configuration file, for editors. The fields and their kinds are the
//! reader's own, `[server]` has the flags of `serve`, and meanings and examples come from the documents.

mod described;

use std::process::ExitCode;

use clap::{Arg, Command};
use serde_json::{Value, json};
use tidegate::config::{self, FieldKinds, SectionKind, ValueKind};

use super::{serve, sources};
use crate::failure::Failure;
use crate::stdout;
use described::{examples, meaning};

/// Print a JSON Schema of the configuration file, for editors
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:  tidegate schema > tidegate.schema.json",
    after_long_help = "By it editors complete fields, show their meaning, and mark mistakes. It does
not know which values fit each other: `tidegate check` does.

Example:
  tidegate schema > tidegate.schema.json
  and as the first line of the configuration: #:schema ./tidegate.schema.json"
)]
pub(crate) struct SchemaArgs {}

/// Prints the schema.
pub(crate) fn run(_: &SchemaArgs) -> Result<ExitCode, Failure> {
    stdout::print(&format!("{:#}\n", schema()))?;
    Ok(ExitCode::SUCCESS)
}

/// The schema of a whole file.
fn schema() -> Value {
    let mut file = table("", config::kinds());
    let server = serve::command();
    let fields = sources::fields(&server).map(|(name, flag)| {
        let schema = of_flag(&server, flag);
        (name.clone(), described("server", &name, schema))
    });
    let section = json!({
        "type": "object",
        "properties": fields.collect::<serde_json::Map<_, _>>(),
        "additionalProperties": false,
    });
    file["properties"]["server"] = described("", "server", section);
    file["properties"]["rule"]["minItems"] = json!(1);
    file["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    file["title"] = json!("Configuration of Tidegate");
    file
}

/// The schema of a table. `section` is its place, such as `rule.override`.
fn table(section: &str, fields: FieldKinds) -> Value {
    let mut properties = serde_json::Map::new();
    for (name, kind) in fields {
        let place = if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") };
        properties.insert(name.to_owned(), described(section, name, of_kind(&place, kind)));
    }
    let mut table = conditions(section);
    table["type"] = json!("object");
    table["properties"] = properties.into();
    table["additionalProperties"] = json!(false);
    table
}

/// The fields that a table needs, or cannot have together.
fn conditions(section: &str) -> Value {
    let not_with_rate =
        json!({"anyOf": [{"required": ["rate", "limit"]}, {"required": ["rate", "window"]}]});
    match section {
        "" => json!({"required": ["rule"]}),
        "rule" => json!({
            "required": ["name"],
            "anyOf": [
                {"required": ["rate"]},
                {"required": ["limit", "window"]},
                {"required": ["limit"], "properties": {"limit": {"enum": [-1, 0]}}},
            ],
            "not": not_with_rate,
        }),
        "rule.override" => json!({
            "required": ["match"],
            "anyOf": [
                {"required": ["limit"]},
                {"required": ["window"]},
                {"required": ["capacity"]},
                {"required": ["rate"]},
            ],
            "not": not_with_rate,
        }),
        "rule.on_excess" => json!({"required": ["wait", "max_waiters"]}),
        "memory" => json!({"minProperties": 1}),
        "store" => json!({"required": ["url"]}),
        _ => json!({}),
    }
}

/// A schema with the meaning, the default and an example of its field.
fn described(section: &str, name: &str, mut schema: Value) -> Value {
    let Some(meaning) = meaning(section, name) else { return schema };
    schema["description"] = meaning.text.into();
    if let Some(default) = meaning.default {
        schema["default"] = default;
    }
    let examples = examples(section, name);
    if !examples.is_empty() {
        schema["examples"] = examples.into();
    }
    schema
}

/// The schema of a value at this place.
fn of_kind(place: &str, kind: ValueKind) -> Value {
    match kind {
        ValueKind::Pattern(pattern) => json!({"type": "string", "pattern": pattern}),
        ValueKind::Flag => json!({"type": "boolean"}),
        ValueKind::Whole(least, most) => whole(least, most),
        ValueKind::Fraction => json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
        ValueKind::Names(names) => json!({"type": "string", "enum": names()}),
        ValueKind::Texts => json!({"type": "array", "items": {"type": "string"}}),
        ValueKind::Entries(kind) => {
            json!({"type": "object", "additionalProperties": of_kind(place, *kind)})
        }
        ValueKind::Table(fields) => table(place, fields()),
        ValueKind::Tables(fields) => {
            json!({"type": "array", "items": table(place, fields())})
        }
        ValueKind::Either(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(|kind| of_kind(place, *kind)).collect();
            json!({ "anyOf": kinds })
        }
        _ => json!({"type": "string"}),
    }
}

fn whole(least: i64, most: u64) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": most})
}

/// The schema of the field of a flag.
fn of_flag(command: &Command, flag: &Arg) -> Value {
    match sources::kind(flag) {
        SectionKind::Flag => json!({"type": "boolean"}),
        SectionKind::Number => {
            let least = i64::from(!accepts(command, flag, "0"));
            whole(least, most(|number| accepts(command, flag, &number.to_string())))
        }
        SectionKind::List => json!({"type": "array", "items": of_text(command, flag)}),
        _ => of_text(command, flag),
    }
}

/// An IP address and a port. The zone of an IPv6 address is a number, because the reader looks no name up.
const ADDRESS: &str = "^(\\[[0-9A-Fa-f:.]+(%[0-9]+)?\\]|[0-9.]+):[0-9]+$";

/// The schema of a text that a flag takes.
fn of_text(command: &Command, flag: &Arg) -> Value {
    let names = flag.get_possible_values();
    if !names.is_empty() {
        let names: Vec<_> = names.iter().map(|name| name.get_name()).collect();
        return json!({"type": "string", "enum": names});
    }
    let unit = flag.get_value_names().and_then(|names| names.first());
    let kind = match unit.map(|unit| unit.as_str()) {
        Some("TIME") => ValueKind::TIME,
        Some("SIZE") => ValueKind::SIZE,
        Some("ADDR") => ValueKind::Pattern(ADDRESS),
        _ => ValueKind::Text,
    };
    let text = of_kind("server", kind);
    // A path or a name may be any text, `off` included.
    if matches!(kind, ValueKind::Pattern(_)) && accepts(command, flag, "off") {
        let off = json!({"type": "string", "enum": ["off"]});
        // The enumeration is for editors, which complete it; some readers take any case.
        if accepts(command, flag, "OFF") {
            let any_case = json!({"type": "string", "pattern": "^[Oo][Ff][Ff]$"});
            return json!({"anyOf": [off, any_case, text]});
        }
        return json!({"anyOf": [off, text]});
    }
    text
}

fn accepts(command: &Command, flag: &Arg, value: &str) -> bool {
    sources::check(command, flag.get_long().unwrap_or_default(), value.as_ref()).is_ok()
}

/// The largest accepted number, of a range that begins at 0 or 1.
fn most(accepts: impl Fn(u64) -> bool) -> u64 {
    let mut least = 1_u64;
    let mut too_large = 1 << 32;
    while too_large - least > 1 {
        let middle = least.midpoint(too_large);
        if accepts(middle) {
            least = middle;
        } else {
            too_large = middle;
        }
    }
    least
}

#[cfg(test)]
mod tests;
