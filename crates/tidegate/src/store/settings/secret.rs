//! A password that is kept where configurations are not.

use std::env::VarError;
use std::path::PathBuf;
use std::{env, fmt, fs};

/// A text that is never shown, given or looked up when it is needed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Secret {
    /// The text itself.
    Text(String),
    /// The value of an environment variable.
    Env(String),
    /// What a file holds, without the end of its last line.
    File(PathBuf),
}

impl Secret {
    /// Looks it up.
    ///
    /// # Errors
    /// That there is no such variable, or the file can not be read.
    pub fn read(&self) -> Result<String, String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::Env(name) => env::var(name).map_err(|error| {
                // What the variable holds is in the error's own text.
                let wrong = match error {
                    VarError::NotPresent => "is not set",
                    VarError::NotUnicode(_) => "is not UTF-8",
                };
                format!("the environment variable `{name}` that should hold the password {wrong}")
            }),
            Self::File(path) => match fs::read_to_string(path) {
                Ok(text) => {
                    Ok(text.strip_suffix('\n').unwrap_or(&text).trim_end_matches('\r').to_owned())
                }
                Err(error) => Err(format!(
                    "the file `{}` that should hold the password: {error}",
                    path.display()
                )),
            },
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
