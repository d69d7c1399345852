//! The programs that answer, started and ready.

use super::cases::{Listener, Subject};
use crate::programs::{self, Program};
use crate::redis_server::RedisServer;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const RULES: &str = include_str!("rules.toml");
const NGINX: &str = include_str!("nginx.conf");
/// Where the main workspace is.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// One who answers, until this is dropped.
pub struct Running {
    /// Where it is asked.
    pub at: SocketAddr,
    /// The process that decides.
    pub pid: u32,
    _program: Option<Program>,
    _redis: Option<RedisServer>,
    _folder: Option<TempDir>,
}

/// Where the server's program is: built, optimised, if it is not said.
///
/// # Errors
/// When it cannot be built.
pub fn tidegate(said: Option<&Path>) -> Result<PathBuf, String> {
    said.map_or_else(|| build(&["build"], &[]), |path| Ok(path.to_owned()))
}

/// Builds the server by a command of cargo, optimised; returns where its program is.
fn build(command: &[&str], more: &[&str]) -> Result<PathBuf, String> {
    let arguments = ["--profile", "dist", "--quiet", "--package", "tidegate-server"];
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let cargo = cargo.args(command).args(arguments).args(more).current_dir(ROOT);
    let built = cargo.stdout(Stdio::null()).status();
    let built = built.map_err(|error| format!("cannot start cargo: {error}"))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let program = Path::new(ROOT).join(target).join("dist/tidegate");
    built.success().then_some(program).ok_or_else(|| "the server was not built".to_owned())
}

/// The server without observers, built next to the usual server, which is built after it.
///
/// # Errors
/// When it cannot be built.
pub fn unwatched(said: Option<&Path>) -> Result<PathBuf, String> {
    match said {
        Some(path) => Ok(path.to_owned()),
        None => {
            let built = build(&["rustc", "--bin", "tidegate"], &["--", "--cfg", "unwatched"])?;
            let program = built.with_file_name("tidegate-unwatched");
            let copied = fs::copy(built, &program);
            copied.map(|_| program).map_err(|error| format!("cannot keep the server: {error}"))
        }
    }
}

impl Running {
    /// Starts `subject` to be asked at `listener`. If it does not start, it is tried once more: a connection may have
    /// taken an address that was free.
    ///
    /// # Errors
    /// When a program is missing or does not start.
    pub fn start(subject: Subject, listener: Listener, tidegate: &Path) -> Result<Self, String> {
        let once = || Self::once(subject, listener, tidegate);
        once().or_else(|_| once())
    }

    fn once(subject: Subject, listener: Listener, tidegate: &Path) -> Result<Self, String> {
        match subject {
            Subject::Tidegate | Subject::TidegateChecks | Subject::TidegateUnwatched => {
                Self::tidegate(listener, tidegate, None)
            }
            Subject::TidegateOnRedis => {
                Self::tidegate(listener, tidegate, Some(RedisServer::start()?))
            }
            Subject::RedisSet | Subject::RedisIncr => Self::redis(),
            Subject::Nginx => Self::nginx(),
            Subject::Floor if listener == Listener::Http => Self::this(&["floor", "check"]),
            Subject::Floor => Self::this(&["floor", "throttle"]),
            Subject::Tonic => Self::this(&["no-op-rls"]),
        }
    }

    fn tidegate(
        listener: Listener,
        program: &Path,
        redis: Option<RedisServer>,
    ) -> Result<Self, String> {
        let folder = folder_with("rules.toml", RULES)?;
        let rules = folder.path().join("rules.toml");
        let mut arguments = vec!["serve".into(), "--config".into(), rules.into_os_string()];
        let mut at = None;
        for option in ["--http", "--admin", "--grpc", "--resp"] {
            let address = programs::free_address()?;
            arguments.extend([option.into(), address.to_string().into()]);
            at = if option == listener.option() { Some(address) } else { at };
        }
        let at = at.ok_or("the server has no such listener")?;
        if let Some(redis) = &redis {
            arguments.extend(["--store".into(), format!("redis://{}", redis.at()).into()]);
        }
        let program = Program::start(program, arguments)?.listening(at)?;
        Ok(Self { _redis: redis, ..Self::of(program, at, Some(folder)) })
    }

    fn redis() -> Result<Self, String> {
        let redis = RedisServer::start()?;
        let (at, pid) = (redis.at(), redis.pid());
        Ok(Self { at, pid, _program: None, _redis: Some(redis), _folder: None })
    }

    fn nginx() -> Result<Self, String> {
        let at = programs::free_address()?;
        let folder = folder_with("nginx.conf", NGINX.replace("LISTEN", &at.to_string()))?;
        let prefix = folder.path().to_string_lossy().into_owned();
        let arguments = ["-p", &prefix, "-c", "nginx.conf", "-e", "stderr"];
        let program = Program::start("nginx", arguments)?.listening(at)?;
        Ok(Self::of(program, at, Some(folder)))
    }

    /// This program once more, as another.
    fn this(command: &[&str]) -> Result<Self, String> {
        let at = programs::free_address()?;
        let this = std::env::current_exe().map_err(|error| format!("own path: {error}"))?;
        let address = at.to_string();
        let arguments = command.iter().copied().chain([address.as_str()]);
        let program = Program::start(this, arguments)?.listening(at)?;
        Ok(Self::of(program, at, None))
    }

    fn of(program: Program, at: SocketAddr, folder: Option<TempDir>) -> Self {
        Self { at, pid: program.pid(), _program: Some(program), _redis: None, _folder: folder }
    }
}

impl Listener {
    /// The option of the server that opens it.
    const fn option(self) -> &'static str {
        match self {
            Self::Resp(_) => "--resp",
            Self::Http => "--http",
            Self::Grpc { .. } => "--grpc",
        }
    }
}

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
