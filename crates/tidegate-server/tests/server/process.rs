//! The binary as a child process that does not outlive its test.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

use serde_json::Value;
use tempfile::NamedTempFile;

use crate::client::Client;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_tidegate");

/// Any free port at each listener.
pub(crate) const ANY_PORTS: [&str; 8] = [
    "--http",
    "127.0.0.1:0",
    "--grpc",
    "127.0.0.1:0",
    "--resp",
    "127.0.0.1:0",
    "--admin",
    "127.0.0.1:0",
];

/// A server that runs, and its output at the start.
pub(crate) struct Server {
    pub(crate) http: SocketAddr,
    pub(crate) grpc: SocketAddr,
    pub(crate) resp: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) printed: String,
    child: Child,
    _stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    _config: Option<TextFile>,
}

impl Server {
    /// The rules that are built in.
    pub(crate) fn with_example() -> Self {
        Self::start(None, &[])
    }

    /// The rules that are built in, and these arguments.
    pub(crate) fn with_arguments(arguments: &[&str]) -> Self {
        Self::start(None, arguments)
    }

    /// The rules of a text.
    pub(crate) fn with_rules(toml: &str) -> Self {
        Self::start(Some(config(toml)), &[])
    }

    /// The rules of a text, and a client of the public listener.
    pub(crate) fn with_client(toml: &str) -> (Self, Client) {
        let server = Self::with_rules(toml);
        let client = server.client();
        (server, client)
    }

    /// The rules of a text, and more on the command line.
    pub(crate) fn with_rules_and(toml: &str, more: &[&str]) -> Self {
        Self::start(Some(config(toml)), more)
    }

    /// The rules of a text, at listeners that grant all clients these verbs.
    pub(crate) fn granting(toml: &str, verbs: &str) -> Self {
        Self::start(Some(config(toml)), &["--public-verbs", verbs])
    }

    /// The rules of a text, and variables of the environment.
    pub(crate) fn with_rules_in(toml: &str, environment: &[(String, String)]) -> Self {
        let mut command = Command::new(BINARY);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        Self::spawn(command, Some(config(toml)), &[])
    }

    /// The rules that are built in, and a variable of the environment.
    pub(crate) fn with_variable(name: &str, value: &str) -> Self {
        let mut command = Command::new(BINARY);
        command.env(name, value);
        Self::spawn(command, None, &[])
    }

    /// A prepared command, with these arguments.
    pub(crate) fn of(command: Command, arguments: &[&str]) -> Self {
        Self::spawn(command, None, arguments)
    }

    fn start(config: Option<TextFile>, more: &[&str]) -> Self {
        Self::spawn(Command::new(BINARY), config, more)
    }

    /// Ready once it has printed the line to paste, its last.
    fn spawn(mut command: Command, config: Option<TextFile>, more: &[&str]) -> Self {
        serve(&mut command, more);
        if let Some(config) = &config {
            command.arg("--config").arg(config.path());
        }
        let streams = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = streams.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut printed = String::new();
        while !printed.contains("curl") {
            assert_ne!(stdout.read_line(&mut printed).unwrap(), 0, "ended: {printed}");
        }
        Self {
            http: address(&printed, "  http "),
            grpc: address(&printed, "  grpc "),
            resp: address(&printed, "  resp "),
            admin: address(&printed, "  admin "),
            printed,
            child,
            _stdout: stdout,
            stderr,
            _config: config,
        }
    }

