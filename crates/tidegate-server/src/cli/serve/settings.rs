//! The settings of `serve`: flags, variables and `[server]` of the file, also when that is read again. `serve.rs` and
//! `tidegate check` read through it, so both accept the same files.

use std::ffi::OsString;
use std::path::Path;

use clap::{Command, FromArgMatches};
use tidegate::Policy;
use tidegate::config::{self, ConfigErrors, SectionValues};

use super::super::{guard, listeners, sources};
use super::flags::{ServeArgs, command};
use crate::allocator::return_free_memory;
use crate::configuration::{Candidate, ConfigOrigin};
use crate::failure::Failure;
use crate::policy::{self, Wrong};

/// Reads a file of rules, and the fields of its `[server]`.
///
/// # Errors
/// Returns all its errors.
pub(in super::super) fn load(file: &Path) -> Result<(Policy, SectionValues), ConfigErrors> {
    sources::load(&command(), file)
}

/// The settings of a file alone, without flags and variables.
///
/// # Errors
/// Returns what cannot be together.
pub(in super::super) fn check(file: &Path, values: &SectionValues) -> Result<(), Failure> {
    // Files of certificates need each other; the others may be named by flags or variables.
    let listeners = ["http", "grpc", "resp", "admin", "probe"];
    let values =
        values.iter().filter(|(name, _)| listeners.contains(&name.as_str())).cloned().collect();
    // The variables of this machine are not the variables of the server.
    let none = command().mut_args(|arg| arg.env(None));
    let args = settled(&none, &["serve".into()], file, &values)?;
    listeners::check(args.listeners()).map_err(|failure| failure.of(file))
}

/// The flags as given, and else the values of the file.
fn settled(
    command: &Command,
    given: &[OsString],
    file: &Path,
    values: &SectionValues,
) -> Result<ServeArgs, Failure> {
    let words = sources::complete(command, given, values, &guard::SECRETS);
    let matches = words.and_then(|words| command.clone().try_get_matches_from(words));
    let args = matches.and_then(|matches| ServeArgs::from_arg_matches(&matches));
    args.map_err(|error| Failure::configuration(sources::without_secrets(error)).of(file))
}

/// The text of a file, read in bounded time.
///
/// # Errors
/// Returns why it cannot be read.
pub(super) fn text(file: &Path) -> Result<String, Failure> {
    config::read_text(file).map_err(|found| policy::failure(&found))
}

/// The rules and settings of a text, and its place as the origin of the configuration. `given` are the words from
/// `serve` on. Settings that neither they nor the environment give come from `[server]` of the file, also when it is
/// read again.
///
/// # Errors
/// Returns all errors of the text, or the first conflict between settings.
pub(super) fn read_file(
    file: &Path,
    text: String,
    given: Vec<OsString>,
) -> Result<(Policy, ServeArgs, ConfigOrigin), Failure> {
    let name = file.display().to_string();
    let (policy, server, args) = read(&name, &text, &given).map_err(Wrong::failure)?;
    let origin = ConfigOrigin {
        file: Some(file.to_owned()),
        text,
        server,
        read: Box::new(move |name: &str, text: &str| {
            let (policy, server, args) = read(name, text, &given)?;
            Ok(Candidate { policy: args.over_store(policy), server, level: args.log_level })
        }),
    };
    Ok((policy, args, origin))
}

/// The built-in rules as the origin of the configuration.
pub(super) fn built_in() -> ConfigOrigin {
    ConfigOrigin {
        file: None,
        text: policy::EXAMPLE.to_owned(),
        server: SectionValues::new(),
        read: Box::new(|_: &str, _: &str| {
            let why = "the rules are built in: expected a server with --config";
            Err(Wrong::Whole(Failure::usage(why)))
        }),
    }
}

/// The rules, the fields of `[server]` and the settings of a text, checked together.
fn read(
    name: &str,
    text: &str,
    given: &[OsString],
) -> Result<(Policy, SectionValues, ServeArgs), Wrong> {
    let (policy, server) = sources::parse(&command(), name, text).map_err(Wrong::Text)?;
    // The limiters must not use this memory again: a page that is used again counts whole.
    return_free_memory();
    let args = settled(&command(), given, Path::new(name), &server).map_err(Wrong::Whole)?;
    // With `--store` the policy gets its store after this.
    let splits = if args.store.is_none() { policy::check_splits(&policy) } else { Ok(()) };
    let checked = splits.and_then(|()| listeners::check(args.listeners()));
    checked.map_err(|failure| Wrong::Whole(failure.of(Path::new(name))))?;
    Ok((policy, server, args))
}
