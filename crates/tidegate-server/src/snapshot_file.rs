//! The file that keeps used units across restarts: read at the start, written every so often and at the end. `cli/serve.rs`
//! locks it before it loads the limiters.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tidegate::{Clock, Gate, SnapshotError, SnapshotWritten, SystemClock};

use crate::failure::Failure;
use crate::limiters::Limiters;
use crate::new_file::{NewFile, with_suffix};

/// The file, which no other server uses as long as this lives.
pub(crate) struct SnapshotFile {
    path: PathBuf,
    /// A file of its own, because the snapshot itself is replaced.
    _lock: File,
    /// Why the last attempt failed, if it did.
    failed: Option<String>,
}

impl SnapshotFile {
    /// Takes the file for this server.
    ///
    /// # Errors
    /// Returns why it cannot be used: another server has it, it is no file, or its folder is not there or not
    /// writable.
    pub(crate) fn lock(path: &Path) -> Result<Self, Failure> {
        // The target of a link is replaced, not the link. A file that is not there yet keeps its path.
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
            let why = "it is not a file: expected the path of a file, which need not exist";
            return Err(unusable(&path, why));
        }
        let lock = with_suffix(&path, ".lock");
        // To open a pipe would wait for its reader, and to open a link could create a file elsewhere.
        if fs::symlink_metadata(&lock).is_ok_and(|there| !there.is_file()) {
            return Err(unusable(
                &path,
                &format!(
                    "{} is not a file: expected a file, or nothing, which this server locks",
                    lock.display()
                ),
            ));
        }
        let opened = open_lock(&lock).map_err(|error| {
            let lock = lock.display();
            unusable(&path, &format!(
                "{lock} cannot be written: {error}; expected a folder that this server may write to"
            ))
        })?;
        match opened.try_lock() {
            Ok(()) => Ok(Self { path, _lock: opened, failed: None }),
            Err(TryLockError::WouldBlock) => Err(unusable(
                &path,
                "another server uses it: stop that server, or give this server a file of its own",
            )),
            Err(TryLockError::Error(error)) => {
                Err(unusable(&path, &format!("{} cannot be locked: {error}", lock.display())))
            }
        }
    }

    /// Loads the file into a `fresh` gate. If there is no file, the fresh gate is returned as it is. A damaged file is
    /// kept under another name, and a fresh gate is returned too.
    ///
    /// # Errors
    /// Returns why a file cannot be read, or a damaged one cannot be renamed.
    pub(crate) fn load(&self, fresh: &dyn Fn() -> Gate) -> Result<Gate, Failure> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let file = self.path.display();
                tracing::info!(%file, "no snapshot is there yet: all limiters start fresh");
                return Ok(fresh());
            }
            Err(error) => {
                return Err(unusable(&self.path, &format!("it cannot be read: {error}")));
            }
        };
        match fresh().with_snapshot(BufReader::with_capacity(1 << 20, file)) {
            Ok((gate, loaded)) => {
                let age = SystemClock::new().now().duration_since(loaded.written_at);
                tracing::info!(
                    file = %self.path.display(),
                    limiters = loaded.limiters,
                    idle = loaded.idle,
                    answers = loaded.answers,
                    age_s = age.as_secs(),
                    "the snapshot is loaded: usage before the restart still counts"
                );
                if loaded.dropped + loaded.without_space > 0 {
                    tracing::warn!(
                        dropped = loaded.dropped,
                        without_space = loaded.without_space,
                        "not all limiters of the snapshot are kept: rules are gone or have another key, or have no \
                         room (`max_keys`, `max_memory`)"
                    );
                }
                Ok(gate)
            }
            // Another fresh gate: of a damaged file nothing counts, although its beginning was read.
            Err(error) => self.put_aside(&error).map(|()| fresh()),
        }
    }

    /// Renames a damaged file, so that an operator can look at it and the next snapshot has its place.
    fn put_aside(&self, why: &SnapshotError) -> Result<(), Failure> {
        let now_s = SystemClock::new().now().as_micros() / 1_000_000;
        let aside = with_suffix(&self.path, &format!(".damaged-{now_s}"));
        let renamed = fs::rename(&self.path, &aside);
        renamed.map_err(|error| {
            unusable(&self.path, &format!("{why}; and it cannot be renamed: {error}"))
        })?;
        tracing::warn!(
            file = %self.path.display(),
            kept_as = %aside.display(),
            "the snapshot cannot be used, so nothing is used: {why}"
        );
        Ok(())
    }

    /// Writes the limiters every so often, on a thread of its own.
    ///
    /// # Errors
    /// Returns an error if there can be no thread.
    pub(crate) fn write_every(
        mut self,
        every: Duration,
        limiters: Arc<Limiters>,
    ) -> Result<SnapshotThread, Failure> {
        // The age of the snapshot is counted from now on, until the first is written.
        limiters.counts.snapshots.begin();
        let (running, ended) = sync_channel::<()>(0);
        let thread = thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                self.write(&limiters);
            }
            // The sender is gone: the server has stopped, and the limiters do not change any more.
            if let Some(written) = self.write(&limiters) {
                let SnapshotWritten { limiters, answers, bytes, .. } = written;
                let file = self.path.display();
                tracing::info!(%file, limiters, answers, bytes, "the snapshot is written");
            }
        });
        let thread = thread.map_err(|error| {
            Failure::new(format!("cannot start the thread that writes snapshots: {error}"))
        })?;
        Ok(SnapshotThread { running, thread })
    }

    /// Writes the limiters, and counts and logs the result. A failure is logged if it differs from the last failure.
    fn write(&mut self, limiters: &Limiters) -> Option<SnapshotWritten> {
        let clock = SystemClock::new();
        let counts = &limiters.counts.snapshots;
        // The duration includes the sync to disk.
        let began = clock.now();
        match self.try_write(limiters) {
            Ok(written) => {
                counts.succeeded(written.bytes, clock.now().duration_since(began));
                if self.failed.take().is_some() {
                    tracing::info!(file = %self.path.display(), "snapshots are written again");
                }
                Some(written)
            }
            Err(error) => {
                counts.failed();
                let error = error.to_string();
                if self.failed.as_ref() != Some(&error) {
                    let file = self.path.display();
                    tracing::error!(%file, error, "the snapshot cannot be written; the previous snapshot stays");
                }
                self.failed = Some(error);
                None
            }
        }
    }

    fn try_write(&self, limiters: &Limiters) -> io::Result<SnapshotWritten> {
        let mut new = NewFile::alone_beside(&self.path)?;
        let mut to = BufWriter::with_capacity(64 << 10, new.file());
        let written = limiters.write_snapshot(&mut to)?;
        // A buffer that is dropped would hide the error of its last write.
        to.flush()?;
        drop(to);
        new.put_in_place()?;
        Ok(written)
    }
}

/// The thread that writes snapshots.
pub(crate) struct SnapshotThread {
    running: SyncSender<()>,
    thread: JoinHandle<()>,
}

impl SnapshotThread {
    /// Writes the limiters once more, and ends. It blocks.
    pub(crate) fn end(self) {
        let Self { running, thread } = self;
        drop(running);
        // A panic is logged where it happens.
        let _ = thread.join();
    }
}

/// Opens a file, or creates it in its own folder, where only this user may read it: a link in its place is not
/// followed to create another file.
fn open_lock(path: &Path) -> io::Result<File> {
    match OpenOptions::new().create_new(true).write(true).mode(0o600).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            OpenOptions::new().write(true).open(path)
        }
        created_or_failed => created_or_failed,
    }
}

fn unusable(path: &Path, why: &str) -> Failure {
    Failure::new(format!("cannot use the snapshot {} (--snapshot): {why}", path.display()))
}
