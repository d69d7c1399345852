//! Traces at the command line: logs of many forms, lines that cannot be read, and how a line was read.

use serde_json::Value;

use crate::process::{Ended, TextFile, config, run};

const RULE: &str =
    "[[rule]]\nname = \"r\"\nkey = [\"ip\"]\nalgorithm = \"fixed_window\"\nrate = \"1/1h\"\n";

fn line(client: &str) -> String {
    format!("{client} - - [17/May/2015:10:05:03 +0000] \"GET /a HTTP/1.1\" 200 5\n")
}

/// A replay of one trace with more arguments.
fn replay(trace: &TextFile, more: &[&str]) -> Ended {
    let rules = config(RULE);
    let args = ["replay", "-c", rules.path(), "--trace", trace.path(), "--format", "json"];
    run(&[&args, more].concat())
}

/// The exit code of a replay, its requests, and how many of them were refused.
fn counts(output: &Ended) -> (i32, u64, u64) {
    let report: Value = serde_json::from_str(&output.out).unwrap();
    let [requests, refused] = ["requests", "refused"].map(|name| report[name].as_u64().unwrap());
    (output.code.unwrap(), requests, refused)
}

#[test]
fn forty_addresses_of_one_network_are_one_caller_unless_the_prefix_is_longer() {
    let lines = (0..40).map(|i| line(&format!("2001:db8:1:2::{i:x}"))).collect::<String>();
    let trace = config(&lines);
    for (more, refused) in [
        (&[][..], 39),
        (&["--ipv6-prefix", "64"], 39),
        (&["--ipv6-prefix", "/128"], 0),
        (&["--ipv6-prefix", "125"], 35),
    ] {
        assert_eq!(counts(&replay(&trace, more)), (0, 40, refused), "{more:?}");
    }
    let trace =
        config(&[line("::ffff:192.0.2.1"), line("192.0.2.1:80"), line("192.0.2.1")].concat());
    assert_eq!(counts(&replay(&trace, &[])), (0, 3, 2));
    replay(&trace, &["--ipv6-prefix", "129"]).refused(2);
}

#[test]
fn trusted_proxies_name_the_caller_and_what_they_leave_out_is_said() {
    let forwarded =
        |field: &str| format!("{} \"-\" \"curl/8\" \"{field}\"\n", line("10.0.0.5").trim_end());
    let trace =
        config(&[forwarded("192.0.2.1"), forwarded("6.6.6.6, 192.0.2.1"), forwarded("-")].concat());
    assert_eq!(counts(&replay(&trace, &[])), (0, 3, 2), "no proxy is trusted");
    let output = replay(&trace, &["--trusted-proxy", "10.0.0.0/8"]);
    assert_eq!(counts(&output), (0, 3, 1));
    let note = "1 of 3 requests count as a trusted proxy's own, because their lines name no other caller in \
                x-forwarded-for";
    assert!(output.err.contains(note), "{}", output.err);
    let trace = config(&[forwarded("for=192.0.2.1"), forwarded("for=192.0.2.2;by=x")].concat());
    let rfc = ["--trusted-proxy", "10.0.0.5", "--forwarded-field", "forwarded"];
    assert_eq!(counts(&replay(&trace, &rfc)), (0, 2, 0));
    replay(&trace, &["--trusted-proxy", "10.0.0.0/33"]).fails(2, "is not a network");
}

#[test]
fn an_unknown_prefix_is_never_taken_for_the_client() {
    let unknown = (1..=3).map(|i| format!("~ web {}", line(&format!("192.0.2.{i}"))));
    replay(&config(&unknown.collect::<String>()), &["--fail-above", "0%"]).fails(1, "nothing in ");
}

