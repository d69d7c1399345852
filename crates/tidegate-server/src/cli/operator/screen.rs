//! A live view on a terminal, for `top` and `stats --watch`: its alternate screen, without the cursor, given back at
//! the end.

use std::future::pending;
use std::io::{self, IsTerminal, Read};
use std::thread;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tidegate::printable;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::failure::Failure;
use crate::stdout;

/// Alternate screen, no cursor, and long lines cut in place of wrapped.
const BEGIN: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?7l";
const END: &[u8] = b"\x1b[?7h\x1b[?25h\x1b[?1049l";

/// The terminal, while it shows the view.
pub(super) struct Screen {
    /// Its modes before, if keys are read from it one by one.
    modes: Option<Termios>,
}

impl Screen {
    /// Begins the view; `None` if standard output is no terminal.
    ///
    /// # Errors
    /// Returns an error of writing.
    pub(super) fn begin() -> Result<Option<Self>, Failure> {
        if !std::io::stdout().is_terminal() {
            return Ok(None);
        }
        let modes = tcgetattr(std::io::stdin()).ok().filter(|modes| {
            let mut quiet = modes.clone();
            quiet.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(std::io::stdin(), OptionalActions::Now, &quiet).is_ok()
        });
        // Made before the first write, so that an error of the write restores the modes.
        let screen = Self { modes };
        stdout::write(BEGIN)?;
        Ok(Some(screen))
    }

    /// Shows a text in place of the text before it, cut to the height of the screen.
    ///
    /// # Errors
    /// Returns an error of writing.
    pub(super) fn show(&self, text: &str) -> Result<(), Failure> {
        let rows = tcgetwinsize(std::io::stdout()).map_or(24, |size| usize::from(size.ws_row));
        // Before the sequences are added, because keys are texts of strangers and may hold sequences of their own.
        let text = printable::text(text);
        let lines: Vec<_> = text.lines().take(rows).map(|line| format!("{line}\x1b[K")).collect();
        // Written over the text before it in one write, because a screen that is cleared first flickers.
        stdout::write(format!("\x1b[H{}\x1b[J", lines.join("\r\n")).as_bytes())
    }

    /// Runs what shows the view until the person presses `q` or Ctrl-C, or the process is to end.
    ///
    /// # Errors
    /// Returns an error of `shows`.
    pub(super) async fn until_quit(
        &self,
        shows: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        // A signal that ended the process at once would leave the terminal without cursor and echo.
        let mut interrupt = signal(SignalKind::interrupt()).map_err(unusable)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(unusable)?;
        tokio::select! {
            failed = shows => failed,
            () = self.quit() => Ok(()),
            _ = interrupt.recv() => Ok(()),
            _ = terminate.recv() => Ok(()),
        }
    }

    /// Resolves when the person presses `q`; never if keys cannot be read.
    async fn quit(&self) {
        if self.modes.is_none() {
            return pending().await;
        }
        let (pressed, quit) = oneshot::channel();
        // It reads until the process ends.
        thread::spawn(move || {
            let mut keys = std::io::stdin().lock().bytes().map_while(Result::ok);
            keys.any(|key| key.eq_ignore_ascii_case(&b'q')).then(|| pressed.send(()))
        });
        if quit.await.is_err() {
            pending().await
        }
    }
}

fn unusable(error: io::Error) -> Failure {
    Failure::new(format!("signals cannot be received: {error}"))
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = stdout::write(END);
        if let Some(modes) = &self.modes {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, modes);
        }
    }
}
