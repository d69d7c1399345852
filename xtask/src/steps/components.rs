//! Components of the toolchain that a step needs and a minimal installation may lack.

use std::process::Command;

use anyhow::Result;

use crate::context::Context;
use crate::process::{answers, cargo, ensure, succeeds};

/// Makes sure that `cargo SUBCOMMAND` works, adding the component with rustup if it does not.
///
/// # Errors
///
/// Returns an error if the component is missing and cannot be added; the message says what to do.
pub(super) fn need(context: &Context, subcommand: &str, component: &str) -> Result<()> {
    let works = || answers(&mut cargo(context, &format!("{subcommand} --version")));
    let add = || {
        let mut rustup = Command::new("rustup");
        rustup.args(["component", "add", component]).current_dir(context.root());
        succeeds(&mut rustup).unwrap_or(false)
    };
    ensure(works, add, &remedy(component))
}

fn remedy(component: &str) -> String {
    format!(
        "{component} is not installed for this toolchain and could not be added; \
         run `rustup component add {component}`"
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_missing_component_is_named_with_the_remedy() {
        let said = super::remedy("rustfmt");
        assert!(said.starts_with("rustfmt is not installed"), "{said}");
        assert!(said.ends_with("`rustup component add rustfmt`"), "{said}");
    }
}
