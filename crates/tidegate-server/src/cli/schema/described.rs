//! The meaning, default and example of each field, from the documents that people read: the tables of the page of all
//! fields, and the file of `tidegate init`.

use serde_json::Value;

/// A copy of the page would differ from it one day, so this is a link to it.
const PAGE: &str = include_str!("../../configuration.md");
const INIT: &str = include_str!("../../init.toml");

/// The meaning of a field.
pub(super) struct FieldMeaning {
    /// Its text, with the default.
    pub(super) text: String,
    pub(super) default: Option<Value>,
}

/// The meaning of a field or a section in a section of the file, such as `limit` in `rule.override`. A field of a table
/// that is the value of a field has the meaning of that field.
pub(super) fn meaning(section: &str, name: &str) -> Option<FieldMeaning> {
    of_row(section, name).or_else(|| of_section(section, name)).or_else(|| {
        let (outer, field) = section.rsplit_once('.')?;
        Some(FieldMeaning { default: None, ..of_row(outer, field)? })
    })
}

/// The text of a section of the page, after its header.
fn section(place: &str) -> Option<&'static str> {
    PAGE.split("\n## `").skip(1).find_map(|section| {
        let (header, text) = section.split_once('`')?;
        (header.trim_matches(['[', ']']) == place).then_some(text)
    })
}

/// The meaning in the row of a field.
fn of_row(place: &str, name: &str) -> Option<FieldMeaning> {
    let rows = section(place)?.lines().filter(|line| line.starts_with("| `"));
    let mut rows = rows.map(|row| row.split('|').map(str::trim).skip(1));
    let quoted = format!("`{name}`");
    let mut cells = rows.find_map(|mut cells| cells.next()?.contains(&quoted).then_some(cells))?;
    let value = plain(cells.next()?);
    let default = plain(cells.next().unwrap_or_default());
    let text = match default.as_str() {
        "" => value,
        required if required.starts_with("required") => format!("{value}\n\n{required}"),
        _ => format!("{value}\n\nDefault: {default}"),
    };
    // A number has commas in a text, and a default with words around it is not a value.
    let written = default.trim_matches('`');
    let number = written.replace(',', "");
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let default = of_line(&format!("v = {}", if is_number { &number } else { written }));
    Some(FieldMeaning { text, default: default.map(|(_, value)| value) })
}

/// The meaning in the first paragraph of a section.
fn of_section(outer: &str, name: &str) -> Option<FieldMeaning> {
    let place = format!("{outer}.{name}");
    let text = section(place.trim_start_matches('.'))?.trim_start();
    let paragraph = text.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    Some(FieldMeaning { text: plain(paragraph.trim_start_matches(": ")), default: None })
}

/// A text of the page without the targets of its links, which lead nowhere in an editor.
fn plain(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some(start) = plain.rfind('[') {
            plain.remove(start);
        }
        plain.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    plain
}

/// The values of a field in the file of `tidegate init`, also in its comments; for an override also the values of a rule.
pub(super) fn examples(section: &str, name: &str) -> Vec<Value> {
    let mut place = "";
    let mut found = Vec::new();
    for line in INIT.lines() {
        let line = line.trim_start_matches("# ");
        if line.starts_with('[') {
            place = line.trim_matches(['[', ']']);
        } else if let Some((field, value)) = of_line(line)
            && place == section
            && field == name
        {
            found.push(value);
        }
    }
    match section.rsplit_once('.') {
        Some((outer, _)) if found.is_empty() => examples(outer, name),
        _ => found,
    }
}

/// The field of a line, and its value.
fn of_line(line: &str) -> Option<(String, Value)> {
    let fields: serde_json::Map<_, _> = toml::from_str(line).ok()?;
    fields.into_iter().next()
}
