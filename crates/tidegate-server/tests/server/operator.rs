//! Commands against a running server: `rules`, `peek`, `reset` and `top`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::certificates::Certificates;
use crate::process::{BINARY, Ended, Server, run, run_in};

const RULES: &str = r#"
[[rule]]
name = "per-user"
when = { plan = "free" }
key = ["user"]
algorithm = "fixed_window"
rate = "2/1h"
on_excess = { wait = "2s", max_waiters = 7 }

[[rule.override]]
match = { user = "vip" }
limit = 100

[[rule]]
name = "all"
domain = "open"
algorithm = "token_bucket"
limit = -1
mode = "shadow"
"#;

const ADA: [&str; 2] = ["plan=free", "user=ada"];

/// The message of a command that fails with this exit code.
fn refused(ended: Ended, code: i32) -> String {
    let said = ended.refused(code);
    assert!(said.starts_with("tidegate: ") || said.starts_with("error: "), "{said}");
    said
}

#[test]
fn the_rules_of_a_server_are_the_table_that_it_printed_at_its_start() {
    let server = Server::with_rules(RULES);
    let shown = server.operate(&["rules"]).printed();
    let file = shown.lines().next().and_then(|line| line.strip_prefix("2 rules in force, of "));
    assert!(file.is_some_and(|file| Path::new(file).is_file()), "{shown}");
    let table: Vec<_> = shown.lines().skip(2).take_while(|line| !line.is_empty()).collect();
    assert_eq!(table.len(), 3, "{shown}");
    let overrides: Vec<_> = shown.lines().skip(2 + table.len()).collect();
    assert!(overrides.len() > 2 && overrides[1].contains("OVERRIDE"), "{shown}");
    for row in table {
        assert!(server.printed.contains(row), "{row} is not in\n{}", server.printed);
    }
    let json = server.operate(&["rules", "--format", "json"]).object();
    assert_eq!(json["rules"][0]["name"], "per-user");
}

#[tokio::test]
async fn a_peek_takes_nothing_and_a_reset_forgets_what_was_used() {
    let server = Server::with_rules(RULES);
    let url = format!("http://{}", server.http);
    let peek =
        |more: &[&str]| run(&[&["peek"], &ADA[..], &["--url", &url], more].concat()).printed();
    for _ in 0..3 {
        assert!(peek(&[]).starts_with("allowed: rule per-user, 2 of 2 remaining"), "{}", peek(&[]));
    }
    assert!(peek(&["--cost", "3"]).contains(", never fits"));
    assert_eq!(peek(&["--domain", "nowhere"]), "allowed: no rule with a limit matches\n");
    let used = r#"{"descriptor": {"plan": "free", "user": "ada"}, "cost": 2}"#;
    server.client().check(used).await.succeeded();
    assert!(peek(&[]).starts_with("refused: rule per-user, 0 of 2 remaining, fits in "));
    let json: Value = serde_json::from_str(&peek(&["--format", "json"])).unwrap();
    assert_eq!((&json["allowed"], &json["remaining"]), (&false.into(), &0.into()));

    let reset = |more: &[&str]| server.operate(&[&["reset"], more].concat());
    let said = refused(reset(&ADA), 2);
    assert!(said.contains("expected a terminal, or --yes"), "{said}");
    assert!(peek(&[]).starts_with("refused"), "nothing was reset");
    assert_eq!(
        reset(&["plan=free", "user=ada", "--yes"]).printed(),
        "1 limiter was reset: per-user\n"
    );
    assert!(peek(&[]).starts_with("allowed: rule per-user, 2 of 2 remaining"));
    let said = refused(reset(&["usr=ada", "--yes"]), 1);
    assert!(said.contains("no limiter matches usr=ada in domain default"), "{said}");
}

#[test]
fn what_is_there_in_place_of_the_admin_listener_is_named() {
    let server = Server::with_rules(RULES);
    let asked = |at: &str, code| refused(run(&["rules", "--admin", at]), code);
    // The port is free again as soon as it is known.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = asked(&format!("http://{nobody}"), 1);
    assert!(said.contains("no server answers at") && said.contains("--admin URL"), "{said}");
    assert!(said.contains("the server prints its address, or that it is off"), "{said}");
    let said = asked(&format!("http://{}", server.http), 1);
    assert!(said.contains("404") && said.contains("expected the admin listener of"), "{said}");
    let said = asked(&format!("http://{}", server.resp), 1);
    assert!(
        said.contains("does not speak HTTP") || said.contains("without an answer in HTTP"),
        "{said}"
    );
    let said = asked(&format!("https://{}", server.admin), 1);
    assert!(said.contains("cannot be trusted"), "{said}");
    assert!(said.contains(&format!("without TLS it is http://{}", server.admin)), "{said}");
    let stranger = answers("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello");
    let said = asked(&stranger, 1);
    assert!(said.contains("200 OK, and is not Tidegate"), "{said}");
    for (url, expected) in
        [("127.0.0.1:8082", "the scheme is missing"), ("http://a/b", "it has a path")]
    {
        assert!(asked(url, 2).contains(expected));
    }
    let unset = run_in(&["rules"], &[("TIDEGATE_ADMIN_URL", "")]);
    assert!(unset.err.contains("unset TIDEGATE_ADMIN_URL"), "{unset:?}");
}

