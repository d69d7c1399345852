//! Who was refused most, in bounded memory.

use std::collections::HashMap;

/// How many names are told apart; what comes after is counted together.
const MOST_NAMES: usize = 65_536;

/// Counts by name.
#[derive(Clone, Debug, Default)]
pub struct Most {
    counts: HashMap<String, u64>,
    others: u64,
}

impl Most {
    /// Counts one for `name`.
    pub fn add(&mut self, name: &str) {
        if let Some(count) = self.counts.get_mut(name) {
            *count += 1;
        } else if self.counts.len() < MOST_NAMES {
            self.counts.insert(name.to_owned(), 1);
        } else {
            self.others += 1;
        }
    }

    /// How many names were told apart.
    #[must_use]
    pub fn names(&self) -> usize {
        self.counts.len()
    }

    /// How many were counted for names beyond the first 65,536.
    #[must_use]
    pub const fn others(&self) -> u64 {
        self.others
    }

    /// The `n` names counted most, the largest first, equal counts by name.
    #[must_use]
    pub fn top(&self, n: usize) -> Vec<(&str, u64)> {
        let mut all: Vec<_> =
            self.counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        all.truncate(n);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_come_first_and_ties_by_name() {
        let mut most = Most::default();
        "b a c b a".split(' ').for_each(|name| most.add(name));
        assert_eq!(most.top(2), [("a", 2), ("b", 2)]);
        assert_eq!((most.names(), most.others()), (3, 0));
    }

    #[test]
    fn names_past_the_cap_are_counted_together() {
        let mut most = Most::default();
        (0..MOST_NAMES + 5).for_each(|n| most.add(&n.to_string()));
        most.add("0");
        assert_eq!((most.names(), most.others()), (MOST_NAMES, 5));
        assert_eq!(most.top(1), [("0", 2)]);
    }
}
