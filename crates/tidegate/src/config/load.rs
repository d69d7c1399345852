//! A file from the disk, which may be missing, very large, or not text.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::diagnostic::{ConfigError, ConfigErrors};
use super::section::{Section, SectionValues};
use super::source::Source;
use crate::Policy;

/// The most bytes of a file of rules: 16 MiB.
const MOST_BYTES: u64 = 16 << 20;

/// Reads the rules of a file; see [`parse`](super::parse()).
///
/// # Errors
/// Every error of its text; or that the file cannot be read, is larger than 16 MiB, or is not
/// UTF-8.
pub fn load(path: &Path) -> Result<Policy, ConfigErrors> {
    parsed(path, super::parse)
}

/// Reads a file with a section of the program's own; see [`parse_with`](super::parse_with()).
///
/// # Errors
/// Those of [`load`], and every error of the section.
pub fn load_with(
    path: &Path,
    section: &Section<'_>,
) -> Result<(Policy, SectionValues), ConfigErrors> {
    parsed(path, |name, text| super::parse_with(name, text, section))
}

/// Parses the text of a file.
fn parsed<T>(
    path: &Path,
    parse: impl FnOnce(&str, &str) -> Result<T, ConfigErrors>,
) -> Result<T, ConfigErrors> {
    let name = path.display().to_string();
    let bytes = read(path).map_err(|error| ConfigError::of_file(&name, unreadable(&error)))?;
    if bytes.len() as u64 > MOST_BYTES {
        let message = "larger than 16 MiB: expected a file of rules".to_owned();
        return Err(ConfigError::of_file(&name, message).into());
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => parse(&name, text),
        Err(error) => Err(not_utf8(&name, &bytes, error.valid_up_to()).into()),
    }
}

/// The bytes of the file, at most one more than it may have, so that the caller sees that it is too large.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file: expected a TOML file of rules".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory: expected a TOML file of rules".to_owned(),
        _ => format!("can not be read: {error}"),
    }
}

fn not_utf8(name: &str, bytes: &[u8], at: usize) -> ConfigError {
    let byte = bytes.get(at).copied().unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let message = format!(
        "byte {at} of the file is 0x{byte:02x}, which is not UTF-8 there: expected TOML, saved as UTF-8"
    );
    // The text before the first bad byte is the same in both.
    Source::new(name, &text).error(&(at..at), message)
}
