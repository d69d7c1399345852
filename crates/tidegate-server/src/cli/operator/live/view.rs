//! The state of a live view: the page, its order and filter, and the keys that change them.

use std::cmp::Ordering;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tidegate::Timestamp;

use super::super::page::{Page, PageTable};
use crate::failure::Failure;

/// The time after which a server that does not answer counts as away, in microseconds.
const PATIENCE_US: u64 = 3_000_000;
/// The rows that a page key moves by.
const MANY: usize = 10;

/// The contents of a live view, their order, and the filter.
pub(super) struct LiveView {
    pub(super) title: String,
    pub(super) has_colour: bool,
    pub(super) page: Page,
    /// The newest page, while the view is paused.
    held: Option<Page>,
    pub(super) is_paused: bool,
    /// The time of the newest page.
    reached: Timestamp,
    /// The failure since then.
    failure: Option<String>,
    /// The column of the first table by which it is sorted.
    pub(super) sort: Option<usize>,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    /// True while the filter is typed.
    pub(super) is_typing: bool,
    pub(super) has_help: bool,
    /// The rows that are scrolled out at the top. Drawing stops it at the last row, because the height is known then.
    pub(super) offset: usize,
}

impl LiveView {
    pub(super) fn new(title: String, has_colour: bool, now: Timestamp) -> Self {
        Self {
            title,
            has_colour,
            page: Page::default(),
            held: None,
            is_paused: false,
            reached: now,
            failure: None,
            sort: None,
            is_reversed: false,
            filter: String::new(),
            is_typing: false,
            has_help: false,
            offset: 0,
        }
    }

    /// Takes a newer page, or the reason why there is none. The last page stays during an outage.
    pub(super) fn update(&mut self, page: Result<Page, Failure>, now: Timestamp) {
        match page {
            Ok(page) => {
                (self.reached, self.failure) = (now, None);
                // A pause holds what the person reads, and not what the server does.
                if self.is_paused {
                    self.held = Some(page);
                } else {
                    self.page = page;
                }
            }
            // The last page stays, because old numbers are better than none.
            Err(failure) => self.failure = Some(failure.message().to_owned()),
        }
    }

    /// The time of the last answer, the seconds since then, and the failure, if the server is away.
    pub(super) fn outage(&self, now: Timestamp) -> Option<(Timestamp, u64, &str)> {
        let us = now.as_micros().saturating_sub(self.reached.as_micros());
        let why = self.failure.as_deref().or_else(|| (us > PATIENCE_US).then_some("no answer"));
        Some((self.reached, us / 1_000_000, why?))
    }

    /// Obeys a key; returns whether it ends the view.
    pub(super) fn press(&mut self, key: KeyEvent) -> bool {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        // In raw mode Ctrl-C is a key, and no signal.
        if has_control {
            return matches!(key.code, KeyCode::Char('c'));
        }
        if self.is_typing {
            self.type_filter(key.code);
            return false;
        }
        // Any key closes the help.
        if self.has_help && key.code != KeyCode::Char('q') {
            self.has_help = false;
            return false;
        }
        match key.code {
            KeyCode::Char('q' | 'Q') => return true,
            KeyCode::Char('s') | KeyCode::Right => self.sort_by(1),
            KeyCode::Left => self.sort_by(-1),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('p' | ' ') => self.pause(),
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Up | KeyCode::Char('k') => self.offset = self.offset.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.offset = self.offset.saturating_add(1),
            KeyCode::PageUp => self.offset = self.offset.saturating_sub(MANY),
            KeyCode::PageDown => self.offset = self.offset.saturating_add(MANY),
            KeyCode::Home => self.offset = 0,
            _ => {}
        }
        false
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(typed) => self.filter.push(typed),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
        // The rows that were scrolled to may be gone.
        self.offset = 0;
    }

    /// Sorts by the next column, or by the column before; before the first column is the order of the server.
    fn sort_by(&mut self, step: isize) {
        let columns = self.page.tables.first().map_or(0, |table| table.columns.headings.len());
        // The order of the server is place 0.
        let place = self.sort.map_or(0, |column| column + 1);
        let next = place.checked_add_signed(step).unwrap_or(columns);
        self.sort = next.checked_sub(1).filter(|column| *column < columns);
        // Each column begins in its usual order.
        self.is_reversed = false;
    }

    fn pause(&mut self) {
        self.is_paused = !self.is_paused;
        if let Some(page) = self.held.take() {
            self.page = page;
        }
    }

    /// The rows of a table that the filter leaves, in the order of the view. Only the first table is sorted.
    pub(super) fn rows<'a>(&self, table: &'a PageTable, is_first: bool) -> Vec<&'a Vec<String>> {
        let wanted = self.filter.to_lowercase();
        let rows = table.rows.iter();
        let mut rows: Vec<_> = rows.filter(|row| has_text(row, table, &wanted)).collect();
        if let Some(column) = self.sort.filter(|_| is_first) {
            let numbers = table.columns.numbers.contains(&column);
            rows.sort_by(|a, b| {
                let order = compare(a, b, column, numbers);
                if self.is_reversed { order.reverse() } else { order }
            });
        }
        rows
    }
}

/// Returns whether a text of a row contains a text in lower case. Numbers change each second, so they are not searched:
/// a row must not come and go.
fn has_text(row: &[String], table: &PageTable, wanted: &str) -> bool {
    let texts = row.iter().enumerate();
    let mut texts = texts.filter(|(place, _)| !table.columns.numbers.contains(place));
    wanted.is_empty() || texts.any(|(_, text)| text.to_lowercase().contains(wanted))
}

/// Large numbers go first, and texts in the order of the alphabet.
fn compare(a: &[String], b: &[String], column: usize, are_numbers: bool) -> Ordering {
    let a = a.get(column).map_or("", String::as_str);
    let b = b.get(column).map_or("", String::as_str);
    if are_numbers { amount(b).total_cmp(&amount(a)) } else { a.cmp(b) }
}

/// The number in a cell, such as `~16`, `1.08ms` or `-`.
fn amount(cell: &str) -> f64 {
    let digits = cell.trim_start_matches('~');
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    digits.get(..end).and_then(|number| number.parse().ok()).unwrap_or(-1.0)
}
