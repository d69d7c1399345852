//! Watches the file of the configuration: its metadata twice a second, its content once that rests. `cli/serve.rs` starts
//! it, and a change goes the way of SIGHUP.
//!
//! It watches a path rather than a file: editors rename files, and Kubernetes swaps a link above them. A changed file
//! may be half-written, so it is read only when a second look finds it unchanged.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::{Cause, Configuration};

/// The time between two looks.
const PERIOD: Duration = Duration::from_millis(500);

/// The result of a look at a path; `None` if there is nothing that can be looked at.
type PathLook = Option<(u64, Option<SystemTime>, [u64; 4])>;

/// Reads the file again whenever it has changed. Returns immediately if there is no regular file: a
/// pipe is read only once.
pub(crate) async fn watch(configuration: Arc<Configuration>) {
    let Some(file) = configuration.file.clone() else { return };
    let file: Arc<Path> = file.into();
    let at = Arc::clone(&file);
    if !spawn_blocking(move || at.is_file()).await.unwrap_or_default() {
        return;
    }
    let mut seen = None;
    let mut rests = false;
    loop {
        sleep(PERIOD).await;
        let at = Arc::clone(&file);
        // A path that hangs holds up only the watch.
        let Ok(found) = spawn_blocking(move || look(&at)).await else { continue };
        // The first look always differs, so the file is read once more: it may have changed since the start.
        if seen.as_ref() != Some(&found) {
            seen = Some(found);
            rests = false;
        } else if !rests {
            rests = true;
            let configuration = Arc::clone(&configuration);
            // A panic is logged where it happens.
            drop(spawn_blocking(move || configuration.reload(Cause::Watch)).await);
        }
    }
}

fn look(file: &Path) -> PathLook {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.len(), metadata.modified().ok(), identity(&metadata)))
}

/// The file itself, and when anything of it changed.
fn identity(metadata: &Metadata) -> [u64; 4] {
    let seconds = metadata.ctime().cast_unsigned();
    let nanos = metadata.ctime_nsec().cast_unsigned();
    [metadata.dev(), metadata.ino(), seconds, nanos]
}
