//! Processes with a wrong wall clock: the environment loads a library in front of the C library.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The library to load; it is built once, in the target folder of the tests.
static CLOCK: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let built = folder.join(format!("clock-{}.so", std::process::id()));
    let source = built.with_extension("c");
    std::fs::write(&source, include_str!("clock.c")).expect("the folder of the tests");
    let done = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&built, &source])
        .output()
        .expect("cc cannot be run: install a C compiler");
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

/// A wall clock that is stepped while its process runs.
pub struct Stepped(PathBuf);

impl Stepped {
    /// A clock that is right, until it is stepped.
    pub fn new(folder: &Path) -> Self {
        let clock = Self(folder.join("ahead"));
        clock.step(0);
        clock
    }

    /// Returns the environment of its process.
    pub fn environment(&self) -> Vec<(String, String)> {
        vec![
            ("LD_PRELOAD".to_owned(), CLOCK.display().to_string()),
            ("CLOCK_AHEAD_FILE".to_owned(), self.0.display().to_string()),
        ]
    }

    /// Makes the clock so many seconds fast from now on, or slow if negative.
    pub fn step(&self, ahead_s: i64) {
        // The process has mapped this file, so it is written in place.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(&self.0);
        let bytes = ahead_s.to_ne_bytes();
        file.expect("a folder of the test").write_all(&bytes).expect("eight bytes");
    }
}