#[test]
fn a_name_that_no_rule_has_ends_a_command_with_one_message() {
    let server = Server::with_rules(RULES);
    for command in ["tail", "top", "stats"] {
        let said = refused(server.operate(&[command, "--rule", "nope"]), 1);
        assert_eq!(said.matches("no rule in force is named \"nope\"").count(), 1, "{said}");
    }
}

/// A server of one connection that always answers the same.
fn answers(text: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut client = listener.accept().unwrap().0;
        // A connection that is closed with something unread is reset.
        assert!(client.read(&mut [0; 4_096]).unwrap() > 0);
        client.write_all(text.as_bytes()).unwrap();
    });
    format!("http://{at}")
}

#[test]
fn a_token_comes_from_a_file_or_a_variable_and_https_trusts_the_authority_of_a_file() {
    let files = Certificates::new();
    let tokens = files.with("tokens", "\nfirst-token\nsecond-token\n");
    let server = Server::with_arguments(&["--admin-token-file", &tokens]);
    let rules = ["rules", "--admin", &server.admin_url()];
    let said = refused(run(&rules), 1);
    assert!(
        said.contains("401") && said.contains("--token-file or TIDEGATE_OPERATOR_TOKEN"),
        "{said}"
    );
    assert!(run(&[&rules[..], &["--token-file", &tokens]].concat()).printed().contains("in force"));
    run_in(&rules, &[("TIDEGATE_OPERATOR_TOKEN", "second-token")]).printed();
    let said = run_in(&rules, &[("TIDEGATE_OPERATOR_TOKEN", "third-token")]).err;
    assert!(said.contains("is not known here") && !said.contains("third"), "{said}");
    let empty = files.with("empty", "\n");
    assert!(
        refused(run(&[&rules[..], &["--token-file", &empty]].concat()), 2).contains("has no token")
    );

    let ca = files.path("ca.pem");
    files.client_named("other", b"/CN=other", "DNS:other.example", "utf8only");
    let asked = |server: &Server, scheme: &str, host: &str, more: &[&str]| {
        let url = format!("{scheme}://{host}:{}", server.admin.port());
        run(&[&["rules", "--admin", &url], more].concat())
    };
    let roots = ["--tls-roots", &ca];
    let of = |certificate: &str, more: &[&str]| {
        Server::with_arguments(&[&files.tls(certificate), more].concat())
    };
    let server = of("server", &[]);
    assert!(asked(&server, "https", "127.0.0.1", &roots).printed().contains("in force"));
    for (server, scheme, host, more, expected) in [
        (&server, "https", "127.0.0.1", &[][..], ["cannot be trusted", "--tls-roots"]),
        (&server, "http", "127.0.0.1", &[], ["this listener speaks TLS", ": expected https://"]),
        (
            &of("other", &[]),
            "https",
            "127.0.0.1",
            &roots,
            ["expected a URL with a name", " of the certificate"],
        ),
        (
            &of("server", &["--tls-client-ca", &ca]),
            "https",
            "127.0.0.1",
            &roots,
            ["--tls-client-ca", "curl --cert"],
        ),
        (&of("ca", &[]), "https", "localhost", &roots, ["basicConstraints", "=critical,CA:FALSE"]),
    ] {
        let said = refused(asked(server, scheme, host, more), 1);
        assert!(expected.iter().all(|part| said.contains(part)), "{said}");
    }
}

