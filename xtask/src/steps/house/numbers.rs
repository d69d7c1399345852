//! The rule of figures: each number in the tables of the READMEs is quoted from the page with the results of its run.

use std::path::Path;

use super::{Findings, House};
use crate::tree::SourceFile;

const READMES: [&str; 2] = ["README.md", "README.zh-CN.md"];

/// A number of a README, and the table cell that it repeats.
struct Quote {
    page: &'static str,
    /// The beginning of the table's row.
    row: &'static str,
    /// The number of the cell, counted from 1.
    cell: usize,
    /// The text in the cell before the number.
    before: &'static str,
    /// The number of decimal places that the README keeps.
    places: usize,
}

const PERFORMANCE: &str = "bench/results/performance.md";
const TEXT_KEYS: &str = "| 1,000,000 keys, text / `governor/String` |";
const BYTES: &str = "| bytes per key, `token_bucket`,";
const RESP: &str = "| RESP, 16 in a pipeline |";

/// All quoted numbers.
const QUOTES: [Quote; 6] = [
    Quote { page: PERFORMANCE, row: TEXT_KEYS, cell: 5, before: "", places: 0 },
    Quote { page: PERFORMANCE, row: TEXT_KEYS, cell: 5, before: " / ", places: 0 },
    Quote { page: PERFORMANCE, row: BYTES, cell: 3, before: "", places: 0 },
    Quote { page: PERFORMANCE, row: BYTES, cell: 5, before: ": ", places: 0 },
    Quote { page: PERFORMANCE, row: RESP, cell: 2, before: "", places: 0 },
    Quote { page: PERFORMANCE, row: RESP, cell: 5, before: "", places: 2 },
];

/// Compares the READMEs with the pages of results.
pub(super) fn check(house: &House<'_>) -> Findings {
    judge(&house.files, &QUOTES).into()
}

fn judge(files: &[SourceFile], quotes: &[Quote]) -> Vec<String> {
    let text = |path: &str| files.iter().find(|file| file.path == Path::new(path));
    let mut complaints = Vec::new();
    for quote in quotes {
        let Quote { page, row, .. } = quote;
        let Some(number) = text(page).and_then(|page| quote.number(&page.text)) else {
            complaints
                .push(format!("{page}: the row `{row}` has no number that the READMEs quote"));
            continue;
        };
        for readme in READMES {
            let is_quoted = text(readme).is_some_and(|file| has(&file.text, &number));
            if !is_quoted {
                complaints.push(format!("{readme}: expected {number}, of `{row}` in {page}"));
            }
        }
    }
    complaints
}

/// Returns whether a table row of the text has this number, by itself.
fn has(text: &str, number: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || c == ',' || c == '.';
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let mut words = rows.flat_map(|row| row.split(|c| !is_part(c)));
    words.any(|word| word.trim_matches(['.', ',']) == number)
}

impl Quote {
    /// The number as a README shows it; `None` if the page does not have it.
    fn number(&self, page: &str) -> Option<String> {
        let row = page.lines().find(|line| line.starts_with(self.row))?;
        let cell = row.split('|').nth(self.cell)?;
        let (_, after) = cell.split_once(self.before)?;
        let number = after.trim().split(' ').next()?;
        if number.contains(',') {
            return Some(number.to_owned());
        }
        let places = self.places;
        Some(format!("{:.places$}", number.parse::<f64>().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    const PAGE: &str = "| text keys | <= 0.5 | 0.52 | **no** | 201.9 / 390.2 |\n";
    const OF_GOVERNOR: Quote =
        Quote { page: "docs/page.md", row: "| text keys |", cell: 5, before: " / ", places: 0 };

    fn judged(page: &str, readme: &str) -> Vec<String> {
        let files = READMES.map(|path| file(path, readme));
        let [english, chinese] = files;
        judge(&[english, chinese, file("docs/page.md", page)], &[OF_GOVERNOR])
    }

    #[test]
    fn a_number_of_the_results_passes() {
        assert_eq!(judged(PAGE, "| 202 ns | governor: 390 ns |\n"), [""; 0]);
    }

    #[test]
    fn a_number_that_another_run_gave_is_found() {
        let found = judged(PAGE, "| 202 ns | governor: 3,390 ns |\n390\n");
        let expected = "README.md: expected 390, of `| text keys |` in docs/page.md";
        assert_eq!((found.len(), found[0].as_str()), (2, expected));
    }

    #[test]
    fn a_row_that_the_results_lost_is_found() {
        assert_eq!(judged("", "| 390 |\n").len(), 1);
    }
}
