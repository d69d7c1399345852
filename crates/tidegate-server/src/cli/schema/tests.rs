//! The schema and the reader judge alike, and every example of the project is valid by the schema.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use boon::{Compiler, SchemaIndex, Schemas};

use super::*;
use crate::cli::tests::pages::{RULE, blocks, texts};

/// A schema that can be asked.
struct Validator {
    schemas: Schemas,
    index: SchemaIndex,
}

impl Validator {
    /// Compiles the schema, which its draft must allow.
    fn of(schema: &Value) -> Self {
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.add_resource("schema.json", schema.clone()).unwrap();
        let index = compiler.compile("schema.json", &mut schemas).unwrap();
        Self { schemas, index }
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        self.schemas.validate(value, self.index).map_err(|error| error.to_string())
    }

    fn check_text(&self, text: &str) -> Result<(), String> {
        self.check(&toml::from_str(text).unwrap())
    }
}

#[test]
fn every_configuration_of_the_project_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all: Vec<_> = [
        "examples/rules.toml",
        "crates/tidegate-server/example.toml",
        "crates/tidegate-server/src/init.toml",
        "crates/tidegate/tests/config/right/full.toml",
        "packaging/compose/rules.toml",
    ]
    .map(|file| (file.into(), fs::read_to_string(root.join(file)).unwrap()))
    .into();
    for (path, text) in texts() {
        for block in blocks(&text, "toml") {
            let rule = if block.contains("[[rule]]") { "" } else { RULE };
            if !block.contains("[dependencies]") {
                all.push((path.clone(), format!("{block}{rule}")));
            }
        }
    }
    assert!(all.len() > 40, "only {} configurations were found", all.len());
    let validator = Validator::of(&schema());
    for (path, text) in all {
        assert_eq!(validator.check_text(&text), Ok(()), "{}:\n{text}", path.display());
    }
}

/// Each table of the schema, with its place.
fn tables<'s>(place: &str, schema: &'s Value, found: &mut Vec<(String, &'s Value)>) {
    let Some(fields) = schema["properties"].as_object() else { return };
    found.push((place.to_owned(), schema));
    for (name, field) in fields {
        let alternatives = field["anyOf"].as_array().into_iter().flatten();
        for inner in [field, &field["items"]].into_iter().chain(alternatives) {
            tables(&format!("{place}.{name}"), inner, found);
        }
    }
}

#[test]
fn every_field_has_a_meaning_and_an_example_that_is_valid() {
    let schema = schema();
    let mut found = Vec::new();
    tables("", &schema, &mut found);
    let mut fields = 0;
    for (place, table) in found {
        for (name, field) in table["properties"].as_object().unwrap() {
            let text = field["description"].as_str().unwrap_or_default();
            assert!(
                text.len() > 3 && !text.contains("](") && !text.starts_with('|'),
                "{place}.{name}: {text}"
            );
            let validator = Validator::of(field);
            let examples = field["examples"].as_array().into_iter().flatten();
            for example in examples.chain(field.get("default")) {
                assert_eq!(validator.check(example), Ok(()), "{place}.{name}");
            }
            fields += 1;
            let is_inner = ["on_excess", "lease"].iter().any(|outer| place.ends_with(outer));
            let is_table =
                ["rule", "override", "memory", "store", "server"].contains(&name.as_str());
            assert!(is_inner || is_table || field["examples"].is_array(), "{place}.{name}");
        }
    }
    assert!(fields > 90, "{fields}");
}

/// A file with one field of a section, and what the section needs.
fn with(section: &str, field: &str, value: &str) -> String {
    let line = format!("{field} = {value}\n");
    match section {
        "" => format!("{line}{RULE}"),
        "[[rule]]" => {
            let name = if field == "name" { "" } else { "name = \"a\"\n" };
            let rate = match field {
                "rate" => "",
                "limit" => "window = \"1s\"\n",
                "window" => "limit = 1\n",
                _ => "rate = \"1/s\"\n",
            };
            format!("[[rule]]\n{name}{rate}{line}")
        }
        "[[rule.override]]" => {
            let other =
                if field == "match" { "rate = \"2/s\"\n" } else { "match = { a = \"b\" }\n" };
            format!(
                "[[rule]]\nname = \"a\"\nrate = \"1/s\"\nkey = [\"a\"]\n[[rule.override]]\n{other}{line}"
            )
        }
        "[store]" if field != "url" => {
            format!("[store]\nurl = \"rediss+sentinel://a:1/b\"\n{line}{RULE}")
        }
        _ => format!("{section}\n{line}{RULE}"),
    }
}

/// Returns whether the reader accepts a text.
fn accepts(text: &str) -> bool {
    sources::parse(&serve::command(), "test", text).is_ok()
}

