//! The file of a picture: checked before a long run, and written in full or not at all.
//!
//! `tidegate replay` and `tidegate compare` write their pictures through it.

use std::fmt;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file that a picture will be written to.
///
/// [`PictureFile::at`] checks that it can be written and leaves no file; [`PictureFile::write`] writes a file next to
/// it and renames that. So half a picture is never seen, and an older picture stays if writing fails.
///
/// ```no_run
/// let file = tidegate_lab::PictureFile::at("refused.svg")?;
/// // ... a long run ...
/// file.write("<svg/>")?;
/// # Ok::<(), tidegate_lab::PictureError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFile {
    path: PathBuf,
    dir: PathBuf,
}

impl PictureFile {
    /// Checks that a picture can be written to `path`.
    ///
    /// # Errors
    /// Returns an error if the name does not end in `.svg`, if the path is something other than a
    /// writable file, such as a symbolic link, or if the folder does not exist or accepts no new file.
    pub fn at(path: impl Into<PathBuf>) -> Result<Self, PictureError> {
        let path = path.into();
        match Self::find(&path) {
            Ok(dir) => Ok(Self { path, dir }),
            Err(why) => Err(PictureError { asked: path, why }),
        }
    }

    /// Writes the picture.
    ///
    /// # Errors
    /// Returns an error if writing fails nevertheless; an older picture then stays.
    pub fn write(&self, svg: &str) -> Result<(), PictureError> {
        self.replace(svg).map_err(|error| PictureError {
            asked: self.path.clone(),
            why: FileFault::Failed(error),
        })
    }

    /// The folder of a file that can be written.
    fn find(path: &Path) -> Result<PathBuf, FileFault> {
        if !path.extension().is_some_and(|end| end.eq_ignore_ascii_case("svg")) {
            return Err(FileFault::Name);
        }
        // A link is not followed, because the picture would replace the link and not the file that it names.
        match fs::symlink_metadata(path) {
            Ok(there) => check_there(&there)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(FileFault::Failed(error)),
        }
        let parent = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = parent.unwrap_or(Path::new(".")).to_path_buf();
        check_folder(&dir)?;
        Ok(dir)
    }

    fn replace(&self, svg: &str) -> io::Result<()> {
        // In the folder of the picture, because a rename cannot cross file systems.
        let mut file = fresh(&self.dir)?;
        file.write_all(svg.as_bytes())?;
        // The new file replaces the old file, whose permissions may have been chosen by a person.
        if let Ok(there) = fs::symlink_metadata(&self.path)
            && there.is_file()
        {
            file.as_file().set_permissions(there.permissions())?;
        }
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

/// Creates a file with the permissions that any new file gets.
#[cfg(unix)]
fn fresh(dir: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    // The umask of the user still applies; a temporary file would otherwise be for its owner alone.
    let permissions = fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().suffix(".svg").permissions(permissions).tempfile_in(dir)
}

#[cfg(not(unix))]
fn fresh(dir: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().suffix(".svg").tempfile_in(dir)
}

fn check_there(there: &Metadata) -> Result<(), FileFault> {
    // Another user may have put it there, so that this user writes a file of its own choice.
    if there.is_symlink() {
        return Err(FileFault::Link);
    }
    if there.is_dir() {
        return Err(FileFault::Folder);
    }
    if !there.is_file() {
        return Err(FileFault::NoFile);
    }
    if there.permissions().readonly() {
        return Err(FileFault::ReadOnly);
    }
    Ok(())
}

/// Creates a file and removes it: permissions alone do not show a full disk or a file system that
/// is mounted read-only.
fn check_folder(dir: &Path) -> Result<(), FileFault> {
    match fs::metadata(dir) {
        Ok(there) if there.is_dir() => {}
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(FileFault::Failed(error)),
        _ => return Err(FileFault::NoFolder(dir.to_path_buf())),
    }
    let made = tempfile::tempfile_in(dir);
    made.map(drop).map_err(|error| FileFault::TakesNoFile(dir.to_path_buf(), error))
}

/// Why a picture cannot be written.
pub struct PictureError {
    asked: PathBuf,
    why: FileFault,
}

#[derive(Debug)]
enum FileFault {
    Name,
    Link,
    Folder,
    NoFile,
    ReadOnly,
    NoFolder(PathBuf),
    TakesNoFile(PathBuf, io::Error),
    Failed(io::Error),
}

impl PictureError {
    /// Returns whether the name is wrong, rather than the file or folder.
    #[must_use]
    pub const fn is_usage(&self) -> bool {
        matches!(self.why, FileFault::Name)
    }
}

impl fmt::Display for PictureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write the picture to {}: ", self.asked.display())?;
        match &self.why {
            FileFault::Name => {
                f.write_str("expected a name that ends in .svg, for pictures are SVG")
            }
            FileFault::Link => f.write_str("it is a symbolic link; name the file itself"),
            FileFault::Folder => f.write_str("it is a folder; name a file in it"),
            FileFault::NoFile => f.write_str("it is there and is not a file; choose another name"),
            FileFault::ReadOnly => f.write_str(
                "it is there and may not be written; choose another name or allow writing",
            ),
            FileFault::NoFolder(dir) => {
                write!(f, "{} is not a folder; make it first", dir.display())
            }
            FileFault::TakesNoFile(dir, error) => {
                write!(f, "no file can be made in {}: {error}", dir.display())
            }
            FileFault::Failed(error) => error.fmt(f),
        }
    }
}

tidegate::debug_as_display!(PictureError);

impl std::error::Error for PictureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.why {
            FileFault::TakesNoFile(_, error) | FileFault::Failed(error) => Some(error),
            _ => None,
        }
    }
}
