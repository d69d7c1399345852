//! The sources of a command's settings, strongest first: its flags, their variables, and the fields of the same names
//! in a section of the configuration file. `serve/settings.rs` asks it, also when the file is read again.
//!
//! The flags of the command are the only list of settings. A field of the file becomes a flag before the given flags,
//! so the same parsers read all of them.

use std::any::TypeId;
use std::env;
use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command, Error};
use tidegate::Policy;
use tidegate::config::{self, ConfigErrors, Section, SectionKind, SectionValues};
use tidegate::config::{HIDDEN, without_credentials};

use crate::failure::Failure;

/// The section of the file.
const SECTION: &str = "server";
/// Flags that are no fields: the file itself, and what `[store]` says.
const NO_FIELDS: [&str; 4] = ["config", "store", "help", "version"];

/// A flag that a secret replaces which is in a variable.
pub(super) struct SecretVariable {
    pub(super) flag: &'static str,
    pub(super) variable: &'static str,
}

/// Reads a file; the fields of its section are the flags of `command`.
///
/// # Errors
/// Returns all its errors.
pub(super) fn load(
    command: &Command,
    file: &Path,
) -> Result<(Policy, SectionValues), ConfigErrors> {
    with_section(command, |section| config::load_with(file, section))
}

/// Reads a text as [`load`] reads a file; errors name it `name`.
///
/// # Errors
/// Returns all its errors.
pub(super) fn parse(
    command: &Command,
    name: &str,
    text: &str,
) -> Result<(Policy, SectionValues), ConfigErrors> {
    with_section(command, |section| config::parse_with(name, text, section))
}

fn with_section<T>(command: &Command, read: impl FnOnce(&Section<'_>) -> T) -> T {
    let names: Vec<_> = fields(command).map(|(name, arg)| (name, kind(arg))).collect();
    let names: Vec<_> = names.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    read(&Section {
        name: SECTION,
        fields: &names,
        check: &|name, value| check(command, &name.replace('_', "-"), value.as_ref()),
    })
}

/// The words of a command, with a flag before the others for each value of the file that neither
/// a flag nor a variable overrides. The first word is the name of the command.
///
/// # Errors
/// Returns the error of the words themselves.
pub(super) fn complete(
    command: &Command,
    given: &[OsString],
    values: &SectionValues,
    secrets: &[SecretVariable],
) -> Result<Vec<OsString>, Error> {
    let matches = command.clone().try_get_matches_from(given)?;
    let (name, rest) = given.split_at(given.len().min(1));
    let mut words = name.to_vec();
    for (field, value) in values {
        let flag = field.replace('_', "-");
        let secret = secrets.iter().find(|secret| secret.flag == flag);
        // clap does not know the variables of secrets, because a secret is never a flag.
        let is_overridden = secret.is_some_and(|secret| env::var_os(secret.variable).is_some())
            || !matches!(matches.value_source(field), None | Some(ValueSource::DefaultValue));
        if !is_overridden {
            words.push(format!("--{flag}={value}").into());
        }
    }
    words.extend_from_slice(rest);
    Ok(words)
}

/// The error of words that were refused because of a variable: its name, and the expected text. `given` begins with the
/// name of the command. `None` if the words themselves are at fault.
pub(super) fn of_variable(command: &Command, given: &[OsString], error: &Error) -> Option<Failure> {
    let refused = error.get(ContextKind::InvalidArg)?.to_string();
    let arg = command.get_arguments().find(|arg| arg.to_string() == refused)?;
    let flag = arg.get_long()?;
    let variable = arg.get_env()?;
    let value = env::var_os(variable)?;
    let long = format!("--{flag}");
    let short = arg.get_short().map(|short| format!("-{short}"));
    for word in given {
        let word = word.to_string_lossy();
        let is_long = word.split('=').next() == Some(&long);
        // A word of the command goes before the variable, which is not at fault then.
        if is_long || short.as_ref().is_some_and(|short| word.starts_with(short)) {
            return None;
        }
    }
    let why = check(command, flag, &value).err()?;
    let variable = variable.display();
    let unset = if value.is_empty() {
        format!("; unset {variable} if none is meant")
    } else {
        String::new()
    };
    // Some messages quote the value themselves; a value that may have a secret is never shown.
    let is_shown =
        why.starts_with("expected ") && !value.is_empty() && !arg.is_hide_env_values_set();
    let given = if is_shown {
        format!("it is \"{}\": ", config::shown(&value.to_string_lossy()))
    } else {
        String::new()
    };
    Some(Failure::usage(format!("{variable}: {given}{why}{unset}")))
}

/// The error without what may be a password: a value of `--store`, and credentials anywhere else.
pub(super) fn without_secrets(mut error: Error) -> Error {
    let of_store = error
        .get(ContextKind::InvalidArg)
        .is_some_and(|arg| arg.to_string().starts_with("--store "));
    for kind in [ContextKind::InvalidValue, ContextKind::InvalidArg, ContextKind::InvalidSubcommand]
    {
        let Some(ContextValue::String(given)) = error.get(kind) else { continue };
        let shown = match kind {
            ContextKind::InvalidValue if of_store => HIDDEN.to_owned(),
            _ => without_credentials(given).into_owned(),
        };
        error.insert(kind, ContextValue::String(shown));
    }
    error
}

/// Every flag with its name as a field.
pub(super) fn fields(command: &Command) -> impl Iterator<Item = (String, &Arg)> {
    let flags = command.get_arguments().filter_map(|arg| Some((arg.get_long()?, arg)));
    let flags = flags.filter(|(flag, _)| !NO_FIELDS.contains(flag));
    flags.map(|(flag, arg)| (flag.replace('-', "_"), arg))
}

/// The kind of value that a flag has in a file.
pub(super) fn kind(arg: &Arg) -> SectionKind {
    let parsed = arg.get_value_parser().type_id();
    if let ArgAction::Append = arg.get_action() {
        SectionKind::List
    } else if parsed == TypeId::of::<bool>() {
        SectionKind::Flag
    // Sizes and times are texts in a file, also where their parser returns a number.
    } else if parsed == TypeId::of::<u16>() || parsed == TypeId::of::<u32>() {
        SectionKind::Number
    } else {
        SectionKind::Text
    }
}

/// Reads one value as the flag would; without the variables, which are not asked here.
pub(super) fn check(command: &Command, flag: &str, value: &OsStr) -> Result<(), String> {
    let mut word = OsString::from(format!("--{flag}="));
    word.push(value);
    // Otherwise a wrong variable of another flag would be reported for this value.
    let alone = command.clone().mut_args(|arg| arg.env(None));
    match alone.try_get_matches_from([OsStr::new(""), &word]) {
        Err(error) if error.kind() == ErrorKind::ValueValidation => {
            Err(error.source().map_or_else(|| error.to_string(), ToString::to_string))
        }
        Err(error) if error.kind() == ErrorKind::InvalidUtf8 => {
            Err("expected a text in UTF-8".to_owned())
        }
        Err(error) if error.kind() == ErrorKind::InvalidValue => Err(not_one_of(&error)),
        // The flags that this flag requires may come from another source.
        _ => Ok(()),
    }
}

/// The values that there are, and the nearest.
fn not_one_of(error: &Error) -> String {
    let known = error.get(ContextKind::ValidValue).map(ToString::to_string).unwrap_or_default();
    let meant = error.get(ContextKind::SuggestedValue);
    let meant = meant.map(|word| format!("; did you mean \"{word}\"?")).unwrap_or_default();
    let expected = if known.is_empty() { "a value".to_owned() } else { format!("one of {known}") };
    format!("expected {expected}{meant}")
}
