//! The columns of a table that fit a width: the least important columns go first, then texts are cut, and numbers never.

use std::ops::Range;

use ratatui::text::Span;

/// The columns of a table.
pub(super) struct TableColumns<'a> {
    pub(super) headings: &'a [&'a str],
    /// The columns of numbers, which are aligned at their ends and never cut.
    pub(super) numbers: Range<usize>,
    /// The columns that a narrow terminal leaves out, in that order.
    pub(super) least: &'a [usize],
}

/// The columns of the terminal that a text keeps before a column of the table is left out.
const LEAST_OF_A_TEXT: u16 = 12;

/// The space between two columns.
pub(super) const SPACE: u16 = 2;

/// The columns that are shown.
pub(super) struct FittedColumns {
    /// The place of each column in the table, and its width.
    pub(super) widths: Vec<(usize, u16)>,
    /// True if each word of a heading has a line.
    pub(super) is_stacked: bool,
}

impl FittedColumns {
    pub(super) fn of(columns: &TableColumns<'_>, rows: &[Vec<String>], width: u16) -> Self {
        let wide = contents(columns, rows, false);
        if total(wide.iter().copied()) <= width {
            return Self { widths: wide.into_iter().enumerate().collect(), is_stacked: false };
        }
        let needs = contents(columns, rows, true);
        let mut shown: Vec<(usize, u16)> = needs.into_iter().enumerate().collect();
        for column in columns.least {
            // A column goes only if cut texts do not make enough space.
            if total(shown.iter().map(|column| least(columns, *column))) <= width {
                break;
            }
            shown.retain(|(place, _)| place != column);
        }
        let spaces =
            SPACE.saturating_mul(u16::try_from(shown.len().saturating_sub(1)).unwrap_or(0));
        // Numbers keep their width, and the texts share what is left.
        let numbers = shown.iter().filter(|(place, _)| columns.numbers.contains(place));
        let left = width.saturating_sub(spaces).saturating_sub(numbers.map(|(_, need)| need).sum());
        let mut texts: Vec<_> =
            shown.iter_mut().filter(|(place, _)| !columns.numbers.contains(place)).collect();
        let widths = shares(&texts.iter().map(|(_, need)| *need).collect::<Vec<_>>(), left);
        for ((_, width), share) in texts.iter_mut().zip(widths) {
            *width = share;
        }
        Self { widths: shown, is_stacked: true }
    }

    /// The lines of the headings.
    pub(super) fn heading_height(&self, columns: &TableColumns<'_>) -> u16 {
        let headings = self.widths.iter().filter_map(|(place, _)| columns.headings.get(*place));
        let lines = headings.map(|text| heading(text, self.is_stacked).lines().count());
        lines.max().and_then(|lines| u16::try_from(lines).ok()).unwrap_or(0)
    }
}

/// The width that a column needs at least, because only texts may be cut.
fn least(columns: &TableColumns<'_>, (place, need): (usize, u16)) -> u16 {
    if columns.numbers.contains(&place) { need } else { need.min(LEAST_OF_A_TEXT) }
}

/// The heading of a column, with a line for each word if it is stacked.
pub(super) fn heading(heading: &str, is_stacked: bool) -> String {
    if is_stacked { heading.replace(' ', "\n") } else { heading.to_owned() }
}

/// The widths that the columns need. A mark of the order has a place next to each heading.
fn contents(columns: &TableColumns<'_>, rows: &[Vec<String>], is_stacked: bool) -> Vec<u16> {
    let headings = columns.headings.iter().enumerate();
    let widths = headings.map(|(place, text)| {
        let heading = heading(text, is_stacked).lines().map(width).max().unwrap_or(0);
        let cells = rows.iter().filter_map(|row| row.get(place));
        cells.map(|cell| width(cell)).max().unwrap_or(0).max(heading)
    });
    widths.collect()
}

/// The columns that a text takes on a terminal.
pub(super) fn width(text: &str) -> u16 {
    u16::try_from(Span::raw(text).width()).unwrap_or(u16::MAX)
}

fn total(widths: impl Iterator<Item = u16>) -> u16 {
    widths
        .fold(0, |sum: u16, width| sum.saturating_add(width).saturating_add(SPACE))
        .saturating_sub(SPACE)
}

/// The parts of a length that each of these gets: as much as it needs, and if that is too much in all, the same.
pub(super) fn shares(needs: &[u16], length: u16) -> Vec<u16> {
    let mut shares = needs.to_vec();
    let mut order: Vec<_> = shares.iter_mut().collect();
    // The smallest first, because what it leaves is for the others.
    order.sort();
    let mut left = length;
    let mut open = u16::try_from(order.len()).unwrap_or(u16::MAX);
    for share in order {
        *share = (*share).min(left / open.max(1));
        left -= *share;
        open = open.saturating_sub(1);
    }
    shares
}

/// A text, cut to a width with a mark.
pub(super) fn cut(text: &str, most: u16) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(usize::from(most)).collect();
    // A character may take two columns, or none.
    while !cut.is_empty() && width(&cut) >= most {
        cut.pop();
    }
    cut.push('…');
    cut
}
