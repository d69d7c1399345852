//! A live view on a terminal, for `top`, `stats --watch` and `tail`. The terminal is given back at the end, also after a
//! panic, a signal or an error.

mod draw;
mod terminal;
mod view;

use std::env;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::page::{Page, now};
use crate::failure::Failure;
use terminal::LiveTerminal;
use view::LiveView;

/// The way of pages into the view. A page comes at least each second, or the failure that stands in its way.
pub(super) type Pages = mpsc::Sender<Result<Page, Failure>>;

/// The time between two pages.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Returns whether standard output is a terminal that can show a view.
pub(super) fn is_possible() -> bool {
    io::stdout().is_terminal() && env::var_os("TERM").is_none_or(|kind| kind != "dumb")
}

/// Shows the pages that `feed` sends until the person presses `q` or Ctrl-C, or the process is to end.
///
/// # Errors
/// Returns an error of the terminal.
pub(super) async fn show<F: Future<Output = ()>>(
    title: String,
    feed: impl FnOnce(Pages) -> F,
) -> Result<(), Failure> {
    let mut interrupt = signals(SignalKind::interrupt())?;
    let mut terminate = signals(SignalKind::terminate())?;
    let mut hangup = signals(SignalKind::hangup())?;
    let mut quit = signals(SignalKind::quit())?;
    let mut resize = signals(SignalKind::window_change())?;
    let (send, mut pages) = mpsc::channel(1);
    // Pinned, because a key must not end a request that is under way.
    let mut feed = pin!(feed(send));
    let has_colour = env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    let mut view = LiveView::new(title, has_colour, now());
    let mut terminal = LiveTerminal::begin()?;
    let mut keys = terminal.keys();
    loop {
        // After each event the whole screen is drawn, and the cells that have changed are written.
        terminal.draw(|frame| draw::draw(&mut view, frame, now()))?;
        tokio::select! {
            Some(page) = pages.recv() => view.update(page, now()),
            Some(key) = keys.recv() => {
                if view.press(key) {
                    return Ok(());
                }
            }
            () = &mut feed => return Ok(()),
            _ = resize.recv() => {}
            // An outage grows older.
            () = sleep(PAUSE) => {}
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = hangup.recv() => return Ok(()),
            _ = quit.recv() => return Ok(()),
        }
    }
}

fn signals(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(format!("signals cannot be received: {error}")))
}

#[cfg(test)]
mod tests;
