//! The settings of a server outside its file: the flags and variables in force, and variables that no command knows.
//! `serve` logs them at the start, because such a setting is easily forgotten and a misspelt variable has no effect.

use std::env;
use std::ffi::OsString;

use clap::Command;
use clap::parser::ValueSource;
use tidegate::config::nearest_word;

use super::guard;

/// The prefix of all variables.
const PREFIX: &str = "TIDEGATE_";

/// The endings of the variables that Kubernetes sets in each container for a service that is named `tidegate`, or
/// `tidegate-...`.
const OF_SERVICES: [&str; 3] = ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"];

/// The flags and variables around a server.
pub(super) struct Surroundings {
    /// Each setting with the flag or variable that it comes from.
    settings: Vec<String>,
    /// Variables that no command knows, each with the name that was meant.
    unknown: Vec<(String, Option<String>)>,
}

impl Surroundings {
    /// Looks at the words of `serve` and at the environment; `cli` is the whole command line.
    pub(super) fn of(cli: &Command, given: &[OsString]) -> Self {
        let variables = env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().unwrap_or_default()))
        });
        let unknown = unknown(cli, variables);
        Self { settings: settings(cli, given).unwrap_or_default(), unknown }
    }

    /// Logs where settings come from, and a warning for each variable that means nothing. The file may name further
    /// variables, such as the variable that holds a password.
    pub(super) fn log(&self, file: &str) {
        if !self.settings.is_empty() {
            let settings = self.settings.join(", ");
            tracing::info!(settings, "settings come from flags and variables, before the file");
        }
        for (name, meant) in self.unknown.iter().filter(|(name, _)| !file.contains(name.as_str())) {
            let meant = meant.as_ref().map(|meant| format!(": did you mean {meant}?"));
            let meant = meant.unwrap_or_default();
            tracing::warn!(
                "the variable {name} has no effect, because no setting has its name{meant}"
            );
        }
    }
}

/// `http by --http`, `threads by TIDEGATE_THREADS`; a token is a setting of the file that it replaces.
fn settings(cli: &Command, given: &[OsString]) -> Option<Vec<String>> {
    let serve = cli.find_subcommand("serve")?;
    let matches = serve.clone().try_get_matches_from(given).ok()?;
    let flags = serve.get_arguments().filter_map(|arg| {
        let flag = arg.get_long()?;
        let variable = arg.get_env()?;
        let field = flag.replace('-', "_");
        match matches.value_source(&field)? {
            ValueSource::CommandLine => Some(format!("{field} by --{flag}")),
            ValueSource::EnvVariable => Some(format!("{field} by {}", variable.display())),
            _ => None,
        }
    });
    // clap knows no variables of secrets, because a secret is never a flag.
    let secrets = guard::SECRETS.iter().filter(|secret| env::var_os(secret.variable).is_some());
    let secrets =
        secrets.map(|secret| format!("{} by {}", secret.flag.replace('-', "_"), secret.variable));
    Some(flags.chain(secrets).collect())
}

/// The variables with the prefix that no command knows.
fn unknown(
    cli: &Command,
    variables: impl Iterator<Item = (String, String)>,
) -> Vec<(String, Option<String>)> {
    let commands = cli.get_subcommands().flat_map(Command::get_arguments);
    let known = commands.filter_map(|arg| arg.get_env()?.to_str());
    let known: Vec<_> = known.chain(guard::TOKENS).collect();
    let unknown = variables
        .filter(|(name, value)| !known.contains(&name.as_str()) && !is_of_service(name, value));
    let words: Vec<_> = known.iter().filter_map(|name| name.strip_prefix(PREFIX)).collect();
    let mut unknown: Vec<_> = unknown
        .filter_map(|(name, _)| {
            let capitals = name.to_ascii_uppercase();
            let given = capitals.strip_prefix(PREFIX)?;
            let meant = nearest_word(given, &words).map(|meant| format!("{PREFIX}{meant}"));
            // A name in small letters may belong to another program.
            (meant.is_some() || name.starts_with(PREFIX)).then_some((name, meant))
        })
        .collect();
    unknown.sort();
    unknown
}

fn is_of_service(name: &str, value: &str) -> bool {
    OF_SERVICES.iter().any(|part| name.contains(part))
        || name.ends_with("_PORT") && value.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn a_variable_that_nothing_knows_is_named_with_the_one_that_was_meant() {
        let arg = |name, variable| Arg::new(name).long(name).env(variable);
        let serve = Command::new("serve").args([arg("http", "TIDEGATE_HTTP")]);
        let top = Command::new("top").args([arg("admin", "TIDEGATE_ADMIN_URL")]);
        let cli = Command::new("tidegate").subcommands([serve, top]);
        let variables = [
            ("TIDEGATE_HTTP", "127.0.0.1:1"),
            ("TIDEGATE_HTPP", "127.0.0.1:1"),
            ("tidegate_http", "127.0.0.1:1"),
            ("Tidegate_Admin_Tokn", "a"),
            ("tidegate_home", "/"),
            ("TIDEGATE_ADMIN_URL", ""),
            ("TIDEGATE_ADMIN_TOKEN", "a"),
            ("TIDEGATE_ADMIN_TOKN", "a"),
            ("TIDEGATE_SOMETHING_ELSE", ""),
            ("TIDEGATE_PORT", "tcp://10.0.0.1:8080"),
            ("TIDEGATE_ADMIN_SERVICE_PORT_HTTP", "8080"),
            ("TIDEGATE_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("HOME", "/"),
        ];
        let found = unknown(&cli, variables.map(|(a, b)| (a.to_owned(), b.to_owned())).into_iter());
        let found: Vec<_> = found.iter().map(|(name, meant)| (&**name, meant.as_deref())).collect();
        assert_eq!(
            found,
            [
                ("TIDEGATE_ADMIN_TOKN", Some("TIDEGATE_ADMIN_TOKEN")),
                ("TIDEGATE_HTPP", Some("TIDEGATE_HTTP")),
                ("TIDEGATE_SOMETHING_ELSE", None),
                ("Tidegate_Admin_Tokn", Some("TIDEGATE_ADMIN_TOKEN")),
                ("tidegate_http", Some("TIDEGATE_HTTP")),
            ]
        );
    }
}
