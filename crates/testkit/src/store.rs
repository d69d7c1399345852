//! Redis servers that end with a test.
//!
//! `TIDEGATE_STORE_SERVER` names a program to use instead of `redis-server`, such as `valkey-server`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A folder that is removed with this value.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    /// Makes an empty folder.
    ///
    /// # Panics
    /// Panics if it cannot be made.
    #[must_use]
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-store-{}-{number}", id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Default for Folder {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that listens on loopback and ends with this value.
#[derive(Debug)]
pub struct Server {
    process: Option<Child>,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// The folder of its files.
    pub folder: Folder,
    /// The port of its listener; the bus of a cluster uses the port 10,000 above.
    pub port: u16,
}

impl Server {
    /// Starts a server with these variables and arguments, that keeps nothing on disk unless they say so.
    ///
    /// # Panics
    /// Panics if the program cannot be run, or ends before it is ready.
    #[must_use]
    pub fn start(environment: &[(String, String)], arguments: &[&str]) -> Self {
        let all = ["--save", "", "--appendonly", "no"].iter().chain(arguments);
        Self::start_first(all.map(|word| (*word).to_owned()).collect(), environment.to_vec())
    }

    /// Starts a Sentinel with this configuration file.
    ///
    /// # Panics
    /// Panics if the program cannot be run, or ends before it is ready.
    #[must_use]
    pub fn start_sentinel(file: &Path) -> Self {
        let file = file.display().to_string();
        Self::start_first(vec![file, "--sentinel".to_owned()], Vec::new())
    }

    fn start_first(arguments: Vec<String>, environment: Vec<(String, String)>) -> Self {
        let folder = Folder::new();
        let mut server = Self { process: None, arguments, environment, folder, port: next_port() };
        while let Err(said) = server.launch(&[]) {
            // Another process has taken the port, or the port of the cluster's bus.
            assert!(said.contains("Address already in use"), "{said}");
            server.kill();
            server.port = next_port();
        }
        server
    }

    /// Starts it again on its port, and waits until it replies, even that it is loading.
    ///
    /// # Panics
    /// Panics if the program cannot be run, or ends before it is ready.
    pub fn start_again(&mut self, more: &[&str]) {
        self.launch(more).unwrap_or_else(|said| panic!("{said}"));
    }

    /// Starts it, and waits until it replies. If it ends before, returns its output.
    fn launch(&mut self, more: &[&str]) -> Result<(), String> {
        let program = program();
        let mut process = Command::new(&program)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--dir", &self.folder.0.display().to_string()])
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} cannot be run: {error}"));
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        self.process = Some(process);
        let is_ready = |line: &str| {
            line.contains("Ready to accept connections")
                || line.contains("Loading RDB produced by")
                || line.contains("+monitor master")
        };
        let mut said = format!("{program} ended before it was ready:");
        for line in lines.map_while(Result::ok) {
            if is_ready(&line) {
                return Ok(());
            }
            said = said + "\n" + &line;
        }
        Err(said)
    }

    /// `kill -9`.
    ///
    /// # Panics
    /// Panics if the process cannot be killed.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Sends `SIGSTOP`, which freezes it with its connections open, or `SIGCONT`, which resumes it.
    ///
    /// # Panics
    /// Panics if it does not run.
    pub fn signal(&self, name: &str) {
        let process = self.process.as_ref().unwrap();
        let sent = Command::new("kill").args(["-s", name, &process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    /// Its address as a store's URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Returns the server program.
#[must_use]
pub fn program() -> String {
    std::env::var("TIDEGATE_STORE_SERVER").unwrap_or_else(|_| "redis-server".to_owned())
}

/// Returns a port between 10,000 and 19,999, a different port each time. A cluster's bus uses the port 10,000 above it,
/// and systems give connections ports above both.
fn next_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Processes that test at the same time begin far from each other.
    let place = id().wrapping_mul(617).wrapping_add(NEXT.fetch_add(1, Relaxed)) % 10_000;
    10_000 + u16::try_from(place).unwrap_or_default()
}
