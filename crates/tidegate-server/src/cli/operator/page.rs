//! The contents of `top`, `stats` and `tail`: tables with their titles, for a live view or printed once.

use hyper::Method;
use serde_json::Value;
use tidegate::{Clock, SystemClock, Timestamp};

use super::ListenerClient;
use super::columns::TableColumns;
use super::tables::table;
use crate::failure::Failure;

/// Tables below each other.
#[derive(Default)]
pub(super) struct Page {
    /// A fact that goes before the numbers, such as an outage of the store.
    pub(super) notice: Option<String>,
    pub(super) tables: Vec<PageTable>,
}

/// A table with its title.
pub(super) struct PageTable {
    /// Empty if the columns say enough.
    pub(super) title: String,
    pub(super) columns: &'static TableColumns<'static>,
    pub(super) rows: Vec<Vec<String>>,
    /// The largest number of rows that are shown; only rules are ever more.
    pub(super) most: usize,
}

impl PageTable {
    /// The text about rules that are not shown.
    pub(super) fn more(&self, rows: usize) -> Option<String> {
        let more = rows.saturating_sub(self.most);
        (more > 0).then(|| format!("and {more} more rules"))
    }

    /// The table as a text, for a terminal of a width or for a file.
    pub(super) fn printed(&self, width: Option<u16>) -> String {
        let mut text = self.title.clone();
        if !text.is_empty() {
            text.push('\n');
        }
        // A title stands for a table without rows.
        if !self.rows.is_empty() || text.is_empty() {
            text.push_str(&table(width, self.columns, self.rows.iter().take(self.most).cloned()));
        }
        if let Some(more) = self.more(self.rows.len()) {
            text.push_str(&format!(" {more}\n"));
        }
        text
    }
}

impl Page {
    /// The tables as a text, for a terminal of a width or for a file.
    pub(super) fn printed(&self, width: Option<u16>) -> String {
        let tables: Vec<_> = self.tables.iter().map(|table| table.printed(width)).collect();
        tables.join("\n")
    }

    /// The page with a notice if the server or its store is not well.
    ///
    /// # Errors
    /// Returns why the server does not answer.
    pub(super) async fn with_notice(self, listener: &ListenerClient) -> Result<Self, Failure> {
        let (status, text) = listener.send(Method::GET, "/healthz", "").await?;
        let notice = if status.is_success() {
            notice(&serde_json::from_str(&text).unwrap_or_default())
        } else {
            Some(listener.refused(status, &text).message().to_owned())
        };
        Ok(Self { notice, ..self })
    }
}

/// The text about a store that does not decide.
fn notice(health: &Value) -> Option<String> {
    let away = match health["store"]["state"].as_str()? {
        "unavailable" => "the store is unavailable",
        "partly_unavailable" => "a part of the store is unavailable",
        _ => return None,
    };
    Some(format!("{away}: rules decide by their on_store_error"))
}

/// The time of this machine.
pub(super) fn now() -> Timestamp {
    SystemClock::new().now()
}

/// A time of day in UTC: `12:00:01.250`.
pub(super) fn time_of_day(us: u64) -> String {
    let all_ms = us / 1_000;
    let s = all_ms / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02}.{:03}", s / 3_600, s / 60 % 60, s % 60, all_ms % 1_000)
}
