//! The list of the steps of `cargo xtask test`; a new step is one file and one entry.

mod bench;
mod book;
mod clippy;
mod components;
mod deny;
mod docs;
mod examples;
mod features;
mod format;
mod fuzz;
mod house;
mod installed;
mod ledger;
mod loom;
mod packaging;
mod programs;
mod tests;
mod valkey;

use crate::step::{Step, When};

/// The steps, in the order in which they run: quick and frequent failures come first.
pub(crate) const LIST: &[Step] = &[
    Step {
        name: "format",
        what: "every file is as rustfmt writes it",
        when: When::Always,
        run: format::run,
    },
    Step {
        name: "clippy",
        what: "no lint in any target, with all features",
        when: When::Always,
        run: clippy::run,
    },
    Step {
        name: "docs",
        what: "the documentation builds without a warning",
        when: When::Always,
        run: docs::run,
    },
    Step {
        name: "bare",
        what: "each library builds without features",
        when: When::Always,
        run: features::bare,
    },
    Step {
        name: "house",
        what: "the house rules: arrows, purity, file openings and lengths, documents",
        when: When::Always,
        run: house::run,
    },
    Step {
        name: "ledger",
        what: "no count of `cargo xtask count` is above its ceiling",
        when: When::Always,
        run: ledger::run,
    },
    Step {
        name: "tests",
        what: "unit, integration and documentation tests, with all features",
        when: When::Always,
        run: tests::run,
    },
    Step {
        name: "valkey",
        what: "the scripts over Valkey, from the system or from PyPI",
        when: When::All,
        run: valkey::scripts,
    },
    Step {
        name: "examples",
        what: "every example runs to its end and finds what it expects",
        when: When::Always,
        run: examples::run,
    },
    Step {
        name: "packaging",
        what: "every file that installs the server fits its format",
        when: When::Always,
        run: packaging::run,
    },
    Step {
        name: "features",
        what: "each library builds bare, and with each feature alone; so do the models",
        when: When::All,
        run: features::run,
    },
    Step {
        name: "stores",
        what: "all else that is tested over Redis, over Valkey",
        when: When::All,
        run: valkey::stores,
    },
    Step {
        name: "deny",
        what: "licences, banned crates and sources of every dependency (cargo-deny)",
        when: When::All,
        run: deny::policy,
    },
    Step {
        name: "advisories",
        what: "no dependency has a known vulnerability (cargo-deny)",
        when: When::All,
        run: deny::advisories,
    },
    Step {
        name: "bench",
        what: "format, lints and tests of the benchmarks, a workspace of its own",
        when: When::All,
        run: bench::run,
    },
    Step {
        name: "book",
        what: "mdBook makes a site of the pages in `target/book/html`",
        when: When::All,
        run: book::run,
    },
    Step {
        name: "fuzz",
        what: "the fuzz targets build, a workspace of its own",
        when: When::All,
        run: fuzz::run,
    },
    Step {
        name: "loom",
        what: "memory store, lines and statistics under every interleaving of a few threads (loom)",
        when: When::All,
        run: loom::run,
    },
    Step {
        name: "long",
        what: "the tests again, optimised, with many more random cases",
        when: When::All,
        run: tests::long,
    },
];

#[cfg(test)]
mod list {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_one_word() {
        let names: HashSet<_> = LIST.iter().map(|step| step.name).collect();
        assert_eq!(names.len(), LIST.len());
        let one_word = |name: &str| name.bytes().all(|byte| byte.is_ascii_lowercase());
        assert!(names.into_iter().all(one_word));
    }
}
