//! Command lines and `[server]` sections in the pages of the project: each is valid.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::cli::address::Where;
use crate::cli::{Cli, serve};

/// The ways in which pages run the program.
const STARTS: [&str; 3] = ["tidegate ", "cargo run --release -- ", "./target/release/tidegate "];

/// An example section without rules is checked together with this rule.
pub(in crate::cli) const RULE: &str =
    "\n[[rule]]\nname = \"any\"\nalgorithm = \"token_bucket\"\nrate = \"1/s\"\n";

/// The path and the text of every page.
pub(in crate::cli) fn texts() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for path in ["README.md", "README.zh-CN.md", "CONTRIBUTING.md", "docs"] {
        pages(&root.join(path), &mut found);
    }
    let text = |path: PathBuf| (path.clone(), fs::read_to_string(path).unwrap());
    found.into_iter().map(text).collect()
}

fn pages(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| pages(&entry.unwrap().path(), found));
    } else if path.extension().is_some_and(|own| own == "md") {
        found.push(path.to_owned());
    }
}

/// The blocks of a language in a page.
pub(in crate::cli) fn blocks<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let start = format!("\n```{language}\n");
    let rests: Vec<_> = text.split(&*start).skip(1).collect();
    rests.into_iter().filter_map(|rest| rest.split("\n```").next()).collect()
}

/// The command lines of this program in a page's blocks of shell lines, without comments; a `\` at the end of a line
/// continues it.
fn commands(text: &str) -> Vec<String> {
    let blocks = blocks(text, "sh").into_iter().map(|block| block.replace("\\\n", ""));
    let lines = |block: String| block.lines().map(str::to_owned).collect::<Vec<_>>();
    let command = |line: String| {
        let line = line.split(" #").next().unwrap_or_default();
        let parts = line.split(['|', '&', ';']).map(str::trim);
        let own = parts.filter_map(|part| STARTS.iter().find_map(|start| part.strip_prefix(start)));
        own.map(str::to_owned).collect::<Vec<_>>()
    };
    blocks.flat_map(lines).flat_map(command).collect()
}

/// The words of a command line; spaces within single quotes separate none.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (place, part) in command.split('\'').enumerate() {
        let is_quoted = place % 2 == 1;
        for char in part.chars() {
            match words.last_mut() {
                Some(word) if is_quoted || !char.is_whitespace() => word.push(char),
                _ => words.push(String::new()),
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn every_command_line_in_a_page_is_valid() {
    let (mut tried, mut wrong) = (0, Vec::new());
    for (path, text) in texts() {
        for command in commands(&text) {
            let words = std::iter::once("tidegate".to_owned()).chain(words(&command));
            let shows = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion];
            let error =
                Cli::try_parse_from(words).err().filter(|error| !shows.contains(&error.kind()));
            wrong.extend(error.map(|error| format!("{}: {command}\n{error}", path.display())));
            tried += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 20, "only {tried} command lines were found");
}

/// The ports of the listeners of a command line that starts a server.
fn ports(command: &str) -> Option<Vec<u16>> {
    let words = std::iter::once("tidegate").chain(command.split_whitespace());
    let matches = Cli::command().try_get_matches_from(words).ok()?;
    let server = matches.subcommand_matches("serve")?;
    let at = |listener: &str| match server.get_one(listener) {
        Some(Where::At(address)) => Some(address.port()),
        _ => None,
    };
    Some(["http", "grpc", "resp", "admin"].into_iter().filter_map(at).collect())
}

#[test]
fn servers_of_one_section_share_no_port() {
    let mut several = 0;
    for (path, text) in texts() {
        for section in text.split("\n## ") {
            let servers: Vec<_> = commands(section).iter().filter_map(|line| ports(line)).collect();
            let mut ports = servers.concat();
            ports.sort_unstable();
            let taken: Vec<_> = ports.windows(2).filter(|two| two[0] == two[1]).collect();
            assert!(taken.is_empty(), "{}: {taken:?}", path.display());
            several += usize::from(servers.len() > 1);
        }
    }
    assert!(several > 0, "no page runs two servers");
}

#[test]
fn every_server_section_in_a_page_is_valid() {
    let (mut tried, mut wrong) = (0, Vec::new());
    for (path, text) in texts() {
        for block in blocks(&text, "toml") {
            if !block.contains("[server]") {
                continue;
            }
            let rule = if block.contains("[[rule]]") { "" } else { RULE };
            let mut file = tempfile::NamedTempFile::new().unwrap();
            write!(file, "{block}{rule}").unwrap();
            let error = match serve::load(file.path()) {
                Ok((_, values)) => serve::check(file.path(), &values).err().map(|failure| {
                    let mut said = String::new();
                    failure.report_to(|message| said.push_str(message));
                    said
                }),
                Err(errors) => Some(errors.to_string()),
            };
            wrong.extend(error.map(|error| format!("{}: {error}", path.display())));
            tried += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried > 0, "no section was found");
}
