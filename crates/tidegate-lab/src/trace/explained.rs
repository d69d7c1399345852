//! Explanations of lines: the format, the prefix and each field.
//!
//! `explain` returns it for a line that a user asks about.

use std::fmt;

use tidegate::{Limit, Micros};

use super::event::{LineEvent, SuppliedLimit};
use super::logged::Logged;
use super::times;

/// The explanation of one line of a trace; its text has a line for each field.
///
/// [`explain`](super::explain) makes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Explained {
    /// The names of texts before the line, or around it, that are dropped.
    pub prefixes: Vec<&'static str>,
    /// The name of the format; `None` for a line of no known format.
    pub format: Option<&'static str>,
    /// Names and values: the time and the client as the line has them, then the entries of the
    /// descriptor.
    pub fields: Vec<(String, String)>,
    /// The entries of the first descriptor, which are also among `fields`.
    pub entries: Vec<(String, String)>,
    /// The names of the fields of a JSON log that are not read.
    pub not_read: Vec<String>,
    /// The beginning of the line.
    pub line: String,
    /// The reason why the line is left out; `None` for a request.
    pub problem: Option<String>,
}

impl Explained {
    fn field(&mut self, name: &str, value: impl Into<String>) {
        self.fields.push((name.to_owned(), value.into()));
    }

    /// A line of NDJSON.
    pub(super) fn event(&mut self, event: &LineEvent<'_>) {
        self.field("time", times::shown(event.at_us));
        self.field("domain", &*event.domain);
        self.asked(event.cost, event.limit);
        if let Some(id) = &event.request_id {
            self.field("request_id", &**id);
        }
        if let Some(allowed) = event.allowed {
            self.field("allowed", allowed.to_string());
        }
        self.entries(event);
        for one in &event.more {
            self.asked(one.cost, one.limit);
            one.entries.iter().for_each(|(name, value)| self.field(name, &**value));
        }
    }

    /// The cost of a descriptor, and its limit.
    fn asked(&mut self, cost: u64, limit: Option<SuppliedLimit>) {
        self.field("cost", cost.to_string());
        match limit {
            None => {}
            Some(SuppliedLimit { limit: Limit::Unlimited, .. }) => self.field("limit", "unlimited"),
            Some(SuppliedLimit { limit: Limit::Units(units), window }) => {
                self.field("limit", format!("{units} per {}", Micros::from(window)));
            }
        }
    }

    /// The time of a logged request, and its client as written.
    pub(super) fn written(&mut self, logged: &Logged<'_>) {
        self.field("time", times::shown(logged.at_us));
        let client = &logged.client;
        for (name, value) in [
            ("client", &client.peer),
            ("x-forwarded-for", &client.x_forwarded_for),
            ("forwarded", &client.forwarded),
        ] {
            if let Some(value) = value {
                self.field(name, &**value);
            }
        }
    }

    pub(super) fn entries(&mut self, event: &LineEvent<'_>) {
        let entries = event.descriptor.iter();
        self.entries = entries.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        self.fields.extend_from_slice(&self.entries);
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rows: Vec<(&str, String)> = Vec::new();
        if !self.prefixes.is_empty() {
            rows.push(("prefix", self.prefixes.join(", ")));
        }
        rows.extend(self.format.map(|format| ("format", format.to_owned())));
        rows.extend(self.fields.iter().map(|(name, value)| (name.as_str(), value.clone())));
        if let Some(problem) = &self.problem {
            rows.push(("left out", problem.clone()));
            if !self.line.trim().is_empty() {
                rows.push(("line", self.line.clone()));
            }
        }
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (place, (name, value)) in rows.iter().enumerate() {
            let end = if place == 0 { "" } else { "\n" };
            write!(f, "{end}{name:width$}  {value}")?;
        }
        Ok(())
    }
}
