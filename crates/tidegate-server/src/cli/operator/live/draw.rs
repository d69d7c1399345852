//! The drawing of a live view: title, outages, tables and keys. Texts of strangers are escaped here.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row, Table};
use tidegate::{Timestamp, printable};

use super::super::columns::{FittedColumns, SPACE, cut, heading, shares, width};
use super::super::page::{PageTable, time_of_day};
use super::super::tables::escaped;
use super::view::LiveView;

const HINTS: &str = "q quit  ? help  s sort  / filter  p pause";
const HELP: [&str; 9] = [
    "q, Ctrl-C   quit",
    "s, →        sort by the next column",
    "←           by the column before",
    "r           the other way round",
    "/           only rows with a text",
    "Esc         all rows",
    "p           pause, go on",
    "↑ ↓ PgUp …  scroll",
    "?           close this help",
];

/// A table with the rows that the view leaves of it, ready to be drawn.
struct ShownTable<'a> {
    table: &'a PageTable,
    rows: Vec<Vec<String>>,
    columns: FittedColumns,
    after: Option<String>,
}

/// Draws the whole screen. The view is scrolled no further than to the last row of its longest table.
pub(super) fn draw(view: &mut LiveView, frame: &mut Frame<'_>, now: Timestamp) {
    let columns = frame.area().width;
    // Each text is cut to one line, so that the height of the head is known.
    let mut head = vec![Line::styled(line(&view.title, columns), Modifier::BOLD)];
    if let Some((reached, seconds, why)) = view.outage(now) {
        let reached = time_of_day(reached.as_micros());
        let reached = reached.split('.').next().unwrap_or_default();
        let when = format!("last reached {reached} UTC, {seconds} s ago");
        let style = strong(view, Color::Red);
        head.extend([when.as_str(), why].map(|text| Line::styled(line(text, columns), style)));
    }
    let notice = view.page.notice.iter();
    head.extend(notice.map(|text| Line::styled(line(text, columns), strong(view, Color::Yellow))));
    let height = u16::try_from(head.len() + 1).unwrap_or(u16::MAX);
    let areas = [Constraint::Length(height), Constraint::Min(0), Constraint::Length(1)];
    let [top, body, foot] = Layout::vertical(areas).areas(frame.area());
    frame.render_widget(Paragraph::new(head), top);
    view.offset = tables(view, frame, body);
    frame.render_widget(Paragraph::new(keys(view)), foot);
    if view.has_help {
        help(frame);
    }
}

/// A text as a line of this many columns.
fn line(text: &str, columns: u16) -> String {
    cut(&printable::line(text), columns)
}

/// The last line: the choices of the person, and the keys.
fn keys(view: &LiveView) -> Line<'static> {
    let filter = printable::line(&view.filter).into_owned();
    if view.is_typing {
        return Line::raw(format!("/{filter}▏"));
    }
    let mut chosen = String::new();
    if view.is_paused {
        chosen.push_str("PAUSED  ");
    }
    if let Some(heading) = sorted_by(view) {
        let order = if view.is_reversed { ", reversed" } else { "" };
        chosen.push_str(&format!("by {heading}{order}  "));
    }
    if !filter.is_empty() {
        chosen.push_str(&format!("/{filter}  "));
    }
    Line::from(vec![
        Span::styled(chosen, strong(view, Color::Yellow)),
        Span::styled(HINTS, Modifier::DIM),
    ])
}

/// The heading of the column by which the first table is sorted.
fn sorted_by(view: &LiveView) -> Option<&'static str> {
    view.page.tables.first()?.columns.headings.get(view.sort?).copied()
}

/// Draws the tables below each other; if they are too high together, each has a part of the height, and the last have
/// none. Returns the rows that are scrolled out of the longest table.
fn tables(view: &LiveView, frame: &mut Frame<'_>, area: Rect) -> usize {
    let mut tables: Vec<_> = view
        .page
        .tables
        .iter()
        .enumerate()
        .map(|(place, table)| ShownTable::of(view, table, place == 0, area.width))
        .collect();
    // A heading without a row tells nothing, so the last tables make room for the first.
    while tables.len() > 1 && tables.iter().map(ShownTable::least_height).sum::<u16>() > area.height
    {
        tables.pop();
    }
    let least: Vec<_> = tables.iter().map(ShownTable::least_height).collect();
    let wanted: Vec<_> = tables.iter().map(ShownTable::height).collect();
    // First a row for each table, and then what is left.
    let needs: Vec<_> = wanted.iter().zip(&least).map(|(all, least)| all - least).collect();
    let more = shares(&needs, area.height.saturating_sub(least.iter().sum()));
    let mut top = area.y;
    let mut offset = 0;
    for (place, (table, more)) in tables.iter().zip(more).enumerate() {
        let height = (table.least_height() + more).min(area.height);
        let area = Rect { y: top, height, ..area };
        // All tables scroll together, as far as the longest goes.
        offset = offset.max(table.draw(view, frame, area, place == 0));
        top += height;
    }
    offset
}

impl<'a> ShownTable<'a> {
    fn of(view: &LiveView, table: &'a PageTable, is_first: bool, width: u16) -> Self {
        let found = view.rows(table, is_first);
        let after = match table.more(found.len()) {
            None if found.is_empty() && !table.rows.is_empty() => {
                Some("no row has the text".to_owned())
            }
            more => more,
        };
        let rows: Vec<_> = found.into_iter().take(table.most).map(|row| escaped(row)).collect();
        let columns = FittedColumns::of(table.columns, &rows, width);
        Self { table, rows, columns, after }
    }

