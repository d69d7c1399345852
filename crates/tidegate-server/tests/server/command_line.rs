//! The command line: exit codes, the text at start, and streams whose reader goes away.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};

use crate::client::Client;
use crate::process::{BINARY, Server, check, config, run};

const RULE: &str =
    "[[rule]]\nname = \"r\"\nalgorithm = \"fixed_window\"\nlimit = 5\nwindow = \"1s\"\n";

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn a_sound_configuration_is_exit_code_0() {
    let file = config(RULE);
    let output = check(file.path());
    assert_eq!(code(&output), Some(0));
    let expected = format!("{}: 1 rule, no mistakes\n", file.path().display());
    assert_eq!((text(&output.stdout), text(&output.stderr)), (expected, String::new()));
}

#[test]
fn every_mistake_is_reported_and_the_exit_code_is_2() {
    let file = config(&format!("{RULE}limt = 3\n\n[[rule]]\nname = \"BAD\"\nalgorithm = \"x\"\n"));
    let output = check(file.path());
    assert_eq!(code(&output), Some(2));
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    for expected in [":6:1: unknown field `limt`: did you mean `limit`?", ":10:13:"] {
        let expected = format!("{}{expected}", file.path().display());
        assert!(said.contains(&expected), "{expected} in {said}");
    }
    let served = run(&["serve", "--config", file.path().to_str().unwrap()]);
    assert_eq!((code(&served), text(&served.stderr)), (Some(2), said));
}

#[test]
fn a_setting_without_effect_is_a_warning_and_the_exit_code_is_0() {
    let file = config(&format!("{RULE}on_store_error = \"closed\"\n"));
    let expected =
        "`on_store_error = \"closed\"` of the rule `r` has no effect, because there is no store";
    let output = check(file.path());
    assert_eq!(code(&output), Some(0));
    let warning = format!("{}: warning: {expected}", file.path().display());
    assert!(text(&output.stderr).starts_with(&warning), "{output:?}");
    let json = run(&["check", "--format", "json", file.path().to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["is_sound"], &json["rules"]), (&true.into(), &1.into()));
    assert!(json["warnings"][0].as_str().unwrap().starts_with(expected), "{json}");
    let mut server = Server::with_rules(&format!("{RULE}on_store_error = \"closed\"\n"));
    let logged = server.logs("has no effect");
    assert!(logged.contains("WARN") && logged.contains(expected), "{logged}");
}

#[test]
fn a_missing_file_is_exit_code_2() {
    let output = run(&["check", "/nowhere/rules.toml"]);
    assert_eq!(code(&output), Some(2));
    assert!(text(&output.stderr).contains("/nowhere/rules.toml: no such file"));
}