/// Values of every type, and next to the bounds of fields.
const VALUES: &str = r#"true; -2; -1; 0; 1; 5; 1_000; 1_001; 1_024; 1_025; 100_000; 100_001; 1_000_000; 1_000_001;
1_000_000_000; 1_000_000_001; 4_294_967_295; 4_294_967_296; 0.5; 1.5; 1970-01-01; ""; "1"; "a";
"10ms"; "1.5s"; "10"; "64MiB"; "64MB"; "5/s"; "off"; "OFF"; "[fe80::1%1]:1"; "[fe80::1%eth0]:1";
"127.0.0.1:1"; "[::1]:1"; "localhost:1"; "redis://a"; "http://a"; "enforce"; "auto"; []; ["a"];
[1]; {}; { a = "b" }; { a = 1 }; { wait = "1s", max_waiters = 1 }; { wait = "1s" };
{ max = "10%" }; { max = "101%" }"#;

#[test]
fn each_value_that_the_schema_refuses_is_refused_by_the_reader() {
    let schema = schema();
    let validator = Validator::of(&schema);
    let mut tried = 0;
    let mut kept = 0;
    for (section, fields) in [
        ("", &schema),
        ("[[rule]]", &schema["properties"]["rule"]["items"]),
        (
            "[[rule.override]]",
            &schema["properties"]["rule"]["items"]["properties"]["override"]["items"],
        ),
        ("[memory]", &schema["properties"]["memory"]),
        ("[store]", &schema["properties"]["store"]),
        ("[server]", &schema["properties"]["server"]),
    ] {
        let fields = fields["properties"].as_object().unwrap();
        let unknown = "unknown".to_owned();
        for field in fields.keys().chain([&unknown]) {
            for value in VALUES.split(';').map(str::trim) {
                let text = with(section, field, value);
                let Ok(file) = toml::from_str::<Value>(&text) else { continue };
                let by_schema = validator.check(&file).is_ok();
                let by_reader = accepts(&text);
                assert!(by_schema || !by_reader, "the reader accepts\n{text}");
                if by_schema != by_reader {
                    println!("{section} {field} = {value}");
                    kept += 1;
                }
                tried += 1;
            }
        }
    }
    assert!(tried > 3_000 && kept * 20 < tried, "{kept} of {tried}");
}

#[test]
fn an_address_is_valid_by_the_schema_wherever_the_reader_takes_it() {
    let validator = Validator::of(&schema());
    for (value, is_valid) in [
        ("off", true),
        ("OFF", true),
        ("Off", true),
        ("[fe80::1%1]:8080", true),
        ("[fe80::1%eth0]:8080", false),
        ("off:8080", false),
    ] {
        let text = format!("[server]\nadmin = \"{value}\"{RULE}");
        assert_eq!(validator.check_text(&text).is_ok(), is_valid, "{value}");
        assert_eq!(accepts(&text), is_valid, "{value}");
    }
}

#[test]
fn mistakes_are_refused() {
    let validator = Validator::of(&schema());
    for wrong in [
        "",
        "rule = []",
        "rule = 5",
        "[rule]\nname = \"a\"\nrate = \"1/s\"",
        "[[rules]]\nname = \"a\"\nrate = \"1/s\"",
        "[[rule]]\nrate = \"1/s\"",
        "[[rule]]\nname = \"a\"",
        "[[rule]]\nname = \"a\"\nlimit = 5",
        "[[rule]]\nname = \"a\"\nlimit = 5\nrate = \"1/s\"",
        "[[rule]]\nname = \"Upper\"\nrate = \"1/s\"",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\nlimt = 5",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\nalgorithm = \"sliding\"",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\nmode = true",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\nnear = 1.1",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\nkey = \"user\"",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\nwhen = { a = 1 }",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\nbuckets = 1_001",
        "[[rule]]\nname = \"a\"\nlimit = 1_000_000_001\nwindow = \"1s\"",
        "[[rule]]\nname = \"a\"\nlimit = 1\nwindow = 60",
        "[[rule]]\nname = \"a\"\nlimit = 1\nwindow = \"60 s\"",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\non_excess = { wait = \"1s\" }",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\nlease = \"always\"",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\n[[rule.override]]\nlimit = 5",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\n[[rule.override]]\nmatch = { a = \"b\" }",
        "[[rule]]\nname = \"a\"\nrate = \"1/s\"\n[[rule.override]]\nmatch = { a = \"b\" }\nmode = \"off\"",
    ] {
        assert!(validator.check_text(wrong).is_err(), "{wrong}");
        assert!(!accepts(wrong), "{wrong}");
    }
    for wrong in [
        "revision = 0",
        "reset = \"minutes\"",
        "on_no_rule = { pay = \"deny\" }",
        "[memory]",
        "[store]\ntimeout = \"10ms\"",
        "[store]\nurl = \"localhost:6379\"",
        "[store]\nurl = \"redis://a\"\nnodes = 0",
        "[server]\nhttp = 8080",
        "[server]\nthreads = 1_025",
        "[server]\nlog_level = \"loud\"",
        "[server]\npublic_verbs = [\"delete\"]",
        "[server]\nhtpp = \"off\"",
        "[serve]\nhttp = \"off\"",
    ] {
        let wrong = format!("{wrong}{RULE}");
        assert!(validator.check_text(&wrong).is_err(), "{wrong}");
        assert!(!accepts(&wrong), "{wrong}");
    }
}
