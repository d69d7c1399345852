//! The ledger: a ceiling for every count, in `xtask/ledger.toml`.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context as _, Result, bail};
use toml::de::{DeTable, DeValue};

use super::table::Count;

/// The file, from the root of the workspace.
pub(super) const PATH: &str = "xtask/ledger.toml";

pub(super) struct Ledger {
    text: String,
    /// By section and name.
    ceilings: BTreeMap<(String, String), Ceiling>,
}

struct Ceiling {
    value: usize,
    /// The bytes of the text that say it.
    bytes: Range<usize>,
}

impl Ledger {
    /// # Errors
    /// Returns an error if the text is not TOML, or has anything but sections of whole numbers.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut ceilings = BTreeMap::new();
        let sections = DeTable::parse(text).with_context(|| format!("{PATH} is not TOML"))?;
        for (section, rows) in sections.get_ref() {
            let section = section.get_ref();
            let DeValue::Table(rows) = rows.get_ref() else {
                bail!("{PATH}: {section} is above all sections; move it into one");
            };
            for (name, value) in rows {
                let name = name.get_ref();
                let number = value.get_ref().as_integer();
                let number = number.and_then(|number| {
                    number.as_str().parse().ok().filter(|_| number.radix() == 10)
                });
                let wrong =
                    || format!("{PATH}: {section}.{name} is not a whole number of 0 or more");
                let ceiling = Ceiling { value: number.with_context(wrong)?, bytes: value.span() };
                ceilings.insert((section.to_string(), name.to_string()), ceiling);
            }
        }
        Ok(Self { text: text.to_owned(), ceilings })
    }

    pub(super) fn ceiling(&self, section: &str, name: &str) -> Option<usize> {
        self.ceilings.get(&(section.to_owned(), name.to_owned())).map(|ceiling| ceiling.value)
    }

    /// Every figure above its ceiling, every figure without a ceiling, every ceiling without a figure.
    pub(super) fn complaints(&self, counts: &[Count]) -> Vec<String> {
        let mut complaints = Vec::new();
        let values = values(counts);
        for ((section, name), value) in &values {
            match self.ceiling(section, name) {
                None => complaints.push(format!("[{section}] has no {name}: add `{name} = {value}` to {PATH}")),
                Some(ceiling) if is_above(*value, ceiling) => complaints.push(format!(
                    "{section}.{name} is {value}, more than half a percent above its ceiling of {ceiling}: \
                     `cargo xtask count --worst` says where"
                )),
                Some(_) => {}
            }
        }
        let unknown = self.ceilings.keys().filter(|key| !values.contains_key(*key));
        complaints.extend(unknown.map(|(section, name)| {
            format!("{section}.{name} is the name of no count: remove it from {PATH}")
        }));
        complaints
    }

    /// The text in which each ceiling above its figure is the figure, and how many were.
    pub(super) fn lowered(&self, counts: &[Count]) -> (String, usize) {
        let mut lower: Vec<(&Range<usize>, usize)> = Vec::new();
        for (key, value) in values(counts) {
            let ceiling = self.ceilings.get(&key).filter(|ceiling| value < ceiling.value);
            lower.extend(ceiling.map(|ceiling| (&ceiling.bytes, value)));
        }
        lower.sort_by_key(|(bytes, _)| bytes.start);
        let mut text = self.text.clone();
        for (bytes, value) in lower.iter().rev() {
            text.replace_range((*bytes).clone(), &value.to_string());
        }
        (text, lower.len())
    }
}

fn values(counts: &[Count]) -> BTreeMap<(String, String), usize> {
    let mut values = BTreeMap::new();
    for count in counts {
        for (name, row) in &count.rows {
            values.insert((count.section.to_owned(), name.clone()), row.value);
        }
    }
    values
}

/// Half a percent is left, so that a mended line does not have to be paid for on the spot.
fn is_above(value: usize, ceiling: usize) -> bool {
    value * 1000 > ceiling * 1005
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rows: &[(&str, usize)]) -> Vec<Count> {
        let mut count = Count::new("files", "files");
        for (name, value) in rows {
            count.row(name).value = *value;
        }
        vec![count]
    }

    #[test]
    fn half_a_percent_is_left() {
        let table = [(1005, 1000, false), (1006, 1000, true), (16, 16, false), (17, 16, true)];
        for (value, ceiling, expected) in table {
            assert_eq!(is_above(value, ceiling), expected, "{value} of {ceiling}");
        }
        assert!(is_above(1, 0) && !is_above(0, 0));
    }

    #[test]
    fn a_value_above_a_missing_name_and_an_unknown_name_are_named() {
        let ledger = Ledger::parse("[files]\nbench = 10\nbanch = 3\n").unwrap();
        let complaints = ledger.complaints(&counts(&[("bench", 11), ("fuzz", 4)]));
        let expected = [
            "files.bench is 11, more than half a percent above its ceiling of 10",
            "[files] has no fuzz: add `fuzz = 4`",
            "files.banch is the name of no count",
        ];
        assert_eq!(complaints.len(), 3);
        for (complaint, start) in complaints.iter().zip(expected) {
            assert!(complaint.starts_with(start), "{complaint}");
        }
    }

    #[test]
    fn ceilings_follow_down_and_never_up() {
        let ledger = Ledger::parse("# Why.\n[files]\na = 10 # kept\nb = 3\nc = 200\n").unwrap();
        let (text, count) = ledger.lowered(&counts(&[("a", 9), ("b", 4), ("c", 55)]));
        assert_eq!(text, "# Why.\n[files]\na = 9 # kept\nb = 3\nc = 55\n");
        assert_eq!(count, 2);
    }

    #[test]
    fn a_ledger_of_anything_else_is_refused() {
        for text in
            ["files = 3", "[files]\na = -1", "[files]\na = 1.5", "[files]\na = 0x10", "[files"]
        {
            assert!(Ledger::parse(text).is_err(), "{text}");
        }
    }
}
