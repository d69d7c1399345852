//! A file that replaces another file atomically: the configuration after a change, and each snapshot.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// A file next to the file that it replaces. It is removed if it never takes its place.
pub(crate) struct NewFile {
    new: NamedTempFile,
    path: PathBuf,
}

impl NewFile {
    /// Creates an empty file next to `path` that only this user may read.
    pub(crate) fn beside(path: &Path) -> io::Result<Self> {
        let new = Builder::new().prefix(".tidegate-").tempfile_in(folder(path))?;
        Ok(Self { new, path: path.to_owned() })
    }

    /// Creates it under a fixed name, in place of a file that a killed process left. No other process may do the same
    /// at the same time.
    pub(crate) fn alone_beside(path: &Path) -> io::Result<Self> {
        let name = with_suffix(path, ".new");
        // Removed and created again, because the file that is there may be a link that another user made.
        if let Err(error) = fs::remove_file(&name)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let mut builder = Builder::new();
        builder.prefix(name.file_name().unwrap_or_default()).rand_bytes(0);
        Ok(Self { new: builder.tempfile_in(folder(path))?, path: path.to_owned() })
    }

    /// The file, to be written.
    pub(crate) fn file(&mut self) -> &mut File {
        self.new.as_file_mut()
    }

    /// Syncs the written content to disk, and then puts it in place.
    ///
    /// # Errors
    /// Returns the error of the write. The old file stays in place then.
    pub(crate) fn put_in_place(self) -> io::Result<()> {
        let Self { new, path } = self;
        // Synced before it is renamed: after a power failure the name must not lead to an empty file.
        new.as_file().sync_all()?;
        new.persist(&path).map_err(|error| error.error)?;
        // The new content is in place. Only a power failure could still bring the old content back.
        if let Err(error) = File::open(folder(&path)).and_then(|folder| folder.sync_all()) {
            tracing::warn!(%error, file = %path.display(), "the folder cannot be synced");
        }
        Ok(())
    }
}

/// The path with more at the end of its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
