//! Lines of a form that is known in advance: texts, and fields between them. The forms come from
//! [`notation`](super::notation), given by a user or [`known`](super::known).

use memchr::{memchr, memchr2, memmem};

use super::access_time::AccessTime;
use super::bad_lines::{BadLineReason, text};
use super::logged::{Logged, LoggedParts, LoggedSlot, unquoted};
use super::times;

/// A part of the form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TemplateItem {
    Text(Vec<u8>),
    Field { name: String, kind: FieldKind },
}

/// The meaning of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FieldKind {
    Slot(LoggedSlot),
    /// A time in a form as for `strftime`.
    TimeOf(String),
    Ignored,
}

/// The form of all lines of a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Template {
    /// The name of the format.
    pub(super) name: &'static str,
    pub(super) items: Vec<TemplateItem>,
}

impl Template {
    /// Reads a line. Text after the last item is ignored.
    pub(super) fn parse<'a>(
        &self,
        line: &'a [u8],
        access: &mut AccessTime,
    ) -> Result<Logged<'a>, BadLineReason> {
        let mut parts = LoggedParts::default();
        let mut at_us = None;
        let mut rest = line;
        let mut before: &[u8] = b"";
        let mut last = "the beginning";
        for (place, item) in self.items.iter().enumerate() {
            match item {
                TemplateItem::Text(expected) => {
                    rest = rest
                        .strip_prefix(&expected[..])
                        .ok_or_else(|| format!("expected {:?} after {last}", text(expected)))?;
                    before = expected;
                }
                TemplateItem::Field { name, kind } => {
                    let end = end(rest, before, kind, self.items.get(place + 1))
                        .ok_or_else(|| format!("{name} does not end as the format says"))?;
                    let (value, after) = rest.split_at(end);
                    match kind {
                        FieldKind::Ignored => {}
                        FieldKind::Slot(slot) => parts.set(*slot, unquoted(text(value))),
                        FieldKind::TimeOf(form) => {
                            at_us = Some(times::of_form(form, &text(value))?)
                        }
                    }
                    rest = after;
                    last = name;
                }
            }
        }
        match at_us {
            // A time of a custom form has been read already.
            Some(at_us) => parts.finish_at(at_us),
            None => parts.finish(access),
        }
    }
}

/// Where a field ends: before the next text, or at the end of the line. A quoted field ends at the
/// first quote that is not escaped, a host before a path at its slash, and a list not after a comma; a
/// time of a custom form contains as many of these texts as the form.
/// A last field that has no spaces ends at a space.
fn end(rest: &[u8], before: &[u8], kind: &FieldKind, next: Option<&TemplateItem>) -> Option<usize> {
    let next = match next {
        None => {
            let word =
                [LoggedSlot::Peer, LoggedSlot::Method, LoggedSlot::Target, LoggedSlot::Status];
            let is_word = word.iter().any(|slot| *kind == FieldKind::Slot(*slot));
            let space = memchr2(b' ', b'\t', rest).filter(|_| is_word);
            return Some(space.unwrap_or(rest.len()));
        }
        Some(TemplateItem::Field { .. }) => return memchr(b'/', rest),
        Some(TemplateItem::Text(next)) => next,
    };
    if before.ends_with(b"\"") && next.starts_with(b"\"") {
        let mut end = 0;
        loop {
            end += memchr2(b'"', b'\\', rest.get(end..)?)?;
            if rest[end] == b'"' {
                return Some(end);
            }
            end += 2; // the backslash and what it escapes
        }
    }
    // Only a quoted field has escapes, so here the text itself is searched.
    let mut ends = memmem::find_iter(rest, next);
    match kind {
        // Within the field this text comes as often as in the form, so the field ends at the next.
        FieldKind::TimeOf(form) => ends.nth(memmem::find_iter(form.as_bytes(), next).count()),
        FieldKind::Slot(LoggedSlot::XForwardedFor | LoggedSlot::Forwarded) => {
            ends.find(|end| !rest[..*end].ends_with(b","))
        }
        _ => ends.next(),
    }
}

impl TemplateItem {
    pub(super) fn field(name: impl Into<String>, kind: FieldKind) -> Self {
        Self::Field { name: name.into(), kind }
    }

    /// The slot of a field that is not ignored.
    pub(super) const fn slot(&self) -> Option<LoggedSlot> {
        match self {
            Self::Field { kind: FieldKind::Slot(slot), .. } => Some(*slot),
            Self::Field { kind: FieldKind::TimeOf(_), .. } => Some(LoggedSlot::Time),
            Self::Field { kind: FieldKind::Ignored, .. } | Self::Text(_) => None,
        }
    }
}
