//! Standard output of every command, whose reader may go away, as `head` does.

use std::io::{self, ErrorKind, Write};

use comfy_table::Table;
use tidegate::printable;

use crate::failure::Failure;

/// The columns of the terminal that standard output is; `None` if it is a file or a pipe, or does not
/// say.
pub(crate) fn width() -> Option<u16> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(size.ws_col).filter(|columns| *columns > 0)
}

/// The columns that a table without lines between its columns takes on a terminal.
pub(crate) fn columns(table: &Table) -> usize {
    let shown = table.column_iter().zip(table.column_max_content_widths());
    let shown = shown.filter(|(column, _)| !column.is_hidden());
    let columns: usize = shown
        .map(|(column, content)| usize::from(content) + usize::from(column.padding_width()))
        .sum();
    // The right padding of the last column is trimmed.
    columns.saturating_sub(1)
}

/// Prints a text immediately, without control characters. If the reader went away, that is not a
/// failure.
///
/// # Errors
/// Returns any other error of writing.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    write(printable::text(text).as_bytes())
}

/// Prints bytes as they are, for programs; otherwise like [`print`].
///
/// # Errors
/// Returns any error of writing but that the reader went away.
pub(crate) fn write(bytes: &[u8]) -> Result<(), Failure> {
    write_to_reader(bytes).map(|_| ())
}

/// Like [`print`]; returns whether there is still a reader, for output without an end.
///
/// # Errors
/// Returns any error of writing but that the reader went away.
pub(crate) fn print_while_read(text: &str) -> Result<bool, Failure> {
    write_to_reader(printable::text(text).as_bytes())
}

fn write_to_reader(bytes: &[u8]) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout().lock();
    had_reader(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Returns whether standard output still has a reader, by the result of writing to it.
///
/// # Errors
/// Returns any error of writing but that the reader went away.
pub(crate) fn had_reader(written: io::Result<()>) -> Result<bool, Failure> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to standard output: {error}")))
        }
        written => Ok(written.is_ok()),
    }
}
