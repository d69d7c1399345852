//! The rule of purity: the core promises the compiler to have no standard library, no unsafe code and no floats.

use super::{Findings, House};
use crate::tree;

const HEAD: &str = "crates/tidegate-core/src/lib.rs";
const PROMISES: [&str; 3] =
    ["#![no_std]", "#![forbid(unsafe_code)]", "#![deny(clippy::float_arithmetic)]"];

/// Reads the head of the core; the compiler and clippy hold the promises.
pub(super) fn check(house: &House<'_>) -> Findings {
    broken(tree::text_of(&house.files, HEAD)).into()
}

fn broken(head: &str) -> Vec<String> {
    let missing = PROMISES.iter().filter(|promise| !head.lines().any(|line| line == **promise));
    missing.map(|promise| format!("{HEAD}: add `{promise}`")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_must_promise() {
        assert_eq!(broken(&PROMISES.join("\n")), [""; 0]);
        assert_eq!(broken("//! Doc.\n// #![no_std]\n#![forbid(unsafe_code)]\n").len(), 2);
    }
}
