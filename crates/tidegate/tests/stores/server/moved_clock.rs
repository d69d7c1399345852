//! Processes with a wrong wall clock: the environment loads a library in front of the C library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The library to load; it is built once, in the target folder of the tests.
static CLOCK: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = folder.join(format!("clock-{}.so", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/server/clock.c");
    let done = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&built, &source])
        .output()
        .expect("cc can not be run: install a C compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let clock = folder.join("clock.so");
    std::fs::rename(&built, &clock).expect("the same folder");
    clock
});

/// Returns the environment of a process whose wall clock is `seconds` fast, or slow if negative.
pub fn ahead(seconds: i64) -> Vec<(String, String)> {
    vec![
        ("LD_PRELOAD".to_owned(), CLOCK.display().to_string()),
        ("CLOCK_AHEAD_S".to_owned(), seconds.to_string()),
    ]
}
