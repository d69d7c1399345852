//! `cargo xtask numbers`: writes the numbers of the pages from the tables of `bench/results/performance.md`.
//!
//! In a page, a comment before a number says which number it is: `<!--=text-keys-->202`.

use std::fs;

use anyhow::{Context as _, Result};

use crate::context::Context;
use crate::tree::{self, SourceFile};

pub(crate) const RESULTS: &str = "bench/results/performance.md";
const MARK: &str = "<!--=";

/// A number in a table of the results.
#[derive(Clone, Copy)]
pub(crate) struct Quote {
    pub(crate) name: &'static str,
    /// The name of the table; empty if no other table has such a row before it.
    table: &'static str,
    /// The beginning of the table's row.
    pub(crate) row: &'static str,
    /// The number of the cell, counted from 1.
    cell: usize,
    /// The text in the cell before the number.
    before: &'static str,
    /// The divisor that makes the unit of the pages of the unit of the table.
    divisor: f64,
    /// The number of decimal places that the pages keep.
    places: usize,
}

/// The table of `cargo xtask bench pauses`.
const PAUSES: &str = "**ns per decision**";
const TEXT_KEYS: &str = "| 1,000,000 keys, text / `governor/String` |";
const BYTES: &str = "| bytes per key, `token_bucket`,";
const RESP: &str = "| RESP, 16 in a pipeline |";
const TOKEN_BUCKET: &str = "| `token_bucket` |";

/// All numbers; the first six are in the READMEs too.
pub(crate) const QUOTES: [Quote; 18] = [
    quote("text-keys", TEXT_KEYS, 5, 0),
    Quote { before: " / ", ..quote("text-keys-governor", TEXT_KEYS, 5, 0) },
    quote("bytes", BYTES, 3, 0),
    Quote { before: ": ", ..quote("bytes-governor", BYTES, 5, 0) },
    quote("resp", RESP, 2, 0),
    quote("resp-redis", RESP, 5, 2),
    Quote { table: PAUSES, divisor: 1e3, ..quote("pause", "| `tidegate/token_bucket` |", 4, 0) },
    Quote { table: PAUSES, divisor: 1e6, ..quote("pause-governor", "| `governor/String` |", 4, 0) },
    Quote { table: PAUSES, divisor: 1e3, ..quote("pause-machine", "| `floor/flat array` |", 4, 0) },
    quote("script", TOKEN_BUCKET, 4, 1),
    quote("script-floor", TOKEN_BUCKET, 5, 2),
    quote("direct", "| one limiter, token bucket, allow / `governor/direct` |", 3, 2),
    quote("text-keys-ratio", TEXT_KEYS, 3, 2),
    quote("numbers-ratio", "| 1,000,000 keys, `u64` / `governor/u64 ahash` |", 3, 2),
    quote("exact-resp", "| RESP, 16 deep, exact |", 6, 2),
    quote("exact-grpc", "| gRPC, 10 by 10 streams, exact |", 6, 2),
    quote("leased-resp", "| RESP, 16 deep, leased |", 6, 2),
    quote("leased-grpc", "| gRPC, leased |", 6, 2),
];

const fn quote(name: &'static str, row: &'static str, cell: usize, places: usize) -> Quote {
    Quote { name, table: "", row, cell, before: "", divisor: 1.0, places }
}

/// Writes every page whose numbers differ from the results.
///
/// # Errors
///
/// Returns an error if a file cannot be read or written, or a number is not in the results.
pub(crate) fn run() -> Result<bool> {
    let context = Context::load()?;
    let files = tree::read(context.root())?;
    for page in &files {
        let written = with_numbers(page, &files)?;
        if written != page.text {
            println!("{}", page.path.display());
            fs::write(context.root().join(&page.path), written)?;
        }
    }
    Ok(true)
}

/// The text of a file, with the numbers of the results.
///
/// # Errors
///
/// Returns an error if a comment names no number, or the number is not in the results.
pub(crate) fn with_numbers(page: &SourceFile, files: &[SourceFile]) -> Result<String> {
    if !page.is("md") || !page.text.contains(MARK) {
        return Ok(page.text.clone());
    }
    let mut parts = page.text.split(MARK);
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once("-->").context("a comment without an end")?;
        let quote = QUOTES.iter().find(|quote| quote.name == name);
        let quote = quote.with_context(|| format!("no number is called `{name}`"))?;
        let is_part = |c: char| c.is_ascii_digit() || c == ',' || c == '.';
        let old = rest.split(|c| !is_part(c)).next().unwrap_or_default();
        let after = rest.strip_prefix(old.trim_end_matches(['.', ','])).unwrap_or(rest);
        written += &format!("{MARK}{name}-->{}{after}", quote.number(files)?);
    }
    Ok(written)
}

impl Quote {
    /// The number as a page shows it.
    ///
    /// # Errors
    ///
    /// Returns an error if the results do not have it.
    pub(crate) fn number(&self, files: &[SourceFile]) -> Result<String> {
        let number = self.read(tree::text_of(files, RESULTS));
        number.with_context(|| format!("{RESULTS}: the row `{}` has no `{}`", self.row, self.name))
    }

    fn read(&self, results: &str) -> Option<String> {
        let (_, table) = results.split_once(self.table)?;
        // The benchmarks align the cells.
        let mut rows =
            table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        let row = rows.find(|line| line.starts_with(self.row))?;
        let cell = row.split('|').nth(self.cell)?;
        let (_, after) = cell.split_once(self.before)?;
        let number = after.trim().split(' ').next()?;
        if number.contains(',') {
            return Some(number.to_owned());
        }
        let places = self.places;
        Some(format!("{:.places$}", number.parse::<f64>().ok()? / self.divisor))
    }
}
