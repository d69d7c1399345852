//! The rule of numbers: numbers in the tables of the READMEs, and the numbers of other pages that a comment names, are
//! the numbers of the results.

use std::path::Path;

use super::{Findings, House};
use crate::numbers::{QUOTES, RESULTS, with_numbers};
use crate::tree::SourceFile;

const READMES: [&str; 2] = ["README.md", "README.zh-CN.md"];

/// Compares all pages with the page of results.
pub(super) fn check(house: &House<'_>) -> Findings {
    let mut complaints = readmes(&house.files);
    complaints.extend(house.files.iter().filter_map(|page| stale(page, &house.files)));
    complaints.into()
}

/// Numbers of the results that a README does not have.
fn readmes(files: &[SourceFile]) -> Vec<String> {
    let mut complaints = Vec::new();
    for quote in QUOTES.iter().take(6) {
        let number = match quote.number(files) {
            Ok(number) => number,
            Err(error) => {
                complaints.push(error.to_string());
                continue;
            }
        };
        for readme in
            files.iter().filter(|file| READMES.iter().any(|name| file.path == Path::new(name)))
        {
            if !has(&readme.text, &number) {
                let (path, row) = (readme.path.display(), quote.row);
                complaints.push(format!("{path}: expected {number}, of `{row}` in {RESULTS}"));
            }
        }
    }
    complaints
}

/// Why the numbers of a page are not the numbers of the results.
fn stale(page: &SourceFile, files: &[SourceFile]) -> Option<String> {
    let path = page.path.display();
    match with_numbers(page, files) {
        Ok(written) if written == page.text => None,
        Ok(_) => Some(format!("{path}: numbers differ from {RESULTS}: run `cargo xtask numbers`")),
        Err(error) => Some(format!("{path}: {error}")),
    }
}

/// Returns whether a table row of the text has this number, by itself.
fn has(text: &str, number: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || c == ',' || c == '.';
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let mut words = rows.flat_map(|row| row.split(|c| !is_part(c)));
    words.any(|word| word.trim_matches(['.', ',']) == number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    const ROWS: &str = "| 1,000,000 keys, text / `governor/String` | <= 0.5 | 0.52 | **no** | 201.9 / 390.2 |\n\
        | bytes per key, `token_bucket`, table | <= 32 | 30.3 | yes | governor/String: 101.2 |\n\
        | RESP, 16 in a pipeline | 1,388,169 | 0.7 | `INCR`, rate | 1.19 | >= 1.0 |\n";

    fn judged(readme: &str) -> Vec<String> {
        readmes(&[file("README.md", readme), file(RESULTS, ROWS)])
    }

    #[test]
    fn a_number_that_another_run_gave_is_found() {
        let found = judged("| 202 ns, 3,390 ns, 30 and 101 bytes | 1,388,169, 1.19 times |\n390\n");
        let expected = "README.md: expected 390, of `| 1,000,000 keys, text / `governor/String` |` in \
                        bench/results/performance.md";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_row_that_the_results_lost_is_found() {
        assert_eq!(readmes(&[file("README.md", "| 390 |\n"), file(RESULTS, "")]).len(), 6);
    }

    #[test]
    fn a_number_that_a_comment_names_is_written() {
        let results = file(RESULTS, ROWS);
        let page = file("docs/a.md", "<!--=text-keys-->7 ns, **<!--=resp-->1, not 2**\n");
        let files = [results];
        assert!(stale(&page, &files).is_some());
        let written = with_numbers(&page, &files).unwrap();
        assert_eq!(written, "<!--=text-keys-->202 ns, **<!--=resp-->1,388,169, not 2**\n");
        assert_eq!(stale(&file("docs/a.md", &written), &files), None);
        let unknown = stale(&file("docs/a.md", "<!--=nothing-->7"), &files).unwrap();
        assert!(unknown.ends_with("no number is called `nothing`"), "{unknown}");
    }
}