#[tokio::test]
async fn top_is_printed_once_where_there_is_no_terminal() {
    let server = Server::with_rules(RULES);
    let body = r#"{"descriptor": {"plan": "free", "user": "eve\u001b[2J"}}"#;
    let batch = format!("[{}]", vec![body; 1_000].join(","));
    server.client().check(&batch).await.succeeded();
    let shown = server.operate(&["top"]).printed();
    assert!(shown.starts_with(&format!("{}\n\n DOMAIN", server.admin_url())), "{shown}");
    let row = shown.lines().find(|line| line.contains("per-user")).unwrap();
    let row: Vec<_> = row.split_whitespace().collect();
    assert_eq!(row, ["default", "per-user", "enforce", "0", "0", "1000", "998"]);
    assert!(shown.contains("user=eve") && !shown.contains('\u{1b}'), "{shown}");
    let top = ["top", "--rule", "per-user", "-n", "1", "--format", "json"];
    let json = server.operate(&top).object();
    assert_eq!(json["keys"][0]["rule"], "per-user");
    let said = refused(server.operate(&["top", "--rule", "a&b"]), 2);
    assert!(said.contains("the name of a rule"), "{said}");
    let server = Server::with_arguments(&["--top-keys", "0"]);
    let shown = server.operate(&["top"]).printed();
    assert!(
        shown.contains("Refused most: http://") && shown.contains("`top_keys` of `[server]` is 0"),
        "{shown}"
    );
}

/// A key that would be a line of its own, and would reverse the text after it.
const FORGED: &str =
    "eve\n00:00:00.000 allowed default/per-user user=ada\u{2028}\u{85}\r\u{61c}\u{202e}";

/// Decisions of a server as they are taken, as long as the test reads them.
struct Tail(Child, BufReader<std::process::ChildStdout>);

impl Tail {
    fn of(server: &Server, format: &str) -> Self {
        let mut command = Command::new(BINARY);
        command.args(["tail", "--format", format, "--admin", &server.admin_url()]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self(child, output)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.1.read_line(&mut line).unwrap(), 0);
        line
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn has_forged_lines(shown: &str) -> bool {
    let obeyed = |c: char| "\u{2028}\u{85}\r\u{61c}\u{202e}".contains(c);
    shown.contains(obeyed)
        || shown.lines().any(|line| line.trim_start().starts_with("00:00:00.000"))
}

#[tokio::test]
async fn no_view_of_an_operator_has_a_line_that_a_caller_forged() {
    let server = Server::with_rules_and(RULES, &["--public-verbs", "check,peek,reserve"]);
    let client = server.client();
    let body = json!({"descriptor": {"plan": "free", "user": FORGED}}).to_string();
    let (mut text, mut lines) = (Tail::of(&server, "text"), Tail::of(&server, "json"));
    // Decisions are passed on from when the stream began, which only its first line tells.
    let asked = tokio::spawn(async move {
        client.post("/v1/reserve", &body).await.succeeded();
        let batch = format!("[{}]", vec![body; 1_000].join(","));
        loop {
            client.check(&batch).await.succeeded();
        }
    });
    let read = tokio::task::spawn_blocking(move || {
        let mut shown = String::new();
        for _ in 0..3 {
            let (text, json) = (text.line(), lines.line());
            assert!(text.contains(r" default/per-user user=eve\x0a00:00"), "{text}");
            assert!(!has_forged_lines(&text), "{}", text.escape_debug());
            assert!(!has_forged_lines(&json), "{}", json.escape_debug());
            let json: Value =
                serde_json::from_str(&json).unwrap_or_else(|why| panic!("{why}: {json}"));
            assert_eq!(json["key"]["user"], FORGED);
            shown = text;
        }
        shown
    });
    let shown = read.await.unwrap();
    asked.abort();
    let url = format!("http://{}", server.http);
    let (_, key) = shown.split_once("per-user ").unwrap();
    let tailed = key.split_once(": cost").unwrap().0.to_owned();
    let top = server.operate(&["top"]).printed();
    let topped = top.lines().find_map(|line| line.find("user=").map(|at| &line[at..])).unwrap();
    for key in [&*tailed, topped] {
        let peek = run(&["peek", "plan=free", key, "--url", &url]).printed();
        assert!(peek.starts_with("refused: rule per-user, 0 of 2"), "{key}: {peek}");
    }
    for (command, list) in [("top", "keys"), ("reservations", "reservations")] {
        let shown = server.operate(&[command]).printed();
        assert!(
            shown.contains("eve") && !has_forged_lines(&shown),
            "{command}: {}",
            shown.escape_debug()
        );
        let json = server.operate(&[command, "--format", "json"]).printed();
        assert!(!has_forged_lines(&json), "{command}: {}", json.escape_debug());
        let json: Value = serde_json::from_str(&json).unwrap();
        assert!(json[list].to_string().contains("eve"), "{command}: {json}");
    }
}
