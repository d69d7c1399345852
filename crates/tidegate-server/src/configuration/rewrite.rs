//! Replaces the content of the configuration file atomically, for `put.rs`: another process or an editor may change
//! the file at any time, and its change must not be lost.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use tidegate::config;

use crate::new_file::NewFile;

const CHANGED: &str =
    "it has changed since it was loaded, perhaps with a mistake: mend or restore it, and try again";

/// A file with the new content next to the old file, ready to take its place.
pub(super) struct Rewrite {
    new: NewFile,
    path: PathBuf,
    /// The content of the old file.
    loaded: String,
    /// The old file, whose lock keeps other servers from it until this is dropped.
    lock: File,
}

impl Rewrite {
    /// Writes `text` next to the file, with its owner and permissions, if the file still has the
    /// content that was loaded, as `is_loaded` says. Links are followed: the file that they lead to is replaced.
    ///
    /// # Errors
    /// Returns why the file cannot be written, or that it has changed.
    pub(super) fn prepare(
        file: &Path,
        is_loaded: impl FnOnce(&str) -> bool,
        text: &str,
    ) -> Result<Self, String> {
        let path = fs::canonicalize(file).map_err(because)?;
        if !fs::metadata(&path).map_err(because)?.is_file() {
            // Reading a pipe would wait for its writer.
            return Err("is no regular file, so that no other can take its place".to_owned());
        }
        // Before the lock is taken: a caller with an old text must not keep the lock from another.
        let loaded = content_of(&path)?;
        if !is_loaded(&loaded) {
            return Err(CHANGED.to_owned());
        }
        let lock = File::open(&path).map_err(because)?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err("another process changes it right now".to_owned());
            }
            // Where there are no locks, the comparison below is all there is.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let metadata = lock.metadata().map_err(because)?;
        let new = written(&path, &metadata, text).map_err(because)?;
        Ok(Self { new, path, loaded, lock })
    }

    /// Puts the new content in place, if the old content is still there; returns the old content.
    ///
    /// # Errors
    /// Returns the reason if it cannot, or that the file has changed. The old content stays in place then.
    pub(super) fn commit(self) -> Result<String, String> {
        let Self { new, path, loaded, lock } = self;
        // The lock belongs to a file and not to a path: another process may have put another file there.
        if content_of(&path)? != loaded || !is_at(&lock.metadata().map_err(because)?, &path) {
            return Err(CHANGED.to_owned());
        }
        new.put_in_place().map_err(because)?;
        Ok(loaded)
    }
}

fn content_of(path: &Path) -> Result<String, String> {
    config::read_text(path).map_err(|errors| errors.to_string())
}

/// The text in a file of its own, with the owner, the group and the permissions of another.
fn written(path: &Path, like: &Metadata, text: &str) -> io::Result<NewFile> {
    let mut new = NewFile::beside(path)?;
    let file = new.file();
    file.write_all(text.as_bytes())?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        fchown(&*file, Some(like.uid()), Some(like.gid()))?;
    }
    // After the owner, whose change may clear permissions.
    file.set_permissions(like.permissions())?;
    file.sync_all()?;
    Ok(new)
}

/// Returns whether a path still leads to a file that was opened.
fn is_at(opened: &Metadata, path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|now| (now.dev(), now.ino()) == (opened.dev(), opened.ino()))
}

fn because(error: io::Error) -> String {
    error.to_string()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use tempfile::TempDir;

    fn folder_of_one() -> (TempDir, PathBuf) {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("rules.toml");
        fs::write(&file, "old").unwrap();
        (folder, file)
    }

    fn prepare(file: &Path, loaded: &str, text: &str) -> Result<Rewrite, String> {
        Rewrite::prepare(file, |content| content == loaded, text)
    }

    #[test]
    fn permissions_are_kept_links_are_followed_and_nothing_else_is_left() {
        let (folder, file) = folder_of_one();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        let link = folder.path().join("link");
        symlink("rules.toml", &link).unwrap();
        assert_eq!(prepare(&link, "old", "new").unwrap().commit().unwrap(), "old");
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        drop(prepare(&link, "new", "newer").unwrap());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new", "not committed");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn two_processes_on_one_file_do_not_overwrite_each_other() {
        let (_folder, file) = folder_of_one();
        let first = prepare(&file, "old", "first").unwrap();
        let second = prepare(&file, "old", "second").map(|_| ()).unwrap_err();
        assert!(second.contains("another process"), "{second}");
        first.commit().unwrap();
        let late = prepare(&file, "old", "second").map(|_| ()).unwrap_err();
        assert!(late.contains("changed since it was loaded"), "{late}");
        prepare(&file, "first", "second").unwrap().commit().unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "second");
    }

    #[test]
    fn an_edit_by_somebody_else_is_kept_until_the_last_moment() {
        let (folder, file) = folder_of_one();
        let ready = prepare(&file, "old", "new").unwrap();
        fs::write(&file, "edit").unwrap();
        assert!(ready.commit().unwrap_err().contains("changed since it was loaded"));
        let ready = prepare(&file, "edit", "new").unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "edit").unwrap();
        fs::rename(&other, &file).unwrap();
        assert!(
            ready.commit().unwrap_err().contains("changed since it was loaded"),
            "another file"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), "edit");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
