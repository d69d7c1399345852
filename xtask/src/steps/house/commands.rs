//! The rule of commands: every command in a page exists.
//!
//! The lines that run `tidegate` and `cargo xtask` are held by tests next to their command lines.

use std::path::Path;

use super::{Findings, House, markdown};
use crate::tree::SourceFile;

/// Programs that pages may run; any other name is probably misspelt.
const PROGRAMS: &str =
    "cargo tidegate ./target/release/tidegate curl envoy grpcurl openssl python3 redis-cli";

/// Looks at the shell lines of every document.
pub(super) fn check(house: &House<'_>) -> Findings {
    let packages: Vec<_> = house.metadata.packages.iter().map(|one| one.name.as_str()).collect();
    judge(&house.files, &packages).into()
}

fn judge(files: &[SourceFile], packages: &[&str]) -> Vec<String> {
    let mut complaints = Vec::new();
    for page in files.iter().filter(|file| file.is("md")) {
        for block in markdown::read(&page.text).blocks.iter().filter(|block| block.language == "sh")
        {
            for (at, words) in commands(&block.lines) {
                let place = || format!("{}:{}", page.path.display(), block.line + 1 + at);
                let fault = fault(&words, files, packages);
                complaints.extend(fault.map(|fault| format!("{}: {fault}", place())));
            }
        }
    }
    complaints
}

/// The words of each command, with the number of its line; comments, values of the environment and continuations of
/// lines are left out.
fn commands<'a>(lines: &[&'a str]) -> Vec<(usize, Vec<&'a str>)> {
    // An indented line is the rest of a word in quotes.
    let continues = |at: usize| {
        at > 0 && (lines[at - 1].trim_end().ends_with('\\') || lines[at].starts_with(' '))
    };
    let own = lines.iter().enumerate().filter(|(at, _)| !continues(*at));
    let words = own.map(|(at, line)| {
        let line =
            if line.starts_with('#') { "" } else { line.split(" #").next().unwrap_or_default() };
        let is_value =
            |word: &&str| word.split_once('=').is_some_and(|(name, _)| is_variable(name));
        (at, line.split_whitespace().skip_while(is_value).collect::<Vec<_>>())
    });
    words.filter(|(_, words)| !words.is_empty()).collect()
}

fn is_variable(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

fn fault(words: &[&str], files: &[SourceFile], packages: &[&str]) -> Option<String> {
    let program = words[0];
    if PROGRAMS.split(' ').all(|one| one != program) {
        return Some(format!(
            "`{program}` is no program that pages run: mend it, or add it to the rule"
        ));
    }
    let after =
        |flag: &str| words.iter().position(|word| *word == flag).and_then(|at| words.get(at + 1));
    let example = after("--example").map(|name| format!("crates/tidegate/examples/{name}.rs"));
    if let Some(path) = example.filter(|path| files.iter().all(|file| file.path != Path::new(path)))
    {
        return Some(format!("there is no {path}"));
    }
    let package = after("-p").filter(|_| program == "cargo");
    let unknown = package.filter(|name| !packages.contains(name));
    unknown.map(|name| format!("there is no package `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    fn complaints(lines: &str) -> Vec<String> {
        let page = file("docs/a.md", &format!("# A\n```sh\n{lines}\n```\n"));
        judge(&[page, file("crates/tidegate/examples/axum.rs", "")], &["tidegate"])
    }

    #[test]
    fn a_line_that_does_not_exist_is_found_with_its_place() {
        let lines = "crul x\ncargo run --example actix\ncargo test -p tidegate-cor";
        let found = complaints(lines);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("docs/a.md:3: `crul` is no program"), "{found:?}");
        assert_eq!(found[1], "docs/a.md:4: there is no crates/tidegate/examples/actix.rs");
        assert_eq!(found[2], "docs/a.md:5: there is no package `tidegate-cor`");
    }
}
