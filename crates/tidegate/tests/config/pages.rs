//! Rules in the pages of the project: each block of TOML is a valid configuration, or a part of one.
#![cfg(feature = "redis")]

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::config;

/// A part of a configuration without rules is tried with this rule.
const RULE: &str = "\n[[rule]]\nname = \"any\"\nalgorithm = \"token_bucket\"\nrate = \"1/s\"\n";

fn pages(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| pages(&entry.unwrap().path(), found));
    } else if path.extension().is_some_and(|own| own == "md") {
        found.push(path.to_owned());
    }
}

/// The blocks of TOML in a page, without blocks of a Cargo.toml, and without blocks with a section of the server, which
/// its own tests check.
fn blocks(text: &str) -> Vec<&str> {
    let all = text.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let is_other = |block: &&str| block.contains("[dependencies]") || block.contains("[server]");
    all.filter(|block| !is_other(block)).collect()
}

#[test]
fn every_configuration_in_a_page_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for path in ["README.md", "README.zh-CN.md", "docs"] {
        pages(&root.join(path), &mut found);
    }
    let (mut tried, mut wrong) = (0, Vec::new());
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        for block in blocks(&text) {
            let has_rule = block.contains("[[rule]]");
            let whole = format!("{block}{}", if has_rule { "" } else { RULE });
            let name = path.strip_prefix(&root).unwrap().to_string_lossy().into_owned();
            wrong.extend(config::parse(&name, &whole).err().map(|errors| errors.to_string()));
            tried += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 20, "only {tried} blocks were found");
}
