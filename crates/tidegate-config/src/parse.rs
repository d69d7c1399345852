//! A text read as rules, and as a section of the program's own.

use tidegate_rules::rules::Policy;

use super::diagnostic::ConfigErrors;
use super::document;
use super::section::{Section, SectionValues};
use super::source::{ConfigReport, ConfigSource};

/// Reads the rules of a text; errors name it `file_name`.
///
/// # Errors
/// Every error of the text, in its order: invalid TOML, invalid rules, and the errors of [`Policy::new`].
///
/// ```
/// let policy = tidegate::config::parse(
///     "rules.toml",
///     r#"
///     [[rule]]
///     name = "per-user"
///     key = ["user"]
///     algorithm = "token_bucket"
///     rate = "10/1s"
///     "#,
/// )?;
/// let gate = tidegate::Gate::new(policy);
/// assert!(gate.admits(&[("user", "ada")]));
/// # Ok::<(), tidegate::config::ConfigErrors>(())
/// ```
pub fn parse(file_name: &str, text: &str) -> Result<Policy, ConfigErrors> {
    read(file_name, text, None).map(|(policy, _)| policy)
}

/// Reads the rules of a text, and the values of a section of the program's own in it, if it is
/// there. Only so is the section accepted: to [`parse`] it is unknown.
///
/// # Errors
/// The errors of [`parse`], and every error of the section.
///
/// ```
/// use tidegate::config::{self, Section, SectionKind};
///
/// let check = |_: &str, port: &str| match port.parse::<u16>() {
///     Ok(_) => Ok(()),
///     Err(_) => Err("expected a port".to_owned()),
/// };
/// let section = Section { name: "proxy", fields: &[("port", SectionKind::Number)], check: &check };
/// let rule = "[[rule]]\nname = \"all\"\nalgorithm = \"token_bucket\"\nrate = \"9/s\"\n";
///
/// let text = format!("{rule}[proxy]\nport = 80\n");
/// let (_, values) = config::parse_with("rules.toml", &text, &section)?;
/// assert_eq!(values, [("port".to_owned(), "80".to_owned())]);
///
/// let text = format!("{rule}[proxy]\nport = 80_000\n");
/// let mistakes = config::parse_with("rules.toml", &text, &section).unwrap_err();
/// assert!(mistakes.to_string().starts_with("rules.toml:6:8: `port` is 80000: expected a port"));
/// # Ok::<(), config::ConfigErrors>(())
/// ```
pub fn parse_with(
    file_name: &str,
    text: &str,
    section: &Section<'_>,
) -> Result<(Policy, SectionValues), ConfigErrors> {
    read(file_name, text, Some(section))
}

/// The bytes that a part has before another begins. The tree of so much text takes three megabytes.
const BYTES_OF_A_PART: usize = 64 << 10;

fn read(
    file_name: &str,
    text: &str,
    section: Option<&Section<'_>>,
) -> Result<(Policy, SectionValues), ConfigErrors> {
    if let Some(read) = document::read_in_parts(text, BYTES_OF_A_PART, section) {
        return Ok(read);
    }
    // A text with a mistake is read once more, for the places of its errors.
    let source = ConfigSource::new(file_name, text);
    let mut report = ConfigReport::new(&source);
    let read = document::read(text, section, &mut report);
    // Errors go first: a policy may have been built of the valid parts.
    report.end().and_then(|()| read.ok_or_else(|| ConfigErrors::unexplained(file_name)))
}
