//! Other programs: found, or named with what brings them; started, waited for, and ended.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The time that a program may take until it listens.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time that it may take to end when asked to.
const FAREWELL: Duration = Duration::from_secs(2);

/// A program that runs until this is dropped.
pub struct Program {
    name: String,
    child: Child,
}

impl Program {
    /// Starts `program`, and drops its output.
    ///
    /// # Errors
    /// When it cannot be started, with the package that brings it.
    pub fn start(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<Self, String> {
        let name = program.as_ref().to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| can_not_start(&name, &error))?;
        Ok(Self { name, child })
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it takes connections at `at`.
    ///
    /// # Errors
    /// When it ends before, or takes too long.
    pub fn listening(mut self, at: SocketAddr) -> Result<Self, String> {
        let begun = Instant::now();
        while TcpStream::connect(at).is_err() {
            self.still_runs()?;
            if begun.elapsed() > PATIENCE {
                return Err(format!("{} does not listen on {at} after {PATIENCE:?}", self.name));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.still_runs().map(|()| self)
    }

    fn still_runs(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("{} ended with {status} while starting", self.name)),
            Err(error) => Err(format!("cannot ask after {}: {error}", self.name)),
        }
    }
}

impl Drop for Program {
    /// Asks it to end, so that it ends its children too; at once if it does not.
    fn drop(&mut self) {
        let process = Pid::from_child(&self.child);
        let asked = Instant::now();
        let _ = kill_process(process, Signal::TERM);
        while asked.elapsed() < FAREWELL && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(2));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `command` to its end, and returns its output.
///
/// # Errors
/// When it cannot be started, with the package that brings it; or fails, with its output.
pub fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|error| can_not_start(&name, &error))?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    if done.status.success() {
        return Ok(said);
    }
    let complained = String::from_utf8_lossy(&done.stderr);
    Err(format!("{name} ended with {}: {} {}", done.status, said.trim(), complained.trim()))
}

/// A port of the loopback address on which no program listens.
///
/// # Errors
/// When the system has none.
pub fn free_address() -> Result<SocketAddr, String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    address.map_err(|error| format!("no free port on 127.0.0.1: {error}"))
}

fn can_not_start(name: &str, error: &std::io::Error) -> String {
    match package(name) {
        Some(package) if error.kind() == std::io::ErrorKind::NotFound => {
            format!("{name} is not installed: `apt-get install {package}` (Debian, Ubuntu)")
        }
        _ => format!("cannot start {name}: {error}"),
    }
}

/// The Debian package that brings a program.
fn package(name: &str) -> Option<&'static str> {
    match name {
        "redis-server" => Some("redis-server"),
        "redis-benchmark" => Some("redis-tools"),
        "nginx" => Some("nginx-light"),
        "wrk" => Some("wrk"),
        "h2load" => Some("nghttp2-client"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_reported_with_its_package() {
        let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
        let said = can_not_start("h2load", &missing);
        assert!(said.contains("apt-get install nghttp2-client"), "{said}");
    }

    #[test]
    fn a_program_that_ends_while_starting_is_reported() {
        let program = Program::start("false", [""; 0]).unwrap();
        let Err(said) = program.listening(free_address().unwrap()) else { panic!("it listens") };
        assert!(said.contains("ended with"), "{said}");
    }

    #[test]
    fn what_a_program_says_when_it_fails_is_reported() {
        let said = output(Command::new("sh").args(["-c", "echo out; echo wrong >&2; exit 3"]));
        let said = said.unwrap_err();
        assert!(said.contains("out wrong") && said.contains('3'), "{said}");
    }
}
