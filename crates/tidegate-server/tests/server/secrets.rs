//! Passwords that are given in a wrong place or form: no output of any command shows them.

use std::process::Command;

use crate::process::{BINARY, Ended, config};

const RULE: &str = "[[rule]]\nname = \"r\"\nalgorithm = \"fixed_window\"\nrate = \"5/1s\"\n";
const MARKER: &str = "hunter2";

/// Asserts that a command fails, and that its output says this and not the marker.
fn failed(command: &mut Command, expected: &str) {
    let Ended { code, out, err } = Ended::of(command);
    assert_eq!(code, Some(2), "{out}{err}");
    assert!([&out, &err].iter().any(|said| said.contains(expected)), "{expected}: {out}{err}");
    assert!(!out.contains(MARKER) && !err.contains(MARKER), "{out}{err}");
}

/// URLs that are refused, all with the marker.
const URLS: &str = "redis://:hunter2@a,b redis://user:hunter2@ http://user:hunter2@host \
                    user:hunter2@host:6379 unix://run/redis.sock?pass=hunter2 hunter2";

#[test]
fn the_url_of_a_store_is_not_repeated() {
    let file = config(RULE);
    let path = file.path();
    for url in URLS.split(' ') {
        for args in [&["serve", "-c", path][..], &["replay", "-c", path, "--trace", path]] {
            for words in [vec!["--store", url], vec![&*format!("--store={url}")]] {
                failed(Command::new(BINARY).args(args).args(words), "not the URL of a store");
            }
        }
        let mut serve = Command::new(BINARY);
        serve.args(["serve", "-c", path]).env("TIDEGATE_STORE", url);
        failed(&mut serve, "tidegate: TIDEGATE_STORE: not the URL of a store");
    }
}

#[test]
fn a_url_in_the_place_of_something_else_is_not_repeated() {
    let url = "redis://:hunter2@host";
    for args in [
        &[url][..],
        &["serve", url],
        &["serve", "--http", url],
        &["serve", "--http", "user:hunter2@127.0.0.1:80"],
        &["serve", "--threads", url],
        &["serve", "--log-level", url],
        &["serve", "--grpc-headers", url],
        &["serve", "--public-verbs=redis://:hunter2@host"],
        &["serve", "--drain", url],
        &["compare", "--rate", url],
        &["replay", "--fail-above", url],
        &["script", url],
    ] {
        failed(Command::new(BINARY).args(args), "");
    }
    for variable in ["HTTP", "THREADS", "LOG_LEVEL", "GRPC_HEADERS", "NO_WATCH", "DRAIN"] {
        let variable = format!("TIDEGATE_{variable}");
        for given in [url, "user:hunter2@127.0.0.1:80"] {
            failed(Command::new(BINARY).arg("serve").env(&variable, given), &variable);
        }
    }
}

#[test]
fn no_form_of_the_errors_of_a_file_shows_a_password() {
    for line in [
        "[store]\nurls = \"redis://:hunter2@host\"",
        "[store]\nurl = redis://:hunter2@host",
        "[store]\npassword = 'hunter2'",
        "[server]\ntoken = \"hunter2\"",
        "[server]\nhttp = \"user:hunter2@127.0.0.1:80\"",
        "[server]\nlog_level = \"redis://:hunter2@host\"",
        "[server]\nthreads = \"redis://:hunter2@host\"",
        "[server]\ndrain = \"redis://:hunter2@host\"",
    ] {
        let file = config(&format!("{RULE}{line}\n"));
        let path = file.path();
        for args in [
            &["check", path][..],
            &["check", path, "--format", "json"],
            &["serve", "-c", path],
            &["replay", "-c", path, "--trace", "-"],
        ] {
            failed(Command::new(BINARY).args(args), path);
        }
    }
}