#[test]
fn wrong_usage_is_exit_code_2_and_help_is_0() {
    for args in
        [&[][..], &["sreve"], &["serve", "--http", "8080"], &["serve", "--prot", "1"], &["check"]]
    {
        let output = run(args);
        assert_eq!(code(&output), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains("--help"), "{args:?}");
    }
    for args in [&["--help"][..], &["serve", "--help"], &["check", "--help"]] {
        let output = run(args);
        assert_eq!(code(&output), Some(0), "{args:?}");
        assert!(text(&output.stdout).contains("Example"), "{args:?}");
    }
    let version = text(&run(&["--version"]).stdout);
    assert_eq!(version, format!("tidegate {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn words_in_another_form_are_answered_with_the_form_that_was_meant() {
    for (args, expected) in [
        (&["serve", "plan.toml"][..], "expected `--config plan.toml`"),
        (&["serve", "--verbose"], "expected `--log-level debug`"),
        (&["check"], "`--config FILE` or TIDEGATE_CONFIG"),
    ] {
        let output = run(args);
        assert_eq!(code(&output), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(expected), "{output:?}");
    }
    let mut command = std::process::Command::new(crate::process::BINARY);
    let output = command.arg("serve").env("TIDEGATE_MAX_CONNECTIONS", "1k").output().unwrap();
    let expected =
        "TIDEGATE_MAX_CONNECTIONS: it is \"1k\": expected a whole number from 1 to 1000000";
    assert!(text(&output.stderr).contains(expected), "{output:?}");
}

#[test]
fn an_address_in_use_is_reported_with_its_option_and_exit_code_1() {
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
        let output = run(&args);
        assert_eq!(code(&output), Some(1));
        assert_eq!(text(&output.stdout), "", "nothing is promised");
        let said = text(&output.stderr);
        assert!(said.contains(&format!("cannot listen on {taken} ({option})")), "{said}");
        assert!(said.contains(&format!("choose another address with {option}")), "{said}");
    }
}

#[test]
fn an_address_that_is_none_is_reported_with_its_option_and_how_to_write_it() {
    for option in ["--http", "--grpc", "--resp", "--admin"] {
        let output = run(&["serve", option, "localhost:8088"]);
        assert_eq!((code(&output), text(&output.stdout)), (Some(2), String::new()));
        let said = text(&output.stderr);
        for expected in ["'localhost:8088'", option, "names are not looked up", "127.0.0.1:8088"] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
}

#[test]
fn two_listeners_on_one_port_are_an_error_that_names_the_option_to_change() {
    for (one, other) in
        [("--http", "--admin"), ("--http", "--grpc"), ("--http", "--resp"), ("--grpc", "--admin")]
    {
        let output = run(&["serve", one, "127.0.0.1:8088", other, "127.0.0.1:8088"]);
        assert_eq!(code(&output), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains(&format!("{one} and {other} are both 127.0.0.1:8088")), "{said}");
        assert!(said.contains(&format!("such as {other} 127.0.0.1:0")), "{said}");
    }
}

#[tokio::test]
async fn a_listener_that_is_off_is_not_there_and_the_others_answer() {
    let args =
        ["serve", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off", "--admin", "off"];
    let mut child = Command::new(BINARY);
    let child = child.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let printed: Vec<_> =
        lines.by_ref().map(Result::unwrap).take_while(|l| !l.contains("curl")).collect();
    for off in ["  grpc   off", "  resp   off", "  admin  off"] {
        assert!(printed.iter().any(|line| line == off), "{off}: {printed:?}");
    }
    let http = printed.iter().find(|line| line.starts_with("  http ")).unwrap();
    let url = http.split_whitespace().nth(1).unwrap();
    let at = url.strip_prefix("http://").unwrap().parse().unwrap();
    assert_eq!(Client::new(at).get("/healthz").await.status, 200);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_server_that_nobody_could_ask_is_not_begun() {
    let output = run(&["serve", "--http", "off", "--grpc", "off", "--resp", "off"]);
    assert_eq!((code(&output), text(&output.stdout)), (Some(2), String::new()));
    assert!(text(&output.stderr).contains("leave one of them on"));
}

#[test]
fn a_bound_that_can_not_be_is_reported_with_those_that_can() {
    for (option, wrong, expected) in [
        ("--max-connections", "0", "from 1 to 1000000"),
        ("--max-connections", "many", "from 1 to 1000000"),
        ("--threads", "-1", "from 1 to 1024"),
        ("--grpc-threads", "2000", "from 1 to 1024"),
        ("--drain", "1h", "from \"100ms\" to \"10m\""),
        ("--drain", "8", "expected"),
    ] {
        let output = run(&["serve", option, wrong]);
        assert_eq!((code(&output), text(&output.stdout)), (Some(2), String::new()));
        let said = text(&output.stderr);
        assert!(said.contains(option) && said.contains(expected), "{said}");
    }
}

#[test]
fn an_address_of_another_machine_is_reported_with_its_option() {
    // An address for documentation only, which no machine has.
    let output = run(&["serve", "--http", "192.0.2.1:8088", "--admin", "127.0.0.1:0"]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), Some(1), "{said}");
    assert!(said.contains("this machine has no address 192.0.2.1"), "{said}");
    assert!(said.contains("--http 127.0.0.1:8088"), "{said}");
}

#[test]
fn the_rules_in_force_are_printed_as_a_table() {
    let server = Server::with_example();
    let row = |name: &str| {
        let line = server.printed.lines().find(|line| line.contains(name)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("DOMAIN"), "DOMAIN RULE ALGORITHM LIMIT WHEN KEY MODE OPTIONS");
    assert_eq!(
        row("transfer-channel "),
        "pay transfer-channel sliding_log 100 per 1s biz_type=transfer channel enforce 1 override"
    );
    assert_eq!(
        row("demo-per-minute"),
        "default demo-per-minute sliding_window 20 per 1m - key shadow -"
    );
}

/// Runs the printed command unchanged; returns its output.
fn pasted(server: &Server) -> String {
    let output = Command::new("sh").args(["-c", server.curl()]).output().unwrap();
    assert!(output.status.success(), "{}: {}", server.curl(), text(&output.stderr));
    text(&output.stdout)
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
            let output = Command::new("sh").args(["-c", &words]).output().unwrap();
            let words = text(&output.stdout);
            let answer = server.client().check(words.lines().last().unwrap()).await;
            assert_eq!(answer.json()["rule"], rule);
            continue;
        }
        let answer = pasted(&server);
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains(&format!("\"rule\":\"{rule}\"")), "{answer}");
    }
}

/// The output of the binary if its standard output is not read.
fn unread(args: &str) -> Output {
    let line = format!("exec {BINARY} {args}");
    let mut child = Command::new("sh");
    let child = child.args(["-c", &line]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    drop(child.stdout.take());
    child.wait_with_output().unwrap()
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let file = config(RULE);
    for args in ["--help".to_owned(), format!("check {}", file.path().display())] {
        let output = unread(&args);
        assert_eq!((code(&output), text(&output.stderr)), (Some(0), String::new()), "{args}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_help_that_can_not_be_written_is_exit_code_1() {
    for args in ["--help", "-h", "--version", "help serve", "serve --help"] {
        let line = format!("exec {BINARY} {args} >/dev/full");
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(code(&output), Some(1), "{args}: {said}");
        assert!(said.contains("tidegate: cannot write to standard output"), "{args}: {said}");
    }
}

/// Nobody ever writes to the pipe. A reader without patience is ended, with another exit code.
#[test]
fn a_configuration_that_hangs_is_given_up_by_every_command() {
    let folder = tempfile::TempDir::new().unwrap();
    let pipe = folder.path().join("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (pipe, sound) = (pipe.to_str().unwrap(), config(RULE));
    let sound = sound.path().to_str().unwrap();
    let begun =
        [&["check", pipe][..], &["diff", sound, pipe], &["replay", "-c", pipe, "--trace", sound]]
            .map(|args| {
                let mut command = Command::new("timeout");
                command.args(["100", BINARY]).args(args).stderr(Stdio::piped());
                command.spawn().unwrap()
            });
    for child in begun {
        let output = child.wait_with_output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(code(&output), Some(2), "{said}");
        assert!(said.contains("was not read to its end within 10s"), "{said}");
    }
}

/// Every listener has its share, and the log reports when one is full.
#[tokio::test]
async fn clients_of_one_listener_leave_file_handles_to_the_others() {
    let mut server = Server::with_file_handles(120);
    assert!(server.logs("fewer file handles").contains("file_handles=120"));
    let _crowd: Vec<_> = (0..200).map(|_| TcpStream::connect(server.resp).unwrap()).collect();
    let full = server.logs("holds as many connections as it may");
    assert!(full.contains(&format!("at={}", server.resp)), "{full}");
    for listener in [server.http, server.admin] {
        let answer = Client::new(listener).get("/healthz").await;
        assert_eq!(answer.status, 200);
    }
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("WARN"), "it warns once: {log}");
}

#[test]
fn threads_that_need_more_file_handles_than_there_were_at_first_are_begun() {
    let serve = format!("ulimit -Sn 64 && exec {BINARY} serve --http 127.0.0.1:0 \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &serve, "sh", "--grpc", "127.0.0.1:0", "--grpc-threads", "30"])
        .args(["--resp", "off", "--admin", "off"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let begun = lines.any(|line| line.is_ok_and(|line| line.contains("http://127.0.0.1")));
    let _ = child.kill();
    let _ = child.wait();
    assert!(begun, "it could not start");
}

#[test]
fn a_damaged_trace_is_reported_as_far_as_it_goes_and_exit_code_1() {
    let rules = config(
        "[[rule]]\nname = \"a\"\nkey = [\"key\"]\nalgorithm = \"fixed_window\"\nrate = \"1/1h\"\n",
    );
    let event = "{\"at_us\": 1, \"descriptor\": {\"key\": \"a\"}}\n";
    let (whole, damaged) = (config(&event.repeat(1_000)), config(""));
    let (rules, whole) = (rules.path().to_str().unwrap(), whole.path().to_str().unwrap());
    let trace = damaged.path().to_str().unwrap();
    // Without the time of the file, whose bytes may be a line's end, the damage is always in the same place.
    for damage in ["head -c -9", "head -c 80", "sed s/$/x/"] {
        let made = Command::new("sh")
            .args(["-c", &format!("gzip -n < {whole} | {damage} > {trace}")])
            .status();
        assert!(made.unwrap().success());
        for command in [
            vec!["replay", "--config", rules, "--trace", trace],
            vec!["compare", "--rate", "1/60s", "--key", "key", "--trace", trace],
        ] {
            let output = run(&command);
            let (table, message) = (text(&output.stdout), text(&output.stderr));
            assert_eq!(code(&output), Some(1), "{damage}: {message}");
            assert!(!table.is_empty() && message.contains("the gzip data "), "{damage}: {message}");
            assert!(message.contains(" is damaged: the report covers"), "{damage}: {message}");
        }
    }
}
