//! The terminal while it shows a view: its alternate screen, without cursor, and its keys one by one.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::thread;

use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEvent};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::prelude::CrosstermBackend;
use ratatui::{Frame, Terminal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::failure::Failure;

/// The terminal, which is given back when this is dropped.
pub(super) struct LiveTerminal {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl LiveTerminal {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Returns an error of writing.
    pub(super) fn begin() -> Result<Self, Failure> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            // First, so that the message is on the screen that stays.
            give_back();
            before(panic);
        }));
        let terminal = Terminal::new(CrosstermBackend::new(stdout())).map_err(unwritten)?;
        // Made before the terminal changes, so that an error of the write gives it back.
        let terminal = Self { terminal };
        // Without a terminal to read from there are no keys, and the view is shown all the same.
        let _ = enable_raw_mode();
        execute!(stdout(), EnterAlternateScreen).map_err(unwritten)?;
        Ok(terminal)
    }

    /// Draws the screen; only what has changed is written.
    ///
    /// # Errors
    /// Returns an error of writing.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        self.terminal.draw(draw).map(|_| ()).map_err(unwritten)
    }

    /// The keys that the person presses; none if they cannot be read.
    pub(super) fn keys(&self) -> UnboundedReceiver<KeyEvent> {
        let (send, keys) = unbounded_channel();
        // It reads until the process ends.
        thread::spawn(move || {
            while let Ok(event) = event::read() {
                if let Event::Key(key) = event
                    && key.is_press()
                    && send.send(key).is_err()
                {
                    return;
                }
            }
        });
        keys
    }
}

impl Drop for LiveTerminal {
    fn drop(&mut self) {
        give_back();
    }
}

fn give_back() {
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

fn unwritten(error: io::Error) -> Failure {
    Failure::new(format!("cannot write to the terminal: {error}"))
}
