//! The command line: exit codes, the text at start, and streams whose reader goes away.

use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::client::Client;
use crate::process::{BINARY, Ended, Server, check, config, prepared, run};

const RULE: &str =
    "[[rule]]\nname = \"r\"\nalgorithm = \"fixed_window\"\nlimit = 5\nwindow = \"1s\"\n";

#[test]
fn a_sound_configuration_is_exit_code_0() {
    let file = config(RULE);
    let output = check(file.path());
    assert_eq!((output.code, output.err.as_str()), (Some(0), ""));
    assert_eq!(output.out, format!("{}: 1 rule, no mistakes\n", file.path()));
}

#[test]
fn every_mistake_is_reported_and_the_exit_code_is_2() {
    let file = config(&format!("{RULE}limt = 3\n\n[[rule]]\nname = \"BAD\"\nalgorithm = \"x\"\n"));
    let said = check(file.path()).refused(2);
    for expected in [":6:1: unknown field `limt`: did you mean `limit`?", ":10:13:"] {
        let expected = format!("{}{expected}", file.path());
        assert!(said.contains(&expected), "{expected} in {said}");
    }
    assert_eq!(run(&["serve", "--config", file.path()]).refused(2), said);
}

#[test]
fn a_setting_without_effect_is_a_warning_and_the_exit_code_is_0() {
    let file = config(&format!("{RULE}on_store_error = \"closed\"\n"));
    let expected =
        "`on_store_error = \"closed\"` of the rule `r` has no effect, because there is no store";
    let output = check(file.path());
    let warning = format!("{}: warning: {expected}", file.path());
    assert!(output.code == Some(0) && output.err.starts_with(&warning), "{output:?}");
    let json = run(&["check", "--format", "json", file.path()]).object();
    assert_eq!((&json["is_sound"], &json["rules"]), (&true.into(), &1.into()));
    assert!(json["warnings"][0].as_str().unwrap().starts_with(expected), "{json}");
    let mut server = Server::with_rules(&format!("{RULE}on_store_error = \"closed\"\n"));
    server.logs_with("has no effect", &["WARN", expected]);
}

/// Each line is a command, which prints nothing, and parts of its message.
#[test]
fn wrong_usage_is_exit_code_2_and_a_message_that_says_what_was_expected() {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for (line, expected) in [
        ("", "--help"),
        ("sreve", "--help"),
        ("serve --http 8080", "--help"),
        ("serve --prot 1", "--help"),
        ("check", "--help|`--config FILE` or TIDEGATE_CONFIG"),
        ("check /nowhere/rules.toml", "/nowhere/rules.toml: no such file"),
        ("serve plan.toml", "expected `--config plan.toml`"),
        ("serve --verbose", "expected `--log-level debug`"),
        ("serve --http off --grpc off --resp off", "leave one of them on"),
        ("serve --max-connections 0", "--max-connections|from 1 to 1000000"),
        ("serve --max-connections many", "--max-connections|from 1 to 1000000"),
        ("serve --threads -1", "--threads|from 1 to 1024"),
        ("serve --grpc-threads 2000", "--grpc-threads|from 1 to 1024"),
        ("serve --drain 1h", "--drain|from \"100ms\" to \"10m\""),
        ("serve --drain 8", "--drain|expected"),
    ] {
        lines.push((line.to_owned(), expected.split('|').map(str::to_owned).collect()));
    }
    for option in ["--http", "--grpc", "--resp", "--admin"] {
        let expected = ["'localhost:8088'", option, "names are not looked up", "127.0.0.1:8088"];
        lines.push((format!("serve {option} localhost:8088"), expected.map(str::to_owned).into()));
    }
    for (one, other) in
        [("--http", "--admin"), ("--http", "--grpc"), ("--http", "--resp"), ("--grpc", "--admin")]
    {
        let both = format!("{one} and {other} are both 127.0.0.1:8088");
        let expected = vec![both, format!("such as {other} 127.0.0.1:0")];
        lines.push((format!("serve {one} 127.0.0.1:8088 {other} 127.0.0.1:8088"), expected));
    }
    for (line, expected) in lines {
        let said = run(&line.split_whitespace().collect::<Vec<_>>()).refused(2);
        for part in expected {
            assert!(said.contains(&part), "{line}: {part} is not in {said}");
        }
    }
}

