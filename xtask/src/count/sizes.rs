//! Tokens, lines of code and files, of each crate and tool and of its tests.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::source::{Source, TESTS, is_product};
use super::table::Count;

/// Lines by crate and tool.
pub(super) type Lines = BTreeMap<String, usize>;

/// The counts of tokens and of files.
pub(super) fn count(sources: &[Source]) -> [Count; 2] {
    let mut tokens = Count::new("tokens", "tokens of code without comments, by crate and tool");
    let mut files = Count::new("files", "files of Rust and Lua");
    let mut lines = Lines::new();
    for source in sources {
        files.row(&source.owner(0)).value += 1;
        let starts = source.tokens.iter().map(|token| *token.lines.start());
        for (owner, value) in by_owner(source, starts) {
            tokens.row(&owner).value += value;
        }
        for (owner, value) in by_owner(source, source.code.iter().copied()) {
            *lines.entry(owner).or_default() += value;
        }
        tokens.add_place(folder(source), source.tokens.len());
    }
    for (name, row) in &mut tokens.rows {
        row.remark = format!("{} lines", lines.get(name).unwrap_or(&0));
    }
    tokens.summary = summary(&tokens, &lines);
    [tokens, files]
}

/// Counts lines by owner: code of a crate or tool, and code of its tests.
fn by_owner(source: &Source, lines: impl Iterator<Item = usize>) -> Lines {
    let mut tested = [0, 0];
    for line in lines {
        tested[usize::from(source.is_tested_on(line))] += 1;
    }
    let owners = [source.area.clone(), format!("{}{TESTS}", source.area)];
    owners.into_iter().zip(tested).filter(|(_, value)| *value > 0).collect()
}

/// The lines of Rust without tests, by crate and tool.
pub(super) fn lines(sources: &[Source]) -> Lines {
    let mut lines = Lines::new();
    for source in sources.iter().filter(|source| source.syntax.is_some()) {
        let own = source.code.iter().filter(|line| !source.is_tested_on(**line)).count();
        *lines.entry(source.area.clone()).or_default() += own;
    }
    lines
}

/// The crate and the first folder or file of its sources.
fn folder(source: &Source) -> String {
    let folder: PathBuf = source.path.with_extension("").iter().take(4).collect();
    folder.display().to_string()
}

/// The sums of product, tools and tests.
fn summary(tokens: &Count, lines: &Lines) -> String {
    let mut sums = BTreeMap::from([("product", [0, 0]), ("tools", [0, 0]), ("tests", [0, 0])]);
    for (name, row) in &tokens.rows {
        let kind = match name {
            name if name.ends_with(TESTS) => "tests",
            name if is_product(name) => "product",
            _ => "tools",
        };
        if let Some([tokens, sum]) = sums.get_mut(kind) {
            *tokens += row.value;
            *sum += lines.get(name).unwrap_or(&0);
        }
    }
    let sums =
        sums.iter().map(|(kind, [tokens, lines])| format!("{kind} {tokens} in {lines} lines"));
    sums.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::source::sources;

    #[test]
    fn product_tools_and_tests_are_counted_apart() {
        let product =
            "//! Doc.\n\nfn f() {\n    // why\n    g();\n}\n\n#[cfg(test)]\nmod tests {}\n";
        let found = sources(&[
            ("crates/tidegate/src/lib.rs", product),
            ("crates/tidegate/src/a.lua", "local a -- why\n"),
            ("crates/tidegate/tests/a.rs", "fn a() {}"),
            ("bench/src/main.rs", "fn main() {}"),
        ]);
        let [tokens, files] = count(&found);
        let rows = |count: &Count| -> Vec<_> {
            count.rows.iter().map(|(name, row)| (name.clone(), row.value)).collect()
        };
        let expected = [("bench", 6), ("tidegate", 12), ("tidegate-tests", 17)];
        assert_eq!(rows(&tokens), expected.map(|(name, value)| (name.to_owned(), value)));
        let expected = [("bench", 1), ("tidegate", 2), ("tidegate-tests", 1)];
        assert_eq!(rows(&files), expected.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(tokens.rows["tidegate"].remark, "4 lines");
        assert_eq!(
            tokens.summary,
            "product 12 in 4 lines, tests 17 in 3 lines, tools 6 in 1 lines"
        );
        assert_eq!(lines(&found), Lines::from([("bench".into(), 1), ("tidegate".into(), 3)]));
    }
}
