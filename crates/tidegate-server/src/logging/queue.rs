//! The queue of log lines for standard error: bounded, with a thread that writes them.
//!
//! Logging never waits for a reader. A reader that stops costs lines, which are counted.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// The most bytes of lines that wait to be written.
const MOST_BYTES: usize = 1 << 20;
/// Approximate bytes of a line in the queue besides its text.
const LINE_BYTES: usize = 64;
/// The time for which the end of the process waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// A handle to the queue; copies share it.
#[derive(Clone, Debug)]
pub(crate) struct LogQueue(Arc<QueueState>);

/// Makes a line harmless to terminals and readers of lines.
pub(super) type Escape = for<'a> fn(&'a str) -> Cow<'a, str>;

/// The state that the handles and the thread share.
#[derive(Debug)]
struct QueueState {
    to_writer: Sender<Message>,
    escape: Escape,
    /// Bytes that wait to be written.
    bytes: AtomicUsize,
    /// Lines dropped because there was no space.
    dropped: AtomicU64,
}

/// A task of the thread.
#[derive(Debug)]
enum Message {
    Line(Box<[u8]>),
    /// Writes all lines before this, then drops the sender.
    Flush(std::sync::mpsc::SyncSender<()>),
}

impl LogQueue {
    /// Writes to `out` in a thread of its own, each line as `escape` makes it. After lines were dropped and there is space again,
    /// calls `report` there with the number of lines dropped since the last call, and in all.
    ///
    /// # Errors
    /// Returns an error if the system starts no thread.
    pub(super) fn to(
        out: impl Write + Send + 'static,
        escape: Escape,
        report: impl Fn(u64, u64) + Send + 'static,
    ) -> io::Result<Self> {
        let (to_writer, lines) = channel();
        let bytes = AtomicUsize::new(0);
        let state = Arc::new(QueueState { to_writer, escape, bytes, dropped: AtomicU64::new(0) });
        let writer = Arc::clone(&state);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || write_out(&lines, &writer, out, report))?;
        Ok(Self(state))
    }

    /// Queues a line, or counts it as dropped if there is no space.
    pub(super) fn put(&self, line: Box<[u8]>) {
        let size = line.len() + LINE_BYTES;
        // Claimed before the line is sent, so that lines of several threads never pass the bound together.
        let space = self.0.bytes.fetch_update(Relaxed, Relaxed, |bytes| {
            bytes.checked_add(size).filter(|bytes| *bytes <= MOST_BYTES)
        });
        let queued = space.is_ok() && self.0.to_writer.send(Message::Line(line)).is_ok();
        if !queued {
            self.0.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Waits until all lines queued before are written, for a second at most.
    pub(super) fn flush(&self) {
        let (written, wait) = sync_channel(1);
        if self.0.to_writer.send(Message::Flush(written)).is_ok() {
            let _ = wait.recv_timeout(LAST_LINES);
        }
    }
}

/// The thread: writes lines until the process ends, because it holds a handle of the queue itself.
fn write_out(
    lines: &Receiver<Message>,
    state: &QueueState,
    mut out: impl Write,
    report: impl Fn(u64, u64),
) {
    let mut reported = 0;
    for message in lines {
        match message {
            Message::Line(line) => {
                // A line that cannot be written is lost, because there is no other stream to report
                // it.
                let _ = out.write_all(&line);
                let had = state.bytes.fetch_sub(line.len() + LINE_BYTES, Relaxed);
                let dropped = state.dropped.load(Relaxed);
                // Not at the first free byte: the report is a line itself, and would be dropped next.
                if dropped > reported && had < MOST_BYTES / 2 {
                    report(dropped - reported, dropped);
                    reported = dropped;
                }
            }
            Message::Flush(written) => {
                let _ = out.flush();
                let _ = written.send(());
            }
        }
    }
}

/// Each write is a line, or several that belong together.
impl Write for &LogQueue {
    fn write(&mut self, said: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(said);
        let (line, end) = match text.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (&*text, ""),
        };
        self.put([(self.0.escape)(line).as_bytes(), end.as_bytes()].concat().into());
        Ok(said.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogQueue {
    type Writer = &'a Self;

    fn make_writer(&'a self) -> &'a Self {
        self
    }
}

#[cfg(test)]
impl LogQueue {
    /// Lines that were dropped since the process began.
    fn dropped(&self) -> u64 {
        self.0.dropped.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::SyncSender;
    use tidegate::printable;

    /// A reader that the test lets read, a write at a time.
    struct Slow {
        may: Receiver<()>,
        came: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Slow {
        fn write(&mut self, said: &[u8]) -> io::Result<usize> {
            let _ = self.may.recv();
            self.came.lock().unwrap().extend(said);
            Ok(said.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    type Reports = Arc<Mutex<Vec<(u64, u64)>>>;

    fn slow() -> (LogQueue, SyncSender<()>, Arc<Mutex<Vec<u8>>>, Reports) {
        let (let_it, may) = sync_channel(0);
        let (came, reports) = (Arc::default(), Reports::default());
        let log = Arc::clone(&reports);
        let report = move |since, in_all| log.lock().unwrap().push((since, in_all));
        let queue =
            LogQueue::to(Slow { may, came: Arc::clone(&came) }, printable::line, report).unwrap();
        (queue, let_it, came, reports)
    }

    #[test]
    fn a_reader_that_does_not_read_costs_lines_and_holds_up_nobody() {
        let (queue, let_it, came, reports) = slow();
        let line = [&[b'a'; 1023][..], b"\n"].concat();
        for _ in 0..2_000 {
            (&queue).write_all(&line).unwrap();
        }
        let kept = MOST_BYTES / (line.len() + LINE_BYTES);
        let dropped = 2_000 - kept as u64;
        assert_eq!((queue.dropped(), reports.lock().unwrap().len()), (dropped, 0));
        // From here on it reads everything.
        drop(let_it);
        queue.flush();
        assert_eq!(came.lock().unwrap().len(), kept * line.len());
        assert_eq!(*reports.lock().unwrap(), [(dropped, dropped)]);
        (&queue).write_all(b"b\n").unwrap();
        queue.flush();
        assert!(came.lock().unwrap().ends_with(b"a\nb\n"), "there is room again");
        assert_eq!((queue.dropped(), reports.lock().unwrap().len()), (dropped, 1));
    }

    #[test]
    fn an_event_is_one_line_without_control_characters() {
        let (queue, let_it, came, _) = slow();
        drop(let_it);
        (&queue).write_all(b"a\nb \x1b[2J\xff\n").unwrap();
        queue.flush();
        let came = String::from_utf8(came.lock().unwrap().clone()).unwrap();
        assert_eq!(came, "a\\nb \\u{1b}[2J\u{fffd}\n");
    }
}