#[test]
fn help_and_the_version_are_exit_code_0() {
    for args in [&["--help"][..], &["serve", "--help"], &["check", "--help"]] {
        assert!(run(args).printed().contains("Example"), "{args:?}");
    }
    assert_eq!(run(&["--version"]).printed(), format!("tidegate {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn an_address_that_cannot_be_bound_is_reported_with_its_option_and_exit_code_1() {
    let server = Server::with_example();
    let listeners = [
        ("--http", server.http),
        ("--grpc", server.grpc),
        ("--resp", server.resp),
        ("--admin", server.admin),
    ];
    for (option, taken) in listeners {
        let args = listeners.map(|(other, at)| {
            let at = if other == option { at.to_string() } else { "127.0.0.1:0".to_owned() };
            [other.to_owned(), at]
        });
        let args = args.concat();
        let args: Vec<_> = ["serve"].into_iter().chain(args.iter().map(String::as_str)).collect();
        let said = run(&args).refused(1);
        assert!(said.contains(&format!("cannot listen on {taken} ({option})")), "{said}");
        assert!(said.contains(&format!("choose another address with {option}")), "{said}");
    }
    // An address for documentation only, which no machine has.
    let said = run(&["serve", "--http", "192.0.2.1:8088", "--admin", "127.0.0.1:0"]).refused(1);
    assert!(said.contains("this machine has no address 192.0.2.1"), "{said}");
    assert!(said.contains("--http 127.0.0.1:8088"), "{said}");
}

#[tokio::test]
async fn a_listener_that_is_off_is_not_there_and_the_others_answer() {
    let server = Server::with_arguments(&["--grpc", "off", "--resp", "off", "--admin", "off"]);
    for off in ["  grpc   off", "  resp   off", "  admin  off"] {
        assert!(server.printed.lines().any(|line| line == off), "{off}: {}", server.printed);
    }
    server.client().get("/healthz").await.succeeded();
}

#[tokio::test]
async fn the_printed_line_works_as_it_stands() {
    let awkward = "[[rule]]\nname = \"awkward\"\ndomain = \"it's\"\nwhen = { path = \"a'\\\"b/*\" }\n\
                   key = [\"$user\"]\nmatch = \"exact\"\nalgorithm = \"fixed_window\"\nlimit = 5\nwindow = \"1h\"\n";
    for (server, rule) in [
        (Server::with_example(), "transfer-channel"),
        (Server::with_rules(RULE), "r"),
        (Server::with_rules(awkward), "awkward"),
    ] {
        if Command::new("curl").arg("--version").output().is_err() {
            // Without curl the shell still parses the command, and this client sends the request.
            let words = server.curl().replacen("curl", "printf '%s\\n'", 1);
            let words = Ended::of(Command::new("sh").args(["-c", &words])).printed();
            let answer = server.client().check(words.lines().last().unwrap()).await;
            assert_eq!(answer.json()["rule"], rule);
            continue;
        }
        let answer = server.pasted().printed();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains(&format!("\"rule\":\"{rule}\"")), "{answer}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let file = config(RULE);
    for args in ["--help".to_owned(), format!("check {}", file.path())] {
        let line = format!("exec {BINARY} {args}");
        let mut child = Command::new("sh");
        let child = child.args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        drop(child.stdout.take());
        let output = Ended::from(child.wait_with_output().unwrap());
        assert_eq!((output.code, output.err.as_str()), (Some(0), ""), "{args}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_help_that_can_not_be_written_is_exit_code_1() {
    for args in ["--help", "-h", "--version", "help serve", "serve --help"] {
        let line = format!("exec {BINARY} {args} >/dev/full");
        let said = Ended::of(Command::new("sh").args(["-c", &line])).refused(1);
        assert!(said.contains("tidegate: cannot write to standard output"), "{args}: {said}");
    }
}

/// Nobody ever writes to the pipe. A reader without patience is ended, with another exit code.
#[test]
fn a_configuration_that_hangs_is_given_up_by_every_command() {
    let folder = tempfile::TempDir::new().unwrap();
    let pipe = folder.path().join("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let sound = config(RULE);
    let [pipe, sound] = [pipe.to_str().unwrap(), sound.path()];
    let begun =
        [&["check", pipe][..], &["diff", sound, pipe], &["replay", "-c", pipe, "--trace", sound]]
            .map(|args| {
                let mut command = Command::new("timeout");
                command.args(["100", BINARY]).args(args).stderr(Stdio::piped());
                command.spawn().unwrap()
            });
    for child in begun {
        Ended::from(child.wait_with_output().unwrap())
            .fails(2, "was not read to its end within 10s");
    }
}

/// Every listener has its share, and the log reports when one is full.
#[tokio::test]
async fn clients_of_one_listener_leave_file_handles_to_the_others() {
    let mut server = Server::of(prepared("ulimit -n 120 &&"), &[]);
    assert!(server.logs("fewer file handles").contains("file_handles=120"));
    let _crowd: Vec<_> = (0..200).map(|_| TcpStream::connect(server.resp).unwrap()).collect();
    server.logs_with("holds as many connections as it may", &[&format!("at={}", server.resp)]);
    for listener in [server.http, server.admin] {
        Client::new(listener).get("/healthz").await.succeeded();
    }
    let log = server.stopped();
    assert!(!log.contains("WARN"), "it warns once: {log}");
}

#[test]
fn threads_that_need_more_file_handles_than_there_were_at_first_are_begun() {
    let more = ["--grpc-threads", "30", "--resp", "off", "--admin", "off"];
    Server::of(prepared("ulimit -Sn 64 &&"), &more).stopped();
}

#[test]
fn a_damaged_trace_is_reported_as_far_as_it_goes_and_exit_code_1() {
    let rules = config(
        "[[rule]]\nname = \"a\"\nkey = [\"key\"]\nalgorithm = \"fixed_window\"\nrate = \"1/1h\"\n",
    );
    let event = "{\"at_us\": 1, \"descriptor\": {\"key\": \"a\"}}\n";
    let files = [rules, config(&event.repeat(1_000)), config("")];
    let [rules, whole, trace] = files.each_ref().map(|file| file.path());
    // Without the time of the file, whose bytes may be a line's end, the damage is always in the same place.
    for damage in ["head -c -9", "head -c 80", "sed s/$/x/"] {
        let made = format!("gzip -n < {whole} | {damage} > {trace}");
        assert!(Command::new("sh").args(["-c", &made]).status().unwrap().success());
        for command in [
            vec!["replay", "--config", rules, "--trace", trace],
            vec!["compare", "--rate", "1/60s", "--key", "key", "--trace", trace],
        ] {
            let Ended { code, out, err } = run(&command);
            assert_eq!(code, Some(1), "{damage}: {err}");
            assert!(!out.is_empty() && err.contains("the gzip data "), "{damage}: {err}");
            assert!(err.contains(" is damaged: the report covers"), "{damage}: {err}");
        }
    }
}
