//! Checks whether other users of the machine may read or write a file of secrets or a snapshot. The start of `serve`
//! asks for each such file.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Permissions of others that make a file worthless: each user could put a secret of its own there.
const OTHERS_WRITE: u32 = 0o002;
/// Permissions of others and of the group that are seldom meant.
const OTHERS_READ: u32 = 0o004;
const GROUP_WRITES: u32 = 0o020;

/// Warns of a file that more users may read or write than is seldom meant. `flag` names it.
///
/// # Errors
/// Returns the expected permissions if every user of the machine may write it. A file that is not there, or is none,
/// such as a pipe, is not judged.
pub(crate) fn check(file: &Path, flag: &str) -> Result<(), String> {
    let Some(found) = fs::metadata(file).ok().filter(Metadata::is_file) else { return Ok(()) };
    let mode = found.mode() & 0o7777;
    let shown = file.display();
    if mode & OTHERS_WRITE != 0 {
        return Err(format!(
            "{shown} ({flag}): every user of this machine may write it (mode {mode:04o}): expected a file that its owner \
             alone writes, as after `chmod 600 {shown}`"
        ));
    }
    let who = if mode & OTHERS_READ != 0 {
        "every user of this machine may read it"
    } else if mode & GROUP_WRITES != 0 {
        "its group may write it"
    } else {
        return Ok(());
    };
    tracing::warn!(file = %shown, mode = format!("{mode:04o}"), "{flag}: {who}; expected `chmod 600`");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_every_user_may_write_is_refused_and_no_other_one() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, is_refused) in [
            (0o600, false),
            (0o640, false),
            (0o660, false),
            (0o644, false),
            (0o602, true),
            (0o666, true),
        ] {
            set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            let checked = check(file.path(), "--token-file");
            assert_eq!(checked.is_err(), is_refused, "{mode:o}");
            let said = checked.err().unwrap_or_default();
            assert!(
                !is_refused || said.contains("--token-file") && said.contains("chmod 600"),
                "{said}"
            );
        }
        assert!(check(Path::new("/nowhere"), "--token-file").is_ok());
        assert!(check(Path::new("/dev/null"), "--token-file").is_ok(), "a device is not judged");
    }
}
