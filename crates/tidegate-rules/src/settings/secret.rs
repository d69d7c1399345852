//! A password that is kept outside of configurations.
//!
//! It is read for each connection, so that a password can change while a program runs.

use std::env::VarError;
use std::path::PathBuf;
use std::{env, fmt};

use crate::secret_file::read_secret_file;

/// A text that is never shown: given, or read when it is needed.
///
/// ```
/// use tidegate::Secret;
///
/// assert_eq!(Secret::Text("s3cret".to_owned()).read().as_deref(), Ok("s3cret"));
/// let missing = Secret::Env("TIDEGATE_NO_SUCH_VARIABLE".to_owned()).read();
/// assert!(missing.is_err_and(|why| why.contains("is not set")));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Secret {
    /// The text itself.
    Text(String),
    /// The value of an environment variable.
    Env(String),
    /// The content of a file, without the end of its last line.
    File(PathBuf),
}

impl Secret {
    /// Reads the text.
    ///
    /// # Errors
    /// Returns an error if there is no such variable, or the file cannot be read, or if the content
    /// is no password: it is empty, or has more than one line.
    pub fn read(&self) -> Result<String, String> {
        let (place, held) = match self {
            Self::Text(text) => return Ok(text.clone()),
            Self::Env(name) => {
                // The error's own text contains the value of the variable.
                let held = env::var(name).map_err(|error| match error {
                    VarError::NotPresent => "is not set".to_owned(),
                    VarError::NotUnicode(_) => "is not UTF-8".to_owned(),
                });
                (format!("environment variable `{name}`"), held)
            }
            Self::File(path) => {
                let bytes = read_secret_file(path);
                let held =
                    bytes.map_err(|error| format!("cannot be read: {error}")).and_then(|bytes| {
                        String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())
                    });
                (format!("file `{}`", path.display()), held)
            }
        };
        let line = held.and_then(|text| one_line(&text).map_err(str::to_owned));
        line.map_err(|wrong| format!("the {place} that should hold the password {wrong}"))
    }
}

/// The only line of a text, without its end; else the error, which does not show it.
fn one_line(text: &str) -> Result<String, &'static str> {
    let line = text.strip_suffix('\n').unwrap_or(text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    match line {
        "" => Err("is empty"),
        _ if line.contains(['\n', '\r']) => {
            Err("has more than one line: expected the password alone")
        }
        _ => Ok(line.to_owned()),
    }
}

/// Where the text is kept, as an operator reads it.
impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("a text that is not shown"),
            Self::Env(name) => write!(f, "the environment variable {name}"),
            Self::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text(..)"),
            Self::Env(name) => f.debug_tuple("Env").field(name).finish(),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_line_that_is_not_empty() {
        for (held, password) in [
            ("right", Ok("right")),
            ("right\n", Ok("right")),
            ("right\r\n", Ok("right")),
            (" right ", Ok(" right ")),
            ("", Err("is empty")),
            ("\n", Err("is empty")),
            ("old\rnew", Err("has more than one line: expected the password alone")),
            ("old\nnew\n", Err("has more than one line: expected the password alone")),
        ] {
            assert_eq!(one_line(held), password.map(str::to_owned), "{held:?}");
        }
    }
}
