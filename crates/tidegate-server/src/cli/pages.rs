//! Shell lines in the pages of the project: each that runs this program is a valid command line.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::ErrorKind;

use super::Cli;

/// The ways in which pages run the program.
const STARTS: [&str; 3] = ["tidegate ", "cargo run --release -- ", "./target/release/tidegate "];

fn pages(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| pages(&entry.unwrap().path(), found));
    } else if path.extension().is_some_and(|own| own == "md") {
        found.push(path.to_owned());
    }
}

/// The command lines of this program in a page's blocks of shell lines, without comments.
fn commands(text: &str) -> Vec<&str> {
    let blocks = text.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.split(" #").next());
    let parts = lines.flat_map(|line| line.split(['|', '&', ';'])).map(str::trim);
    parts.filter_map(|part| STARTS.iter().find_map(|start| part.strip_prefix(start))).collect()
}

#[test]
fn every_command_line_in_a_page_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for path in ["README.md", "README.zh-CN.md", "CONTRIBUTING.md", "docs"] {
        pages(&root.join(path), &mut found);
    }
    let (mut tried, mut wrong) = (0, Vec::new());
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        for command in commands(&text) {
            let words = std::iter::once("tidegate").chain(command.split_whitespace());
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
