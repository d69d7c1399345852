//! The format of a log as in its server's configuration: in nginx's notation or in Apache's.
//!
//! A user gives it for a log that is not recognised. It becomes a template, which reads all lines.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::logged::LoggedSlot;
use super::template::{FieldKind, Template, TemplateItem};

mod apache;
mod directive;
mod nginx;

/// The format of a log, in the notation of nginx or Apache.
///
/// The text is the argument of nginx's `log_format` or Apache's `LogFormat`, without the quotes around it, or the whole
/// directive. It must have the client and the time; other fields of a line may be named or not.
///
/// ```
/// use tidegate_lab::trace::LogFormat;
///
/// let nginx = r#"$remote_addr [$time_iso8601] "$request" $status $request_time"#;
/// assert!(nginx.parse::<LogFormat>().is_ok());
/// let apache = r#"%h %l %u %t \"%r\" %>s %b"#;
/// assert!(apache.parse::<LogFormat>().is_ok());
/// let error = "$remote_addr $request".parse::<LogFormat>().unwrap_err();
/// assert!(error.to_string().contains("has no time"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFormat(pub(super) Arc<Template>);

/// The reason why a text is not the format of a log that can be replayed.
#[derive(Clone, PartialEq, Eq)]
pub struct LogFormatError(String);

impl fmt::Display for LogFormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

tidegate::debug_as_display!(LogFormatError);

impl Error for LogFormatError {}

impl FromStr for LogFormat {
    type Err = LogFormatError;

    fn from_str(text: &str) -> Result<Self, LogFormatError> {
        template("the given format", &directive::format(text)?).map(Arc::new).map(Self)
    }
}

/// Reads a format in either notation.
pub(super) fn template(name: &'static str, text: &str) -> Result<Template, LogFormatError> {
    // nginx first: its formats may have a percent sign as text, between their variables.
    let items = if nginx::has_variables(text) {
        nginx::items(text)
    } else if text.contains('%') {
        apache::items(text)?
    } else {
        return Err(LogFormatError(
            "the format has no variable: expected nginx's notation, such as \
             '$remote_addr [$time_local] \"$request\" $status', or Apache's, such as \
             '%h %t \"%r\" %>s'"
                .to_owned(),
        ));
    };
    check(&items)?;
    Ok(Template { name, items })
}

fn check(items: &[TemplateItem]) -> Result<(), LogFormatError> {
    let slots: Vec<_> = items.iter().filter_map(TemplateItem::slot).collect();
    let clients = [LoggedSlot::Peer, LoggedSlot::XForwardedFor, LoggedSlot::Forwarded];
    if !clients.iter().any(|client| slots.contains(client)) {
        return Err(LogFormatError(
            "the format has no client: expected $remote_addr, or %h or %a".to_owned(),
        ));
    }
    if !slots.contains(&LoggedSlot::Time) {
        return Err(LogFormatError(
            "the format has no time: expected $time_local, $time_iso8601 or $msec, or %t"
                .to_owned(),
        ));
    }
    for pair in items.windows(2) {
        let [TemplateItem::Field { name, kind }, TemplateItem::Field { name: next, .. }] = pair
        else {
            continue;
        };
        // A host may stand right before a path, whose slash ends it.
        let ends_at_path =
            *kind == FieldKind::Ignored && pair[1].slot() == Some(LoggedSlot::Target);
        if !ends_at_path {
            return Err(LogFormatError(format!(
                "nothing is between {name} and {next}, so the end of the first is not known"
            )));
        }
    }
    Ok(())
}

/// Adds a text to the last text, or after a field.
fn push_text(items: &mut Vec<TemplateItem>, text: &str) {
    match items.last_mut() {
        _ if text.is_empty() => {}
        Some(TemplateItem::Text(last)) => last.extend_from_slice(text.as_bytes()),
        _ => items.push(TemplateItem::Text(text.as_bytes().to_vec())),
    }
}

/// Adds a field. The query right after a target is a part of it.
fn push_field(items: &mut Vec<TemplateItem>, name: String, kind: FieldKind) {
    let is_query = ["%q", "$is_args", "$args", "$query_string"].contains(&name.as_str());
    let in_target = items.last().and_then(TemplateItem::slot) == Some(LoggedSlot::Target);
    if !(is_query && in_target) {
        items.push(TemplateItem::field(name, kind));
    }
}

/// The slot of a header field of requests.
fn of_header(name: &str) -> FieldKind {
    match name.to_ascii_lowercase().replace('_', "-").as_str() {
        "x-forwarded-for" => FieldKind::Slot(LoggedSlot::XForwardedFor),
        "forwarded" => FieldKind::Slot(LoggedSlot::Forwarded),
        "user-agent" => FieldKind::Slot(LoggedSlot::UserAgent),
        _ => FieldKind::Ignored,
    }
}

#[cfg(test)]
mod tests;
