//! The source of the rules: a file, or the built-in example.

mod mistakes;

use tidegate::config::ConfigErrors;
use tidegate::{Policy, StoreSettings, StoreUrl, config};

use crate::failure::Failure;

const EXAMPLE: &str = include_str!("../example.toml");

/// The errors of a file as the failure of a command: the first of them if there are many.
pub(crate) fn failure(found: &ConfigErrors) -> Failure {
    Failure::configuration(mistakes::printed(found))
}

/// The built-in rules.
///
/// # Errors
/// No error is known, because a test reads the rules.
pub(crate) fn example() -> Result<Policy, Failure> {
    config::parse("the built-in example", EXAMPLE).map_err(Failure::configuration)
}

pub(crate) fn over(policy: Policy, url: StoreUrl) -> Policy {
    let settings = settings_over(&policy, url);
    policy.with_store(settings)
}

/// The store settings of a policy, with `url` in place of its own.
pub(crate) fn settings_over(policy: &Policy, url: StoreUrl) -> StoreSettings {
    match policy.store().cloned() {
        Some(mut settings) => {
            settings.url = url;
            settings
        }
        None => StoreSettings::new(url),
    }
}

/// The number of rules, in words.
pub(crate) fn count(policy: &Policy) -> String {
    rules(policy.rules().len())
}

/// A number of rules, in words.
pub(crate) fn rules(number: usize) -> String {
    match number {
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