    /// A title stands for a table without rows.
    fn has_table(&self) -> bool {
        !self.table.rows.is_empty() || self.table.title.is_empty()
    }

    /// The lines that it needs to show a row.
    fn least_height(&self) -> u16 {
        let table =
            if self.has_table() { self.columns.heading_height(self.table.columns) + 1 } else { 0 };
        table + u16::from(!self.table.title.is_empty()) + u16::from(self.after.is_some())
    }

    /// The lines that it needs, with an empty line after it.
    fn height(&self) -> u16 {
        let title = u16::from(!self.table.title.is_empty());
        let after = u16::from(self.after.is_some());
        let rows = u16::try_from(self.rows.len()).unwrap_or(u16::MAX);
        let table = if self.has_table() {
            rows.saturating_add(self.columns.heading_height(self.table.columns))
        } else {
            0
        };
        table.saturating_add(title + after + 1)
    }

    /// Draws the table; returns the rows that are scrolled out of it.
    fn draw(&self, view: &LiveView, frame: &mut Frame<'_>, area: Rect, is_first: bool) -> usize {
        let title = u16::from(!self.table.title.is_empty());
        let after = u16::from(self.after.is_some());
        // The empty line after a table is the first to go.
        let space = u16::from(area.height >= self.height());
        let areas = [
            Constraint::Length(title),
            Constraint::Min(0),
            Constraint::Length(after),
            Constraint::Length(space),
        ];
        let [top, middle, bottom, _] = Layout::vertical(areas).areas(area);
        frame.render_widget(Line::raw(cut(&self.table.title, area.width)), top);
        if let Some(after) = &self.after {
            frame.render_widget(Line::styled(after.clone(), Modifier::DIM), bottom);
        }
        if !self.has_table() {
            return 0;
        }
        let visible = usize::from(
            middle.height.saturating_sub(self.columns.heading_height(self.table.columns)),
        );
        // The last rows fill the table, however far a longer table is scrolled.
        let offset = view.offset.min(self.rows.len().saturating_sub(visible));
        let rows = self.rows.iter().skip(offset).take(visible).map(|row| self.row(view, row));
        let widths = self.columns.widths.iter().map(|(_, width)| Constraint::Length(*width));
        let table =
            Table::new(rows, widths).column_spacing(SPACE).header(self.header(view, is_first));
        frame.render_widget(table, middle);
        offset
    }

    fn header(&self, view: &LiveView, is_first: bool) -> Row<'static> {
        let cells = self.columns.widths.iter().map(|(place, _)| {
            let text = self.table.columns.headings.get(*place).copied().unwrap_or_default();
            let text = heading(text, self.columns.is_stacked);
            let is_sorted = is_first && view.sort == Some(*place);
            let style = Style::from(Modifier::BOLD);
            let style = if is_sorted { style.add_modifier(Modifier::REVERSED) } else { style };
            Cell::from(self.aligned(*place, text)).style(style)
        });
        Row::new(cells).height(self.columns.heading_height(self.table.columns))
    }

    fn row(&self, view: &LiveView, row: &[String]) -> Row<'static> {
        let cells = self.columns.widths.iter().map(|(place, width)| {
            let text = row.get(*place).map_or("", String::as_str);
            let heading = self.table.columns.headings.get(*place).copied().unwrap_or_default();
            let colour = colour(heading, text).filter(|_| view.has_colour);
            let style = colour.map(Style::from).unwrap_or_default();
            Cell::from(self.aligned(*place, cut(text, *width))).style(style)
        });
        Row::new(cells)
    }

    fn aligned(&self, place: usize, text: String) -> Text<'static> {
        let text = Text::from(text);
        if self.table.columns.numbers.contains(&place) { text.right_aligned() } else { text }
    }
}

/// The colour of a cell that is worth a look.
fn colour(heading: &str, text: &str) -> Option<Color> {
    let refusals = ["REFUSED", "BLOCK", "FAIL"];
    match heading {
        "OUTCOME" if text.starts_with("allowed") => Some(Color::Green),
        "OUTCOME" if text.starts_with("shadow") => Some(Color::Yellow),
        "OUTCOME" => Some(Color::Red),
        "MODE" if text != "enforce" => Some(Color::Yellow),
        _ if text != "0" && refusals.iter().any(|one| heading.starts_with(one)) => Some(Color::Red),
        _ => None,
    }
}

fn strong(view: &LiveView, colour: Color) -> Style {
    let style = Style::from(Modifier::BOLD);
    if view.has_colour { style.fg(colour) } else { style }
}

/// Draws the help over the middle of the screen.
fn help(frame: &mut Frame<'_>) {
    let all = frame.area();
    let widest = HELP.iter().map(|line| width(line)).max().unwrap_or(0);
    // On a small screen the help is cut, and not moved out of it.
    let size = [
        (widest + 4).min(all.width),
        u16::try_from(HELP.len() + 2).unwrap_or(u16::MAX).min(all.height),
    ];
    let area = Rect {
        x: (all.width - size[0]) / 2,
        y: (all.height - size[1]) / 2,
        width: size[0],
        height: size[1],
    };
    let lines: Vec<_> = HELP.iter().map(|line| Line::raw(format!(" {line}"))).collect();
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), area);
}
