//! A count: its numbers by crate or tool, and its worst places.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The places that are printed of each count.
const PLACES: usize = 12;
/// The lines that are printed of each place.
const LINES: usize = 8;

/// Figures of one kind, which are rows of one section of the ledger.
pub(super) struct Count {
    pub(super) section: &'static str,
    what: &'static str,
    pub(super) rows: BTreeMap<String, Row>,
    places: BTreeMap<String, Place>,
    /// Sums or densities of the whole, printed below the title.
    pub(super) summary: String,
}

/// A figure with a ceiling.
#[derive(Default)]
pub(super) struct Row {
    pub(super) value: usize,
    pub(super) remark: String,
}

#[derive(Default)]
struct Place {
    amount: usize,
    lines: Vec<usize>,
}

impl Count {
    pub(super) fn new(section: &'static str, what: &'static str) -> Self {
        Self {
            section,
            what,
            rows: BTreeMap::new(),
            places: BTreeMap::new(),
            summary: String::new(),
        }
    }

    pub(super) fn row(&mut self, name: &str) -> &mut Row {
        self.rows.entry(name.to_owned()).or_default()
    }

    pub(super) fn add_place(&mut self, place: String, amount: usize) {
        self.places.entry(place).or_default().amount += amount;
    }

    /// Counts one more on a line of a file.
    pub(super) fn add_line(&mut self, row: &str, file: &Path, line: usize) {
        self.row(row).value += 1;
        let place = self.places.entry(file.display().to_string()).or_default();
        place.amount += 1;
        place.lines.push(line);
    }

    pub(super) fn sum(&self) -> usize {
        self.rows.values().map(|row| row.value).sum()
    }

    /// The rows as text, each with its ceiling, and the largest places if they are wanted.
    pub(super) fn text(&self, ceiling: impl Fn(&str) -> Option<usize>, worst: bool) -> String {
        let mut text = format!("\n{}: {}\n", self.section, self.what);
        if !self.summary.is_empty() {
            _ = writeln!(text, "{}", self.summary);
        }
        for (name, row) in &self.rows {
            let ceiling = ceiling(name).map(|ceiling| ceiling.to_string()).unwrap_or_default();
            let line = format!("  {name:<24}{:>9}{ceiling:>9}  {}", row.value, row.remark);
            _ = writeln!(text, "{}", line.trim_end());
        }
        if worst {
            text += &self.worst();
        }
        text
    }

    fn worst(&self) -> String {
        let mut places: Vec<_> = self.places.iter().collect();
        places.sort_by_key(|(_, place)| std::cmp::Reverse(place.amount));
        let mut text = String::new();
        for (name, place) in places.into_iter().take(PLACES) {
            let lines: Vec<_> = place.lines.iter().take(LINES).map(ToString::to_string).collect();
            let colon = if lines.is_empty() { "" } else { ":" };
            _ = writeln!(text, "{:>12} {name}{colon}{}", place.amount, lines.join(","));
        }
        text
    }
}

/// A figure per 1,000 of something, with one digit after the point.
pub(super) fn per_1000(value: usize, of: usize, what: &str) -> String {
    let tenths = (value * 10_000).checked_div(of).unwrap_or_default();
    format!("{}.{} per 1,000 {what}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_printed_with_ceilings_and_its_largest_places() {
        let mut count = Count::new("english", "foreign English");
        count.add_line("bench", Path::new("bench/a.rs"), 3);
        count.add_line("bench", Path::new("bench/b.rs"), 4);
        count.add_line("bench", Path::new("bench/b.rs"), 9);
        count.row("bench").remark = per_1000(3, 2000, "words");
        let expected = "\nenglish: foreign English\n  bench                           3        4  1.5 per 1,000 words\n";
        assert_eq!(count.text(|_| Some(4), false), expected);
        let worst = "           2 bench/b.rs:4,9\n           1 bench/a.rs:3\n";
        assert_eq!(count.text(|_| Some(4), true), format!("{expected}{worst}"));
    }
}