#[test]
fn more_than_one_percent_of_unreadable_lines_is_exit_code_1_after_the_report() {
    let good = line("192.0.2.1").repeat(198);
    let at_most = config(&format!("{good}what\nsoever\n"));
    let more = config(&format!("{good}stdout what\nso\never\n"));
    for (trace, flags, code) in [
        (&at_most, &[][..], 0),
        (&more, &[], 1),
        (&more, &["--fail-above", "100%"], 1),
        (&more, &["--allow-unreadable"], 0),
        (&more, &["--allow-unreadable", "--fail-above", "100%"], 0),
        (&more, &["--allow-unreadable", "--fail-above", "0%"], 1),
    ] {
        let output = replay(trace, flags);
        assert_eq!(
            counts(&output),
            (code, 198, 197),
            "the report is printed in any case: {flags:?}"
        );
        let said = output.err;
        assert!(said.contains(" lines were left out, not being readable:\n  line 199: "), "{said}");
        let says_how = said.contains("3 of 201 lines of ") && said.contains("--explain-line 199");
        assert_eq!(says_how, code == 1 && !flags.contains(&"--allow-unreadable"), "{said}");
    }
    let compare = ["compare", "--rate", "1/1h", "--key", "ip", "--trace", more.path()];
    assert_eq!(run(&compare).code, Some(1));
    run(&[&compare[..], &["--allow-unreadable"]].concat()).printed();
}

#[test]
fn several_traces_are_merged_by_time_and_judged_one_by_one() {
    let (first, second) = (
        config(&line("192.0.2.1")),
        config("{\"at_us\": 1, \"descriptor\": {\"ip\": \"192.0.2.1\"}}\n"),
    );
    let rules = config(RULE);
    let args = ["replay", "-c", rules.path(), "--trace", first.path(), "--trace", second.path()];
    let report = run(&[&args[..], &["--format", "json"]].concat()).object();
    assert_eq!(report["first_at_us"], 1);
    assert_eq!((&report["requests"], &report["refused"]), (&2.into(), &0.into()));
    let lines = run(&[&args[..], &["--format", "ndjson"]].concat()).printed();
    assert!(lines.lines().next().unwrap().contains("\"at_us\":1,"), "{lines}");
    // As a shell writes `--trace *.log`.
    let args = ["replay", "--trace", first.path(), second.path(), "-c", rules.path()];
    let report = run(&[&args[..], &["--format", "json"]].concat()).object();
    assert_eq!(report["requests"], 2);
    let large = config(&line("192.0.2.1").repeat(1_000));
    let small = config(&format!("{}nonsense\n", line("192.0.2.1")));
    let args = ["replay", "-c", rules.path(), "--trace", large.path(), "--trace", small.path()];
    let output = run(&args);
    let expected = format!("1 of 2 lines of {} cannot be read", small.path());
    assert!(output.code == Some(1) && output.err.contains(&expected), "{output:?}");
}

#[test]
fn how_a_line_was_read_is_shown_without_a_configuration() {
    let trace =
        config(&format!("{}web-1 | {}stdout x\n\n", line("192.0.2.1"), line("[2001:db8::7]:4711")));
    let explain =
        |number: &str| run(&["replay", "--trace", trace.path(), "--explain-line", number]);
    let expected = format!(
        "{}, line 2\n  prefix  docker compose\n  format  access log\n  time    2015-05-17T10:05:03Z\n  \
         client  [2001:db8::7]:4711\n  ip      2001:db8::/64\n  method  GET\n  path    /a\n  status  200\n",
        trace.path()
    );
    assert_eq!(explain("2").printed(), expected);
    let left_out = explain("3").printed();
    assert!(left_out.contains("left out  no time found"), "{left_out}");
    assert!(left_out.contains("\n  line      stdout x\n"), "{left_out}");
    assert!(explain("4").printed().contains("the line is blank"));
    assert!(explain("5").refused(1).contains("has fewer than 5 lines"));
    let json = r#"{"time":"2015-05-17T10:05:03Z","ip":"192.0.2.1","path":"/a","plan":"pro","api_key":"k"}"#;
    let trace_of_json = config(json);
    let shown = run(&["replay", "--trace", trace_of_json.path(), "--explain-line", "1"]).printed();
    assert!(shown.ends_with("not read: api_key, plan\n"), "{shown}");
    let compare = ["compare", "--trace", trace.path(), "--explain-line", "1"];
    assert!(run(&compare).printed().contains("ip      192.0.2.1"));
    explain("0").refused(2);
}

#[test]
fn a_format_can_be_given_and_a_wrong_one_is_usage() {
    let trace = config("0.004 192.0.2.1 1431857103\n0.004 192.0.2.1 1431857104\n");
    let output = replay(&trace, &["--log-format", "$request_time $remote_addr $msec"]);
    assert_eq!(counts(&output), (0, 2, 1));
    replay(&trace, &["--log-format", "$request_time $remote_addr"])
        .fails(2, "the format has no time");
}
