//! Live views on terminals of different widths: a narrow terminal loses columns, and no digit of a number.

use std::io::{Read, Write};
use std::process::{Command, Stdio};

use crate::client::Client;
use crate::process::{BINARY, Server};

const RULES: &str = r#"
rule = [
    { name = "per-user-and-path-of-the-service", key = ["user"], algorithm = "fixed_window", rate = "100/1d" },
]
"#;

/// Shows a live view on a terminal of this many columns until it has the text, and returns the last screen.
fn shown(columns: u16, view: &str, until: &str) -> String {
    let line = format!("stty cols {columns} rows 30; exec {BINARY} {view}");
    let mut script = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut read = String::new();
    let mut output = script.stdout.take().unwrap();
    let mut buffer = [0; 4096];
    // A screen is complete when the next screen begins.
    while read.rsplit("\x1b[H").nth(1).is_none_or(|screen| !screen.contains(until)) {
        let bytes = output.read(&mut buffer).unwrap();
        assert!(bytes > 0, "{view} at {columns} ended: {read}");
        read.push_str(&String::from_utf8_lossy(&buffer[..bytes]));
    }
    script.stdin.take().unwrap().write_all(b"q").unwrap();
    assert!(script.wait().unwrap().success());
    let screen = read.rsplit("\x1b[H").nth(1).unwrap();
    screen.replace("\x1b[K", "").replace("\x1b[J", "").replace('\r', "")
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
    for _ in 0..3 {
        assert_eq!(Client::new(server.http).check(&batch).await.status, 200);
    }
    let admin = format!("--admin http://{}", server.admin);
    for columns in [40, 60, 80, 200] {
        let top = shown(columns, &format!("top {admin}"), "Asking most in");
        let rules = top.split("Refused most").next().unwrap();
        assert_whole(rules, columns, &["0", "2109", "2009"]);
        assert!(rules.contains("ASKED/S") && rules.contains("REFUSED/S"), "{columns}: {top}");
        assert_eq!(rules.contains("2009"), columns >= 60, "{columns}: {top}");
        let stats = shown(columns, &format!("stats {admin} --watch"), "per-user");
        assert_whole(&stats, columns, &["0", "100", "2009"]);
        assert!(stats.contains("PASS") && stats.contains("BLOCK"), "{columns}: {stats}");
    }
}
