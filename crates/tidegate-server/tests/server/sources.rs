//! The settings of `serve` by flag, variable and `[server]`, and their errors.

use std::process::Command;

use crate::certificates::Certificates;
use crate::process::{BINARY, Ended, Server, check, config, run, run_in};

const RULE: &str = "[[rule]]\nname = \"r\"\nalgorithm = \"fixed_window\"\nrate = \"5/1s\"\n";

/// Addresses for documentation, which no machine has: a server at one of them does not begin.
const BY_FILE: &str = "192.0.2.1:1";
const BY_VARIABLE: &str = "192.0.2.1:2";
const BY_FLAG: &str = "192.0.2.1:3";

#[test]
fn a_flag_goes_before_its_variable_and_that_before_the_file() {
    let file = config(&format!("{RULE}[server]\nhttp = \"{BY_FILE}\"\n"));
    let path = file.path();
    for (variable, flag, expected) in [
        (None, None, BY_FILE),
        (Some(BY_VARIABLE), None, BY_VARIABLE),
        (None, Some(BY_FLAG), BY_FLAG),
        (Some(BY_VARIABLE), Some(BY_FLAG), BY_FLAG),
        (Some("nonsense"), Some(BY_FLAG), BY_FLAG),
    ] {
        let mut command = Command::new(BINARY);
        command.arg("serve").envs(variable.map(|at| ("TIDEGATE_HTTP", at)));
        command.args(flag.map(|at| format!("--http={at}"))).env("TIDEGATE_CONFIG", path);
        let said = Ended::of(command.args(["--admin", expected])).err;
        let both = format!("--http and --admin are both {expected}:");
        assert!(said.contains(&both), "{variable:?} {flag:?}: {said}");
    }
}

#[tokio::test]
async fn what_the_file_says_holds_and_is_printed() {
    let files = Certificates::new();
    let tokens = files.with("tokens", &"a".repeat(32));
    let rules = format!(
        "{RULE}[server]\ntoken_file = \"{tokens}\"\nno_watch = true\nlog_level = \"debug\"\n\
         threads = 1\nhttp = \"{BY_FILE}\"\ngrpc_headers = [\"ratelimit\", \"retry-after\"]\n"
    );
    let mut server = Server::with_rules(&rules);
    assert!(server.curl().contains(&tokens), "{}", server.printed);
    assert!(server.logs("started").contains("threads=1 "));
    let body = r#"{"descriptor": {"key": "a"}}"#;
    assert_eq!(server.client().check(body).await.status, 401);
}

