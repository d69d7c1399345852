//! The list of the steps of `cargo xtask test`; a new step is an entry and a function.

mod bench;
mod book;
mod components;
mod deny;
mod examples;
mod features;
mod house;
mod installed;
mod ledger;
mod loom;
mod packaging;
mod plain;
mod programs;
mod tests;
mod valkey;

use crate::step::{Run, Step, When};

/// The steps, in the order in which they run: quick and frequent failures come first.
pub(crate) const LIST: &[Step] = &[
    always("format", "every file is as rustfmt writes it", plain::format),
    always("clippy", "no lint in any target, with all features", plain::clippy),
    always("docs", "the documentation builds without a warning", plain::docs),
    always("bare", "each library builds without features", features::bare),
    always(
        "house",
        "the house rules: arrows, purity, file openings and lengths, documents",
        house::run,
    ),
    always("ledger", "no count of `cargo xtask count` is above its ceiling", ledger::run),
    always("tests", "unit, integration and documentation tests, with all features", tests::run),
    long("valkey", "the scripts over Valkey, from the system or from PyPI", valkey::scripts),
    always("examples", "every example runs to its end and finds what it expects", examples::run),
    always("packaging", "every file that installs the server fits its format", packaging::run),
    long(
        "features",
        "each library builds bare, and with each feature alone; so do the models",
        features::run,
    ),
    long(
        "stores",
        "all else that is tested over Redis, over Valkey with direct calls",
        valkey::stores,
    ),
    long(
        "deny",
        "licences, banned crates and sources of every dependency (cargo-deny)",
        deny::policy,
    ),
    long("advisories", "no dependency has a known vulnerability (cargo-deny)", deny::advisories),
    long("bench", "format, lints and tests of the benchmarks, a workspace of its own", bench::run),
    long("book", "mdBook makes a site of the pages in `target/book/html`", book::run),
    long("fuzz", "the fuzz targets build, a workspace of its own", plain::fuzz),
    long(
        "loom",
        "memory store, lines and statistics under every interleaving of a few threads (loom)",
        loom::run,
    ),
    long("long", "the tests again, optimised, with many more random cases", tests::long),
];

const fn always(name: &'static str, what: &'static str, run: Run) -> Step {
    Step { name, what, when: When::Always, run }
}

const fn long(name: &'static str, what: &'static str, run: Run) -> Step {
    Step { name, what, when: When::All, run }
}

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