    /// A client of the public listener.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.http)
    }

    /// A client of the listener of the operators.
    pub(crate) fn operator(&self) -> Client {
        Client::new(self.admin)
    }

    pub(crate) async fn metrics(&self) -> String {
        self.operator().get("/metrics").await.text
    }

    /// The value of a series, by its name and labels as they are written; nothing if there is none.
    pub(crate) async fn metric(&self, series: &str) -> Option<u64> {
        value(&self.metrics().await, series)
    }

    /// Runs a command of an operator against it.
    pub(crate) fn operate(&self, args: &[&str]) -> Ended {
        run(&[args, &["--admin", &self.admin_url()]].concat())
    }

    /// The address of the listener of the operators, as commands take it.
    pub(crate) fn admin_url(&self) -> String {
        format!("http://{}", self.admin)
    }

    /// A connection of a Redis client.
    pub(crate) fn redis(&self) -> redis::Connection {
        let client = redis::Client::open(format!("redis://{}/", self.resp)).unwrap();
        client.get_connection().unwrap()
    }

    /// The reply to a command of a Redis client.
    pub(crate) fn command(&self, words: &[&str]) -> redis::RedisResult<redis::Value> {
        redis::cmd(words[0]).arg(&words[1..]).query(&mut self.redis())
    }

    /// The items of the reply to a command of a Redis client.
    pub(crate) fn reply(&self, words: &[&str]) -> Vec<redis::Value> {
        redis::from_redis_value(self.command(words).unwrap()).unwrap()
    }

    /// Reserves over RESP; the id of the reservation, which is the last item of the reply.
    pub(crate) fn reserve(&self, words: &[&str]) -> String {
        let reply = self.reply(&[&["TG.RESERVE"], words].concat());
        let Some(redis::Value::BulkString(id)) = reply.last() else { panic!("{reply:?}") };
        String::from_utf8(id.clone()).unwrap()
    }

    /// The line to paste.
    pub(crate) fn curl(&self) -> &str {
        self.printed.lines().last().unwrap().trim()
    }

    /// The outcome of the line to paste.
    pub(crate) fn pasted(&self) -> Ended {
        Ended::of(Command::new("sh").args(["-c", self.curl()]))
    }

    /// The memory of the process that is in use, in bytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let line = format!("kill -{name} {}", self.pid());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success());
    }

    /// Has it read its files again; returns the line of its log that contains this text.
    pub(crate) fn reload(&mut self, expected: &str) -> String {
        self.signal("HUP");
        self.logs(expected)
    }

    /// Waits for the line of its log that contains this text, which must contain the others as well; returns it.
    #[track_caller]
    pub(crate) fn logs_with(&mut self, expected: &str, others: &[&str]) -> String {
        let line = self.logs(expected);
        for other in others {
            assert!(line.contains(other), "{other} is not in {line}");
        }
        line
    }

    /// Waits for the line of its log that contains this text, and returns it.
    pub(crate) fn logs(&mut self, expected: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "it never logs {expected}");
            if line.contains(expected) {
                return line;
            }
        }
    }

    /// Stops it, which it does with exit code 0; returns the log, as far as it was not read.
    pub(crate) fn stopped(self) -> String {
        self.signal("TERM");
        self.ended(0)
    }

    /// Waits for the end without reading its log; returns the exit code.
    pub(crate) fn end_unread(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Waits for the end with this exit code; returns the log, as far as it was not read.
    pub(crate) fn ended(self, expected: i32) -> String {
        let (code, log) = self.end();
        assert_eq!(code, Some(expected), "{log}");
        log
    }

    /// Waits for the end with exit code 0; the server has cut no connection.
    pub(crate) fn ended_uncut(self) {
        let log = self.ended(0);
        assert!(log.contains("stopped connections_cut=0"), "{log}");
    }

    /// Waits for the end; returns the exit code and the log, as far as it was not read.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut log = String::new();
        self.stderr.read_to_string(&mut log).unwrap();
        (self.child.wait().unwrap().code(), log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The value of a series in a text of metrics.
pub(crate) fn value(metrics: &str, series: &str) -> Option<u64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// The address of a listener; port 0 of no address if it is off.
fn address(printed: &str, heading: &str) -> SocketAddr {
    let line = printed.lines().find(|line| line.starts_with(heading)).unwrap();
    match line.split_whitespace().nth(1).unwrap() {
        "off" => SocketAddr::from(([0; 4], 0)),
        url => url.split_once("://").unwrap().1.parse().unwrap(),
    }
}

/// The binary in a process that a line of the shell prepares.
pub(crate) fn prepared(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{line} exec \"$0\" \"$@\""), BINARY]);
    command
}

/// Serves at any free port of each listener that the arguments do not name.
fn serve(command: &mut Command, more: &[&str]) {
    let ports = ANY_PORTS.chunks(2).filter(|listener| !more.contains(&listener[0]));
    command.arg("serve").args(ports.flatten()).args(more);
}

/// The error of a server that does not start with these arguments.
pub(crate) fn not_started(more: &[&str]) -> String {
    not_started_in::<&str>(&[], more)
}

/// The error of a server that does not start with these variables and arguments.
pub(crate) fn not_started_in<V: AsRef<OsStr>>(variables: &[(&str, V)], more: &[&str]) -> String {
    let mut command = Command::new(BINARY);
    serve(&mut command, more);
    Ended::of(command.envs(variables.iter().map(|(name, value)| (name, value)))).refused(2)
}

/// A file that ends with its test.
pub(crate) struct TextFile(NamedTempFile);

impl TextFile {
    pub(crate) fn path(&self) -> &str {
        self.0.path().to_str().unwrap()
    }
}

/// A file of rules.
pub(crate) fn config(toml: &str) -> TextFile {
    let mut file = NamedTempFile::with_suffix(".toml").unwrap();
    file.write_all(toml.as_bytes()).unwrap();
    TextFile(file)
}

/// A command that has ended, with all that it wrote.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Runs a command to its end.
    pub(crate) fn of(command: &mut Command) -> Self {
        command.output().unwrap().into()
    }

    /// The output of a command that succeeds.
    pub(crate) fn printed(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        self.out
    }

    /// The object that a command prints that succeeds.
    pub(crate) fn object(self) -> Value {
        serde_json::from_str(&self.printed()).unwrap()
    }

    /// Asserts that a command fails with this exit code and prints nothing, and that its message has this text.
    #[track_caller]
    pub(crate) fn fails(self, code: i32, expected: &str) {
        let said = self.refused(code);
        assert!(said.contains(expected), "{expected} is not in {said}");
    }

    /// The message of a command that fails with this exit code and prints nothing.
    pub(crate) fn refused(self, code: i32) -> String {
        assert_eq!((self.code, self.out.as_str()), (Some(code), ""), "{}", self.err);
        self.err
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let [out, err] =
            [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        Self { code: output.status.code(), out, err }
    }
}

/// Runs the binary to its end.
pub(crate) fn run(args: &[&str]) -> Ended {
    run_in(args, &[])
}

/// Runs the binary with variables.
pub(crate) fn run_in(args: &[&str], variables: &[(&str, &str)]) -> Ended {
    Ended::of(Command::new(BINARY).args(args).envs(variables.iter().copied()))
}

/// Runs `tidegate check` on a file.
pub(crate) fn check(file: &str) -> Ended {
    run(&["check", file])
}
