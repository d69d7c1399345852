//! Components of the toolchain that a step needs and a minimal installation may lack.

use std::process::Command;

use anyhow::{Result, bail};

use crate::context::Context;
use crate::process::{answers, cargo, succeeds};

/// Makes sure that `cargo SUBCOMMAND` works, adding the component with rustup if it does not.
///
/// # Errors
///
/// Returns an error if the component is missing and cannot be added; the message says what to do.
pub(super) fn need(context: &Context, subcommand: &str, component: &str) -> Result<()> {
    let works = || answers(&mut cargo(context, &[subcommand, "--version"]));
    let add = || {
        let mut rustup = Command::new("rustup");
        rustup.args(["component", "add", component]).current_dir(context.root());
        succeeds(&mut rustup).unwrap_or(false)
    };
    ensure(component, works, add)
}

fn ensure(component: &str, works: impl Fn() -> bool, add: impl FnOnce() -> bool) -> Result<()> {
    if works() || (add() && works()) {
        return Ok(());
    }
    bail!(
        "{component} is not installed for this toolchain and could not be added; \
         run `rustup component add {component}` and try again"
    )
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_part_that_works_is_not_installed_again() {
        let added = Cell::new(false);
        ensure("rustfmt", || true, || added.replace(true)).unwrap();
        assert!(!added.get());
    }

    #[test]
    fn a_missing_part_is_added() {
        let there = Cell::new(false);
        ensure("rustfmt", || there.get(), || !there.replace(true)).unwrap();
    }

    #[test]
    fn a_part_that_can_not_be_added_is_named_with_the_remedy() {
        for rustup_says in [true, false] {
            let error = ensure("rustfmt", || false, || rustup_says).unwrap_err().to_string();
            assert!(error.contains("`rustup component add rustfmt`"), "{error}");
        }
    }
}
