//! A file from the disk, which may be missing, very large, or not text.
//!
//! A program calls `config::load`. The rest of this folder reads texts, and touches no disk.

use std::io;
use std::path::Path;

use super::diagnostic::{ConfigError, ConfigErrors};
use super::parse::{parse, parse_with};
use super::section::{Section, SectionValues};
use super::source::ConfigSource;
use tidegate_rules::rules::Policy;
use tidegate_rules::secret_file::read_in_time;

/// The maximum number of bytes of a file of rules: 16 MiB.
const MOST_BYTES: u64 = 16 << 20;

/// Reads the rules of a file; see [`parse`].
///
/// # Errors
/// Every error of its text; or that the file cannot be read within ten seconds, is larger than 16 MiB, or is
/// not UTF-8.
///
/// ```no_run
/// use std::path::Path;
///
/// let policy = tidegate::config::load(Path::new("rules.toml"))?;
/// # Ok::<(), tidegate::config::ConfigErrors>(())
/// ```
pub fn load(path: &Path) -> Result<Policy, ConfigErrors> {
    parsed(path, parse)
}

/// Reads a file with a section of the program's own; see [`parse_with`].
///
/// # Errors
/// The errors of [`load`], and every error of the section.
pub fn load_with(
    path: &Path,
    section: &Section<'_>,
) -> Result<(Policy, SectionValues), ConfigErrors> {
    parsed(path, |name, text| parse_with(name, text, section))
}

/// Reads the text of a file of rules within ten seconds; see
/// [`read_secret_file`](tidegate_rules::secret_file::read_secret_file), which treats a path that hangs alike.
///
/// This blocks: call it on a thread that may wait.
///
/// # Errors
/// The file cannot be read in time, is larger than 16 MiB, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, ConfigErrors> {
    let name = path.display().to_string();
    let read = read_in_time(path, MOST_BYTES);
    let bytes = read.map_err(|error| ConfigError::of_file(&name, unreadable(&error)))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        not_utf8(&name, error.as_bytes(), at).into()
    })
}

/// Parses the text of a file.
fn parsed<T>(
    path: &Path,
    parse: impl FnOnce(&str, &str) -> Result<T, ConfigErrors>,
) -> Result<T, ConfigErrors> {
    parse(&path.display().to_string(), &read_text(path)?)
}

fn unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file: expected a TOML file of rules".to_owned(),
        io::ErrorKind::IsADirectory => "is a directory: expected a TOML file of rules".to_owned(),
        io::ErrorKind::FileTooLarge => "larger than 16 MiB: expected a file of rules".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}

fn not_utf8(name: &str, bytes: &[u8], at: usize) -> ConfigError {
    let byte = bytes.get(at).copied().unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        let message =
            "is UTF-16, as some programs on Windows save texts: expected TOML, saved as UTF-8";
        return ConfigError::of_file(name, message.to_owned());
    }
    let message = format!(
        "byte {at} of the file is 0x{byte:02x}, which is not UTF-8 there: expected TOML, saved as UTF-8"
    );
    // The text before the first bad byte is the same in both.
    ConfigSource::new(name, &text).error(&(at..at), message)
}
