//! Files of passwords, tokens, keys and certificates, read within bounds of size and time.
//!
//! A path may hang, and the server reads its secrets again while it runs.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The largest secret file: 1 MiB.
const MOST_BYTES: u64 = 1 << 20;
/// The longest time of one read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads of files that took too long and have not ended.
static HANGING: Mutex<Option<HashMap<PathBuf, JoinHandle<()>>>> = Mutex::new(None);

/// Reads a file of a secret or certificates: at most 1 MiB, within ten seconds.
///
/// A pipe, such as a shell makes for `<(command)`, is read to its end. A path that hangs, such as a
/// pipe without a writer or a file of a dead server, costs a waiting thread; as long as that thread
/// waits, the path is not read again.
///
/// A byte order mark at its beginning is left out.
///
/// This blocks: call it on a thread that may wait.
///
/// # Errors
/// Returns an error if the file cannot be read, is larger, or took too long; or if an earlier read
/// of this path hangs.
pub fn read_secret_file(path: &Path) -> io::Result<Vec<u8>> {
    let read = read_within(path, MOST_BYTES, PATIENCE).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => {
            let answer = "it is larger than 1 MiB: expected a secret, a key or certificates";
            io::Error::new(ErrorKind::FileTooLarge, answer)
        }
        _ => error,
    });
    read.and_then(without_mark)
}

/// Drops the byte order mark with which some editors begin a file.
fn without_mark(mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        let answer = "it is UTF-16, as some programs on Windows save texts: expected UTF-8";
        return Err(io::Error::new(ErrorKind::InvalidData, answer));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    Ok(bytes)
}

/// Reads a file of at most `most_bytes` as [`read_secret_file`] does.
pub fn read_in_time(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    read_within(path, most_bytes, PATIENCE)
}

fn read_within(path: &Path, most_bytes: u64, patience: Duration) -> io::Result<Vec<u8>> {
    // Otherwise each attempt would leave one more thread that waits.
    if hangs(path) {
        return Err(io::Error::new(
            ErrorKind::WouldBlock,
            "it hangs since it was read before: expected a file that can be read, or a pipe with a writer",
        ));
    }
    // With space for the result the thread also ends when its caller has given up.
    let (ends, end) = sync_channel(1);
    let to_read = path.to_owned();
    let thread = thread::Builder::new()
        .name("file".to_owned())
        .spawn(move || drop(ends.send(read(&to_read, most_bytes))))?;
    match end.recv_timeout(patience) {
        Ok(read) => read,
        Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("its reader ended early")),
        Err(RecvTimeoutError::Timeout) => {
            let mut hanging = HANGING.lock().unwrap_or_else(PoisonError::into_inner);
            hanging.get_or_insert_default().insert(path.to_owned(), thread);
            Err(io::Error::new(
                ErrorKind::TimedOut,
                format!(
                    "it was not read to its end within {patience:?}: expected a file, or a pipe whose writer \
                     closes it"
                ),
            ))
        }
    }
}

/// Returns whether an earlier read of a path has not ended.
fn hangs(path: &Path) -> bool {
    let mut hanging = HANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(hanging) = hanging.as_mut() else { return false };
    hanging.retain(|_, thread| !thread.is_finished());
    hanging.contains_key(path)
}

fn read(path: &Path, most_bytes: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more shows that the file is too large; a pipe has no length to ask for.
    File::open(path)?.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes {
        return Err(ErrorKind::FileTooLarge.into());
    }
    // The text of a configuration is kept.
    bytes.shrink_to_fit();
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::process::Command;

    #[test]
    fn a_file_is_read_up_to_a_megabyte() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (bytes, fits) in [(0, true), (MOST_BYTES, true), (MOST_BYTES + 1, false)] {
            file.as_file().set_len(bytes).unwrap();
            let read = read_secret_file(file.path());
            let found = read.map(|read| read.len() as u64).map_err(|error| error.kind());
            assert_eq!(found, if fits { Ok(bytes) } else { Err(ErrorKind::FileTooLarge) });
        }
        let endless = read_secret_file(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(endless.kind(), ErrorKind::FileTooLarge);
        assert_eq!(
            read_secret_file(Path::new("/nowhere")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }

    #[test]
    fn a_byte_order_mark_is_no_part_of_a_secret() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let of = |bytes: &[u8]| {
            fs::write(file.path(), bytes).unwrap();
            read_secret_file(file.path()).map_err(|error| error.to_string())
        };
        assert_eq!(of(b"\xef\xbb\xbfsesame\n"), Ok(b"sesame\n".to_vec()));
        assert_eq!(of(b"\xef\xbb\xbf"), Ok(Vec::new()));
        assert_eq!(of(b"se\xef\xbb\xbf"), Ok(b"se\xef\xbb\xbf".to_vec()));
        for utf_16 in [b"\xff\xfes\0", b"\xfe\xff\0s"] {
            assert!(of(utf_16).unwrap_err().contains("UTF-16"), "{utf_16:?}");
        }
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_is_waited_for_once_and_not_for_ever() {
        let folder = tempfile::TempDir::new().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let moment = Duration::from_millis(1);
        assert_eq!(read_within(&pipe, MOST_BYTES, moment).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(read_secret_file(&pipe).unwrap_err().kind(), ErrorKind::WouldBlock);
        // The writer opens and closes the pipe, and the hanging read ends.
        drop(fs::OpenOptions::new().write(true).open(&pipe).unwrap());
        while hangs(&pipe) {
            thread::yield_now();
        }
        let writer = thread::spawn({
            let pipe = pipe.clone();
            move || fs::OpenOptions::new().write(true).open(pipe).unwrap().write_all(b"secret")
        });
        assert_eq!(read_secret_file(&pipe).unwrap(), b"secret");
        writer.join().unwrap().unwrap();
    }
}
