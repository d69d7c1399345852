//! The commands for people and programs other than `serve`: `init`, JSON, and an exit code by a share.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Server, check, config, run};

const RULE: &str =
    "[[rule]]\nname = \"r\"\nkey = [\"key\"]\nalgorithm = \"fixed_window\"\nrate = \"1/1h\"\n";

#[test]
fn a_file_to_start_from_is_checked_and_served_and_never_overwritten() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("new.toml");
    let path = file.to_str().unwrap();
    run(&["init", path]).printed();
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(run(&["init", "-"]).printed(), text);
    check(path).printed();
    let server = Server::with_rules(&text);
    assert!(server.printed.contains("per-user"), "{}", server.printed);
    std::fs::write(&file, "mine").unwrap();
    assert!(run(&["init", path]).refused(1).contains("exists and is left as it is"));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

/// The store for which every field has a meaning: with Sentinel, over TLS.
const SECURED: &str = "rediss+sentinel://127.0.0.1:26379/main\"";

/// The server accepts the examples of fields once their `#` is gone.
#[test]
fn what_stands_in_comments_of_that_file_is_right_by_itself() {
    let text = run(&["init", "-"]).printed();
    let (rules, server) = text.split_once("[server]").unwrap();
    let uncommented: String = server
        .lines()
        .map(|line| format!("{}\n", line.strip_prefix("# ").unwrap_or(line)))
        .collect();
    let store = rules.split_once("# [store]").unwrap().1.replace("\n# ", "\n");
    // A password stands in a variable or in a file.
    let store = ["password_env", "sentinel_password_env"]
        .into_iter()
        .fold(store, |store, field| store.replace(&format!("\n{field}"), &format!("\n# {field}")));
    let store = store.replace("redis://127.0.0.1:6379\"", SECURED);
    let (store, _) = store.split_once("\nThe listeners").unwrap();
    let file = config(&format!("{RULE}[store]{store}\n[server]{uncommented}"));
    check(file.path()).printed();
}

/// The object that is printed about a wrong file, with nothing next to it.
fn wrongly(path: &str) -> Value {
    let output = run(&["check", path, "--format", "json"]);
    assert_eq!((output.code, output.err.as_str()), (Some(2), ""));
    serde_json::from_str(&output.out).unwrap()
}

#[test]
fn a_check_is_one_object_for_programs() {
    let sound = config(RULE);
    let expected =
        json!({"file": sound.path(), "is_sound": true, "rules": 1, "errors": [], "warnings": []});
    assert_eq!(run(&["check", sound.path(), "--format", "json"]).object(), expected);

    let wrong = config(&format!("{RULE}limt = 3\n[server]\nthreads = 0\nlog_level = \"wan\"\n"));
    let path = wrong.path();
    let expected = json!({"file": path, "is_sound": false, "rules": null, "errors": [
        {"line": 6, "column": 1, "message": "unknown field `limt`", "hint": "did you mean `limit`?"},
        {"line": 8, "column": 11, "message": "`threads` is 0", "hint": "expected a whole number from 1 to 1024"},
        {
            "line": 9, "column": 13, "message": "`log_level` is the text \"wan\"",
            "hint": "expected one of off, error, warn, info, debug, trace; did you mean \"warn\"?",
        },
    ], "warnings": []});
    assert_eq!(wrongly(path), expected);
    let missing = &wrongly("/nowhere/rules.toml")["errors"][0];
    let hint = "expected a TOML file of rules";
    let expected = json!({"line": null, "column": null, "message": "no such file", "hint": hint});
    assert_eq!(missing, &expected);
}

/// Of 1,000 requests of one key and window, all but one are refused; of 999 keys, none.
fn trace(refused: usize) -> String {
    let line = |key: usize, at: usize| {
        format!("{{\"at_us\": {at}, \"descriptor\": {{\"key\": \"k{key}\"}}}}\n")
    };
    (0..1_000).map(|at| line(if at <= refused { 0 } else { at }, at)).collect()
}

