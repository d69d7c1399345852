//! Where the rules come from: a file, or the example that is built in.

use std::path::Path;

use tidegate::{Policy, config};

use crate::cli::Failure;

const EXAMPLE: &str = include_str!("../example.toml");

/// The rules of a file.
///
/// # Errors
/// All of its mistakes.
pub(crate) fn load(file: &Path) -> Result<Policy, Failure> {
    config::load(file).map_err(Failure::configuration)
}

/// The rules that are built in.
///
/// # Errors
/// None: a test reads them.
pub(crate) fn example() -> Result<Policy, Failure> {
    config::parse("the built-in example", EXAMPLE).map_err(Failure::configuration)
}

/// How many rules there are, in words.
pub(crate) fn count(policy: &Policy) -> String {
    match policy.rules().len() {
        1 => "1 rule".to_owned(),
        n => format!("{n} rules"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::Mode;

    #[test]
    fn the_example_is_sound_and_shows_an_enforced_and_a_shadow_rule() {
        let policy = example().unwrap();
        let modes: Vec<_> = policy.rules().iter().map(|rule| rule.mode()).collect();
        assert_eq!(modes, [Mode::Enforce, Mode::Enforce, Mode::Shadow]);
        assert_eq!(count(&policy), "3 rules");
    }
}
