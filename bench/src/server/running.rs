//! The programs that answer, started and ready.

use super::asking::Listener;
use crate::harness::Options;
use crate::programs::{self, Program};
use crate::redis_server::RedisServer;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

const NGINX: &str = include_str!("nginx.conf");
/// Where the main workspace is.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// The server's program: built, optimised, if it is not said.
///
/// # Errors
/// When it cannot be built.
pub fn tidegate(options: &Options) -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = || build("tidegate-watched", &["build"], &[]);
    options.tidegate.clone().map_or_else(|| BUILT.get_or_init(built).clone(), Ok)
}

/// The program without observers, likewise.
///
/// # Errors
/// When it cannot be built.
pub fn unwatched(options: &Options) -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let command = ["rustc", "--bin", "tidegate"];
    let built = || build("tidegate-unwatched", &command, &["--", "--cfg", "unwatched"]);
    options.unwatched.clone().map_or_else(|| BUILT.get_or_init(built).clone(), Ok)
}

/// Builds the server by a command of cargo, optimised, and keeps its program under a name of its own.
fn build(name: &str, command: &[&str], more: &[&str]) -> Result<PathBuf, String> {
    let arguments = ["--profile", "dist", "--quiet", "--package", "tidegate-server"];
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let cargo = cargo.args(command).args(arguments).args(more).current_dir(ROOT);
    let built = cargo.stdout(Stdio::null()).status();
    if !built.map_err(|error| format!("cannot start cargo: {error}"))?.success() {
        return Err("the server was not built".to_owned());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let program = Path::new(ROOT).join(target).join("dist/tidegate");
    let kept = program.with_file_name(name);
    let copied = fs::copy(program, &kept);
    copied.map(|_| kept).map_err(|error| format!("cannot keep the server: {error}"))
}

/// A server of ours, until this is dropped.
pub struct Server {
    program: Program,
    at: Vec<(&'static str, SocketAddr)>,
    _folder: TempDir,
}

impl Server {
    /// Starts a server with these rules and these listeners, by their options, over a store or with its limiters in
    /// memory. If it does not start, it is tried once more: a connection may have taken an address that was free.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(
        tidegate: &Path,
        rules: &str,
        listeners: &[&str],
        store: Option<&RedisServer>,
    ) -> Result<Self, String> {
        let once = || Self::once(tidegate, rules, listeners, store);
        once().or_else(|_| once())
    }

    fn once(
        tidegate: &Path,
        rules: &str,
        listeners: &[&str],
        store: Option<&RedisServer>,
    ) -> Result<Self, String> {
        let folder = folder_with("rules.toml", rules)?;
        let rules = folder.path().join("rules.toml");
        let mut arguments = vec!["serve".into(), "--config".into(), rules.into_os_string()];
        let mut at = Vec::new();
        for option in ["--http", "--admin", "--grpc", "--resp"] {
            if listeners.contains(&option) {
                let address = programs::free_address()?;
                arguments.extend([option.into(), address.to_string().into()]);
                at.push((option, address));
            } else {
                arguments.extend([option.into(), "off".into()]);
            }
        }
        if let Some(store) = store {
            arguments.extend(["--store".into(), format!("redis://{}", store.at()).into()]);
        }
        let mut program = Program::start(tidegate, arguments)?;
        for (_, at) in &at {
            program = program.listening(*at)?;
        }
        Ok(Self { program, at, _folder: folder })
    }

    /// Where a listener of an option is asked.
    ///
    /// # Errors
    /// When it was not opened.
    pub fn at(&self, option: &str) -> Result<SocketAddr, String> {
        let mut at = self.at.iter();
        let at = at.find(|(own, _)| *own == option).map(|(_, at)| *at);
        at.ok_or_else(|| format!("{option} is off"))
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }
}

/// A program that is asked at one address, until this is dropped.
pub struct Running {
    /// Where it is asked.
    pub at: SocketAddr,
    /// The process that decides.
    pub pid: u32,
    /// The programs and files that it needs.
    _held: Box<dyn std::any::Any>,
}

impl Running {
    /// A server of ours, with all its listeners.
    ///
    /// # Errors
    /// When it does not start.
    pub fn tidegate(
        program: &Path,
        rules: &str,
        listener: Listener,
        store: Option<RedisServer>,
    ) -> Result<Self, String> {
        let server = Server::start(program, rules, &ALL, store.as_ref())?;
        let (at, pid) = (server.at(listener.option())?, server.pid());
        Ok(Self { at, pid, _held: Box::new((server, store)) })
    }

    /// A redis-server.
    ///
    /// # Errors
    /// When it is missing or does not start.
    pub fn redis() -> Result<Self, String> {
        let redis = RedisServer::start()?;
        Ok(Self { at: redis.at(), pid: redis.pid(), _held: Box::new(redis) })
    }

    /// An nginx that answers 204.
    ///
    /// # Errors
    /// When it is missing or does not start.
    pub fn nginx() -> Result<Self, String> {
        let at = programs::free_address()?;
        let folder = folder_with("nginx.conf", NGINX.replace("LISTEN", &at.to_string()))?;
        let prefix = folder.path().to_string_lossy().into_owned();
        let arguments = ["-p", &prefix, "-c", "nginx.conf", "-e", "stderr"];
        let program = Program::start("nginx", arguments)?.listening(at)?;
        Ok(Self { at, pid: program.pid(), _held: Box::new((program, folder)) })
    }

    /// This program once more, with another command.
    ///
    /// # Errors
    /// When it does not start.
    pub fn this(command: &[&str]) -> Result<Self, String> {
        let at = programs::free_address()?;
        let this = std::env::current_exe().map_err(|error| format!("own path: {error}"))?;
        let address = at.to_string();
        let arguments = command.iter().copied().chain([address.as_str()]);
        let program = Program::start(this, arguments)?.listening(at)?;
        Ok(Self { at, pid: program.pid(), _held: Box::new(program) })
    }
}

/// All listeners of a server, as it is installed.
pub const ALL: [&str; 4] = ["--http", "--admin", "--grpc", "--resp"];

/// A folder with one file in it, gone when dropped.
///
/// # Errors
/// When it cannot be made.
pub fn folder_with(name: &str, text: impl AsRef<[u8]>) -> Result<TempDir, String> {
    let made = TempDir::new().and_then(|folder| {
        fs::write(folder.path().join(name), text)?;
        Ok(folder)
    });
    made.map_err(|error| format!("cannot write a file to begin with: {error}"))
}