#[test]
fn a_replay_and_a_comparison_are_one_object_each() {
    let (rules, trace) = (config(RULE), config(&trace(10)));
    let replay = ["replay", "-c", rules.path(), "--trace", trace.path(), "--format", "json"];
    let report = run(&replay).object();
    let counts = ["requests", "refused", "unlimited", "first_at_us", "last_at_us"];
    assert_eq!(counts.map(|name| report[name].as_u64().unwrap()), [1_000, 10, 0, 0, 999]);
    let expected = json!({
        "domain": "default", "name": "r", "mode": "enforce", "algorithm": "fixed_window",
        "asked": 1_000, "refused": 10, "overflow": 0, "longest_delay_us": 0,
        "refused_most": [{"key": "key=k0", "at_least": 10, "at_most": 10}],
        "variants": [{
            "match": null, "limit": 1, "window_us": 3_600_000_000_u64, "asked": 1_000, "refused": 10,
            "fullest_window": 1, "is_exact": true, "bound": 2,
        }],
    });
    assert_eq!(report["rules"], json!([expected]));

    let compare =
        ["compare", "--rate", "1/1h", "--key", "key", "--trace", trace.path(), "--format", "json"];
    let report = run(&compare).object();
    assert_eq!((&report["limit"], &report["requests"]), (&json!(1), &json!(1_000)));
    let algorithms = report["algorithms"].as_array().unwrap();
    let log = algorithms.iter().find(|one| one["name"] == "sliding_log").unwrap();
    let expected = json!({
        "name": "sliding_log", "admitted": 990, "refused": 10, "longest_delay_us": 0,
        "fullest_window": 1, "is_exact": true, "bound": 1,
    });
    assert_eq!((log, algorithms.len()), (&expected, 7));
    assert!(algorithms.iter().all(|one| one["name"] != "concurrency"));
}

#[test]
fn a_comparison_is_of_requests_of_every_domain() {
    let line = r#"{"at_us": 1, "domain": "pay", "descriptor": {"channel": "alipay"}}"#;
    let trace = config(&format!("{line}\n{line}\n"));
    let args = ["compare", "--rate", "1/1h", "--trace", trace.path(), "--format", "json", "--key"];
    let compare = |key: &str| run(&[&args[..], &[key]].concat());
    assert_eq!(compare("channel").object()["algorithms"][0]["refused"], 1);
    compare("chanel").fails(2, "those of its first line: channel");
}

#[test]
fn a_replay_fails_above_a_share_and_not_at_it() {
    let shadow = config(&format!("{RULE}mode = \"shadow\"\n"));
    let rules = config(RULE);
    for (rules, refused, share, code) in [
        (&rules, 10, "1%", 0),
        (&rules, 11, "1%", 1),
        (&rules, 1, "0%", 1),
        (&rules, 0, "0%", 0),
        (&shadow, 500, "0%", 0),
    ] {
        let trace = config(&trace(refused));
        let output =
            run(&["replay", "-c", rules.path(), "--trace", trace.path(), "--fail-above", share]);
        assert_eq!(output.code, Some(code), "{refused} {share}");
        assert!(!output.out.is_empty(), "the report is printed in any case");
        let expected = match code {
            0 => String::new(),
            _ => format!(
                "tidegate: {refused} of 1000 requests would be refused, which is more than --fail-above {share}\n"
            ),
        };
        assert_eq!(output.err, expected);
    }
}

#[test]
fn completions_and_pages_name_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = run(&["completions", shell]).printed();
        assert!(text.contains("replay") && text.contains("fail-above"), "{shell}: {text}");
    }
    let folder = TempDir::new().unwrap();
    let pages = folder.path().join("man1");
    run(&["man", pages.to_str().unwrap()]).printed();
    for (page, text) in [("tidegate.1", "tidegate\\-serve"), ("tidegate-serve.1", "TIDEGATE_HTTP")]
    {
        let page = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(page.starts_with(".ie") && page.contains(text), "{page}");
    }
    assert!(run(&["man"]).printed().contains(".SH SUBCOMMANDS"));
    // They are written again over their own files.
    run(&["man", pages.to_str().unwrap()]).printed();
    assert!(pages.read_dir().unwrap().all(|page| page.unwrap().path().is_file()));
}

#[test]
fn the_manual_is_not_written_through_a_link() {
    let folder = TempDir::new().unwrap();
    let mine = folder.path().join("mine");
    std::fs::write(&mine, "as it was").unwrap();
    std::os::unix::fs::symlink(&mine, folder.path().join("tidegate-serve.1")).unwrap();
    run(&["man", folder.path().to_str().unwrap()])
        .fails(1, "tidegate-serve.1 is there and is no file");
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "as it was");
    assert_eq!(folder.path().read_dir().unwrap().count(), 2, "nothing is written");
}