#[test]
fn a_token_in_a_variable_goes_before_the_tokens_that_the_file_names() {
    let file = config(&format!(
        "{RULE}[server]\ntoken_file = \"/nowhere/tokens\"\nhttp = \"{BY_FILE}\"\n"
    ));
    for (token, expected) in [(None, "/nowhere/tokens"), (Some("sesame"), "192.0.2.1")] {
        let mut command = Command::new(BINARY);
        command.arg("serve").arg("-c").arg(file.path()).args(["--grpc", "off", "--resp", "off"]);
        let said = Ended::of(command.envs(token.map(|token| ("TIDEGATE_TOKEN", token)))).err;
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn each_mistake_of_the_section_is_reported_at_its_place() {
    let file = config(&format!(
        "{RULE}[server]\nhttp = \"localhost:80\"\nthread = 4\nthreads = \"4\"\nno_watch = \"yes\"\n\
         grpc_headers = [\"ratelimit\", \"retryafter\"]\nlog_level = \"wan\"\nmax_connections = 0\n\
         drain = \"8\"\nresp = 6380\ntoken = \"sesame\"\ntoken_file = \"\"\n\
         public_verbs = [\"check\", \"refunds\"]\nreservation_memory = \"1KiB\"\nadmin_readers = \"ann\"\n\
         snapshot_every = 30\nrecord = \"2d\"\nrecord_memory = \"64\"\nrecord_one_in = 0\n"
    ));
    let said = check(file.path()).refused(2);
    for expected in [
        ":6:8: `http`: \"localhost\" is no IP address, and names are not looked up: expected",
        ":7:1: unknown field `thread`: did you mean `threads`?",
        ":8:11: `threads` is the text \"4\": expected a whole number; write 4 without quotes",
        ":9:12: `no_watch` is the text \"yes\": expected true or false",
        ":10:30: `grpc_headers` is the text \"retryafter\": expected one of x-ratelimit, ratelimit, retry-after; \
         did you mean \"retry-after\"?",
        ":11:13: `log_level` is the text \"wan\": expected one of off, error, warn, info, debug, trace; did you \
         mean \"warn\"?",
        ":12:19: `max_connections` is 0: expected a whole number from 1 to 1000000",
        ":13:9: `drain`: \"8\" is not a length of time",
        ":14:8: `resp` is 6380: expected a text, in quotes: \"6380\"",
        ":15:1: unknown field `token`",
        ":16:14: `token_file` is the text \"\": expected the path of a file",
        ":17:26: `public_verbs` is the text \"refunds\": expected one of check, peek, reserve, settle, refund, \
         reset, report, grpc-refund; did you mean \"refund\"?",
        ":18:22: `reservation_memory` is the text \"1KiB\": expected a size from \"64KiB\" to \"1TiB\"",
        ":19:17: `admin_readers` is the text \"ann\": expected an array",
        ":20:18: `snapshot_every` is 30: expected a text, in quotes, with a unit: \"30s\"",
        ":21:10: `record` is the text \"2d\": expected a time from \"1s\" to \"1d\", such as \"10m\", or \"off\"",
        ":22:17: `record_memory`: \"64\"",
        ":23:17: `record_one_in` is 0: expected a whole number from 1 to 1000000",
    ] {
        let expected = format!("{}{expected}", file.path());
        assert!(said.contains(&expected), "{expected} in {said}");
    }
    assert_eq!(said.matches(" | ").count(), 36, "no other mistake: {said}");
}

#[test]
fn fields_that_can_not_be_together_are_a_mistake_of_the_file() {
    let file = config(&format!(
        "{RULE}[server]\nhttp = \"127.0.0.1:77\"\nresp = \"127.0.0.1:77\"\ntls_cert = \"by variable\"\n"
    ));
    let said = check(file.path()).refused(2);
    let expected = format!("{}: --http and --resp are both 127.0.0.1:77", file.path());
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn a_variable_that_can_not_be_read_is_named() {
    for (variable, value, expected) in [
        ("TIDEGATE_HTTP", "localhost:80", "\"localhost\" is no IP address"),
        ("TIDEGATE_THREADS", "many", "expected a whole number from 1 to 1024"),
        (
            "TIDEGATE_MAX_CONNECTIONS",
            "1k",
            "it is \"1k\": expected a whole number from 1 to 1000000",
        ),
        ("TIDEGATE_LOG_LEVEL", "wan", "did you mean \"warn\"?"),
        ("TIDEGATE_LOG_LEVEL", "", "unset TIDEGATE_LOG_LEVEL if none is meant"),
        ("TIDEGATE_NO_WATCH", "maybe", "expected true or false"),
        ("TIDEGATE_STORE", "http://127.0.0.1", "not the URL of a store"),
        ("TIDEGATE_CONFIG", "", "expected the path of a file; unset TIDEGATE_CONFIG"),
    ] {
        let said = run_in(&["serve"], &[(variable, value)]).refused(2);
        assert!(said.starts_with(&format!("tidegate: {variable}: ")), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn every_command_knows_the_variable_of_the_configuration() {
    let file = config(RULE);
    let trace = config("{\"at_us\": 1, \"descriptor\": {\"key\": \"a\"}}\n");
    let trace = trace.path();
    let path = file.path();
    // A bare argument goes before the variable; two files on the command line are a mistake.
    for (args, of_variable) in [
        (&["check"][..], path),
        (&["check", path], path),
        (&["replay", "--trace", trace], path),
        (&["check", path], "/nowhere"),
    ] {
        run_in(args, &[("TIDEGATE_CONFIG", of_variable)]).printed();
    }
    run(&["check", path, "-c", "/nowhere"]).fails(2, "named twice");
}

#[tokio::test]
async fn a_token_that_is_exported_for_commands_changes_no_role_at_a_server() {
    let files = Certificates::folder();
    let (change, read) = ("c".repeat(32), "r".repeat(32));
    let (change, read) = (files.with("change", &change), files.with("read", &read));
    let file = config(&format!(
        "{RULE}[server]\nadmin_token_file = \"{change}\"\nadmin_read_token_file = \"{read}\"\n"
    ));
    let mut command = Command::new(BINARY);
    command.env("TIDEGATE_OPERATOR_TOKEN_FILE", &read).env("TIDEGATE_CLIENT_TOKEN_FILE", &read);
    let server = Server::of(command, &["--config", file.path()]);
    let admin = server.operator();
    let reset = r#"{"descriptor": {"key": "a"}}"#;
    let asked = |token: &str| format!("Bearer {}", token.repeat(32));
    assert_eq!(admin.post_as("/v1/reset", reset, &asked("r")).await.status, 403);
    admin.post_as("/v1/reset", reset, &asked("c")).await.succeeded();
    let url = server.admin_url();
    run_in(&["rules", "--admin", &url], &[("TIDEGATE_OPERATOR_TOKEN_FILE", &read)]).printed();
}

#[test]
fn settings_of_flags_and_variables_are_logged_and_a_variable_that_means_nothing_is_a_warning() {
    let file = config(&format!("{RULE}[server]\nthreads = 1\n# TIDEGATE_OF_MINE is known here.\n"));
    let mut command = Command::new(BINARY);
    command.env("TIDEGATE_ADMIN_TOKEN", "t".repeat(32)).env("TIDEGATE_LOG_LEVEL", "info");
    command.env("TIDEGATE_TOKEN_FIEL", "/nowhere").env("TIDEGATE_OF_MINE", "a");
    let arguments = ["--config", file.path(), "--drain", "2s"];
    let mut server = Server::of(command, &arguments);
    let line = server.logs("settings come from flags and variables");
    for expected in [
        "http by --http",
        "drain by --drain",
        "log_level by TIDEGATE_LOG_LEVEL",
        "admin_token_file by TIDEGATE_ADMIN_TOKEN",
        "config by --config",
    ] {
        assert!(line.contains(expected), "{expected}: {line}");
    }
    assert!(!line.contains("threads") && !line.contains("ttt"), "{line}");
    let line = server.logs("TIDEGATE_TOKEN_FIEL has no effect");
    assert!(
        line.contains("TIDEGATE_TOKEN_FIEL") && line.contains("did you mean TIDEGATE_TOKEN_FILE?")
    );
    assert!(!server.stopped().contains("TIDEGATE_OF_MINE"));
}
