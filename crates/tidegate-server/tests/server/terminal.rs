//! Live views on terminals of different widths: a narrow terminal loses columns, and no digit of a number.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use tokio::time::sleep;

use crate::process::{BINARY, Server};

const RULES: &str = r#"
rule = [
    { name = "per-user-and-path-of-the-service", key = ["user"], algorithm = "fixed_window", rate = "100/1d" },
]
"#;

/// A program on a terminal of its own.
struct OnTerminal {
    script: Child,
    input: ChildStdin,
    output: ChildStdout,
    terminal: vt100::Parser,
}

impl OnTerminal {
    /// Starts a shell line on a terminal of this many columns.
    fn start(columns: u16, line: &str) -> Self {
        let line = format!("stty cols {columns} rows 30; {line}");
        let mut script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = script.stdin.take().unwrap();
        let output = script.stdout.take().unwrap();
        Self { script, input, output, terminal: vt100::Parser::new(30, columns, 0) }
    }

    fn press(&mut self, keys: &str) {
        self.input.write_all(keys.as_bytes()).unwrap();
    }

    fn shown(&self) -> String {
        self.terminal.screen().contents()
    }

    /// Reads until the screen has this text.
    fn until(&mut self, text: &str) {
        let mut buffer = [0; 4096];
        while !self.shown().contains(text) {
            let bytes = self.output.read(&mut buffer).unwrap();
            assert!(bytes > 0, "without {text:?} ended:\n{}", self.shown());
            self.terminal.process(&buffer[..bytes]);
        }
    }

    fn end(mut self) {
        self.press("q");
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest).unwrap();
        self.terminal.process(&rest);
        assert!(self.script.wait().unwrap().success());
        let screen = self.terminal.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor());
        let modes = self.shown();
        let has = |mode| modes.split_whitespace().any(|word| word == mode);
        assert!(has("icanon") && has("echo"), "{modes}");
    }
}

/// Shows a live view on a terminal of this many columns until it has the text, and returns the screen.
fn shown(columns: u16, view: &str, until: &str) -> String {
    let mut program = OnTerminal::start(columns, &format!("{BINARY} {view} && stty -a"));
    program.until(until);
    // The frame in which the filter is typed comes after the whole frame before it.
    program.press("/");
    program.until("/▏");
    let screen = program.shown();
    program.press("\r");
    program.end();
    screen
}

/// Asserts that no line is wider than the terminal, and that each number of the table is one of these.
fn assert_whole(screen: &str, columns: u16, numbers: &[&str]) {
    for line in screen.lines() {
        assert!(line.chars().count() <= usize::from(columns), "{columns}: {line}\n{screen}");
    }
    let rows = screen.lines().filter(|line| line.contains("per-user") || line.contains("GET"));
    let words: Vec<_> = rows.flat_map(str::split_whitespace).collect();
    let is_number = |word: &&&str| word.bytes().all(|byte| byte.is_ascii_digit());
    let cut: Vec<_> = words.iter().filter(is_number).filter(|one| !numbers.contains(one)).collect();
    assert!(cut.is_empty(), "{columns}: {cut:?}\n{screen}");
}

#[tokio::test]
async fn a_narrow_terminal_loses_columns_and_no_digit() {
    let server = Server::with_rules(RULES);
    let one = r#"{"descriptor": {"user": "ada"}}"#;
    let batch = format!("[{}]", [one; 703].join(","));
    // Seconds are counted by halves, and no batch is in two of them.
    let half = 500 - UNIX_EPOCH.elapsed().unwrap().subsec_millis() % 500;
    sleep(Duration::from_millis(half.into())).await;
    for _ in 0..3 {
        server.client().check(&batch).await.succeeded();
    }
    let admin = format!("--admin http://{}", server.admin);
    // The last second may have begun between two of the batches: 100 units of the first are admitted, none of the others.
    let of_a_second = ["0", "100", "603", "703", "1306", "1406", "2009"];
    for columns in [40, 60, 80, 200] {
        let top = shown(columns, &format!("top {admin}"), "Asking most in");
        let rules = top.split("Refused most").next().unwrap();
        assert_whole(rules, columns, &["0", "603", "703", "1306", "1406", "2009", "2109"]);
        assert!(rules.contains("ASKED/S") && rules.contains("REFUSED/S"), "{columns}: {top}");
        assert_eq!(rules.contains("2009"), columns >= 60, "{columns}: {top}");
        let stats = shown(columns, &format!("stats {admin} --watch"), "per-user");
        assert_whole(&stats, columns, &of_a_second);
        assert!(stats.contains("PASS") && stats.contains("BLOCK"), "{columns}: {stats}");
    }
}
