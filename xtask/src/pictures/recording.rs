//! A recording of the first minutes with the program: a file with three mistakes, a server that is asked, and a replay.
//! The program printed every line.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::terminal;

/// A configuration with three mistakes.
const WRONG: &str = "[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nalgorithm = \"token-bucket\"\nlimt = 100\nwindow = 60\n";
const RULES: &str = "examples/rules.toml";
const LOG: &str = "crates/tidegate-lab/data/example-access.log";
/// An attempt to log in.
const BODY: &str = r#"{"descriptor": {"ip": "203.0.113.7", "path": "/login"}}"#;
/// The first lines of the report, which are shown.
const REPORT_LINES: usize = 18;
/// The address by default; while it records, the server has any free port.
const USUAL: &str = "127.0.0.1:8080";

/// The times in an answer, and the times that the picture shows, so that it changes only with the program.
const TIMES: [(&str, &str); 4] = [
    ("date: ", "Wed, 25 Nov 2026 19:30:47 GMT"),
    ("\"at_us\":", "1795635047994687"),
    ("\"retry_after_us\":", "59895598"),
    ("\"reset_after_us\":", "59987545"),
];

/// A server that ends with its recording.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Records the program at `binary`, from the root of the workspace; returns the picture.
///
/// # Errors
///
/// Returns an error if the program or curl cannot be started, or the server does not.
pub(super) fn record(root: &Path, binary: &Path, scratch: &Path) -> Result<String> {
    fs::create_dir_all(scratch)?;
    fs::write(scratch.join("wrong.toml"), WRONG)?;
    let tidegate = || Command::new(binary);
    let check = output(tidegate().args(["check", "wrong.toml"]).current_dir(scratch))?;
    let replay =
        output(tidegate().args(["replay", "-c", RULES, "--trace", LOG]).current_dir(root))?;
    let (banner, answer) = served(root, tidegate())?;
    let replay: Vec<_> = replay.lines().take(REPORT_LINES).collect();
    let log = LOG.rsplit('/').next().unwrap_or(LOG);
    let runs = [
        ("tidegate check wrong.toml".to_owned(), check),
        (format!("tidegate serve -c {RULES} --grpc off --resp off --admin off &"), banner),
        (
            format!("curl -si http://{USUAL}/v1/check \\\n    --json '{BODY}'   # the sixth time"),
            answer,
        ),
        (
            format!("tidegate replay -c {RULES} --trace {log} | head -{REPORT_LINES}"),
            replay.join("\n"),
        ),
    ];
    Ok(terminal::svg(
        "Checking a configuration, serving, asking with curl, and replaying a log",
        &runs,
    ))
}

/// The output of a command, on both streams.
fn output(command: &mut Command) -> Result<String> {
    let ended = command.output().context("cannot start the program that is recorded")?;
    let streams =
        [ended.stdout, ended.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(streams.concat())
}

/// The output of the server at its start, and its answer to the sixth attempt to log in.
fn served(root: &Path, mut tidegate: Command) -> Result<(String, String)> {
    let any = ["--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off"];
    let child = tidegate.args(["serve", "-c", RULES, "--log-level", "off"]).args(any);
    let child = child.current_dir(root).stdout(Stdio::piped()).spawn();
    let mut server = Server(child.context("cannot start the server")?);
    let stdout = server.0.stdout.take().context("the server has no standard output")?;
    let mut banner = String::new();
    for line in BufReader::new(stdout).lines() {
        banner += &(line? + "\n");
        if banner.contains("curl -i") {
            break;
        }
    }
    let at = banner.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
    let at = at.context("the server printed no address")?.to_owned();
    let mut answer = String::new();
    for _ in 0..6 {
        let url = format!("http://{at}/v1/check");
        let asked = ["-si", &url, "--json", BODY];
        answer = output(Command::new("curl").args(asked))?;
    }
    ensure!(answer.contains(" 429 "), "the sixth attempt was not refused: {answer}");
    let answer = answer.replace('\r', "");
    Ok((banner.replace(&at, USUAL), TIMES.iter().fold(answer, with_time)))
}

/// The answer with another time, of the same length, after a name.
fn with_time(answer: String, (name, time): &(&str, &str)) -> String {
    let found = answer.split_once(name).and_then(|(before, after)| {
        Some(format!("{before}{name}{time}{}", after.get(time.len()..)?))
    });
    found.unwrap_or(answer)
}
