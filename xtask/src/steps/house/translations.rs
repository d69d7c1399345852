//! The rule of translations: a Chinese page has the parts, commands and rows of tables of the English one.

use std::path::{Path, PathBuf};

use super::markdown::{self, Block};
use super::{Findings, House};
use crate::tree::SourceFile;

const ENGLISH: &str = "README.md";
pub(super) const CHINESE: &str = "README.zh-CN.md";
/// Pages below are translations of the pages at the same paths below its parent.
pub(super) const TRANSLATED: &str = "docs/zh";
/// The largest size of a README in bytes: strangers read it before they decide to read on.
const README_BYTES: usize = 8_192;

/// Compares both READMEs, and each page of `docs/zh` with its original.
pub(super) fn check(house: &House<'_>) -> Findings {
    judge(&house.files).into()
}

fn judge(files: &[SourceFile]) -> Vec<String> {
    let find = |path: &Path| files.iter().find(|file| file.path == path);
    let mut complaints = Vec::new();
    for (english, chinese) in pairs(files) {
        match (find(&english), find(&chinese)) {
            (Some(english), Some(chinese)) => complaints.extend(compare(english, chinese)),
            (found, _) => {
                let missing = if found.is_none() { english } else { chinese };
                complaints.push(format!("{} is missing", missing.display()));
            }
        }
    }
    let readmes = [ENGLISH, CHINESE].into_iter().filter_map(|path| find(Path::new(path)));
    for long in readmes.filter(|file| file.text.len() > README_BYTES) {
        let (path, bytes) = (long.path.display(), long.text.len());
        complaints.push(format!(
            "{path}: {bytes} bytes, {README_BYTES} at most; move parts into the book"
        ));
    }
    complaints
}

/// The paths of each original and its translation.
fn pairs(files: &[SourceFile]) -> Vec<(PathBuf, PathBuf)> {
    let docs = Path::new(TRANSLATED).parent().unwrap_or(Path::new(""));
    let below = files.iter().filter_map(|file| {
        let path = file.path.strip_prefix(TRANSLATED).ok()?;
        Some((docs.join(path), file.path.clone()))
    });
    std::iter::once((ENGLISH.into(), CHINESE.into())).chain(below).collect()
}

fn compare(english: &SourceFile, chinese: &SourceFile) -> Vec<String> {
    let (one, other) = (english.path.display(), chinese.path.display());
    let (english, chinese) = (markdown::read(&english.text), markdown::read(&chinese.text));
    let mut complaints = Vec::new();
    let levels = |document: &markdown::Document<'_>| -> Vec<usize> {
        document.headings.iter().map(|(level, _)| *level).collect()
    };
    let (left, right) = (levels(&english), levels(&chinese));
    if left != right {
        complaints.push(format!(
            "the headings differ (levels {left:?} in {one}, {right:?} in {other}): \
             translate the parts that are missing"
        ));
    }
    complaints.extend(tables(&english, &chinese).map(|difference| {
        format!("the tables of {one} and {other} differ in what their rows are about: {difference}")
    }));
    let (many, few) = (english.blocks.len(), chinese.blocks.len());
    if many != few {
        complaints.push(format!("{many} code blocks in {one}, {few} in {other}"));
    }
    let pairs = english.blocks.iter().zip(&chinese.blocks);
    complaints.extend(pairs.filter(|(one, other)| code(one) != code(other)).map(
        |(left, right)| {
            format!(
                "{one}:{} and {other}:{}: the code differs; only comments may be translated",
                left.line, right.line
            )
        },
    ));
    complaints
}

/// The first row of tables whose first cell has other code than the translation.
fn tables(english: &markdown::Document<'_>, chinese: &markdown::Document<'_>) -> Option<String> {
    let (left, right) = (rows(english), rows(chinese));
    let at = (0..left.len().max(right.len())).find(|&at| left.get(at) != right.get(at))?;
    let row = |rows: &[Vec<&str>]| rows.get(at).map_or("no row".to_owned(), |row| row.join(", "));
    Some(format!("`{}` and `{}`", row(&left), row(&right)))
}

/// The code in the first cell of each row: fields, flags, metrics.
fn rows<'a>(document: &markdown::Document<'a>) -> Vec<Vec<&'a str>> {
    let cells = document.prose.iter().filter_map(|(_, line)| line.strip_prefix('|'));
    let first = cells.map(|cells| cells.split('|').next().unwrap_or_default());
    first.map(|cell| cell.split('`').skip(1).step_by(2).collect()).collect()
}

/// The commands and output in the block, without comments and empty lines.
fn code<'a>(block: &Block<'a>) -> Vec<&'a str> {
    let mark = match block.language.split(',').next().unwrap_or_default() {
        "rust" | "lua" | "json" | "js" | "proto" | "go" => "//",
        "text" | "" => return block.lines.clone(),
        _ => "#",
    };
    let lines = block.lines.iter().map(|line| without_comment(line, mark).trim_end());
    std::iter::once(block.language).chain(lines.filter(|line| !line.is_empty())).collect()
}

/// A comment begins at the start of the line or after a blank: `http://` contains none.
fn without_comment<'a>(line: &'a str, mark: &str) -> &'a str {
    let begins = |at: &usize| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    let comment = line.match_indices(mark).map(|(at, _)| at).find(begins);
    comment.map_or(line, |at| &line[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    fn complaints(english: &str, chinese: &str) -> Vec<String> {
        judge(&[file(ENGLISH, english), file(CHINESE, chinese)])
    }

    /// Each pair of pages, and the end or the beginning of each complaint.
    #[test]
    fn what_differs_but_for_the_words_is_found_where_it_is() {
        let english = "# A\n| field | value |\n| --- | --- |\n| `a` | one |\n| `b` | two |\n";
        let chinese = "# 一\n| 字段 | 取值 |\n| --- | --- |\n| `a` | 一 |\n";
        for (english, chinese, expected) in [
            (
                "# A\n```sh\nls\n```\n",
                "# 一\n\n```sh\nls -l\n```\n",
                &["README.md:2 and README.zh-CN.md:3"][..],
            ),
            ("# A\n## B\n```sh\nls\n```\n", "# 一\n", &["", ""]),
            (english, english, &[]),
            (english, chinese, &["`b` and `no row`"]),
            // Output has no comments.
            ("```text\na # 1\n```\n", "```text\na # 2\n```\n", &[""]),
        ] {
            let found = complaints(english, chinese);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            let mut parts = found.iter().zip(expected);
            assert!(parts.all(|(found, part)| found.contains(part)), "{found:?}");
        }
    }

    #[test]
    fn a_page_is_compared_with_the_one_at_its_path() {
        let pages = [
            file(ENGLISH, ""),
            file(CHINESE, ""),
            file("docs/a/b.md", "# A\n"),
            file("docs/zh/a/b.md", "# 一\n## 二\n"),
            file("docs/zh/c.md", ""),
        ];
        let found = judge(&pages);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("docs/zh/a/b.md"), "{found:?}");
        assert_eq!(found[1], "docs/c.md is missing");
    }

    #[test]
    fn a_readme_that_is_too_long_is_found() {
        let long = "a".repeat(README_BYTES);
        assert!(complaints(&long, &long).is_empty());
        let found = complaints(&format!("{long}a"), &long);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("README.md: 8193 bytes"), "{found:?}");
    }
}
