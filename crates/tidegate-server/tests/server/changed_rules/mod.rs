//! The configuration is read again while the server decides: all of it or nothing.

mod put;
mod under_load;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::client::Client;
use crate::process::{Server, run, value};

const BODY: &str = r#"{"descriptor": {"user": "ada"}, "cost": 0}"#;

/// One rule with this limit, for a day.
pub(crate) fn rules(limit: u64) -> String {
    format!(
        "[[rule]]\nname = \"per-user\"\nkey = [\"user\"]\nalgorithm = \"sliding_log\"\n\
         rate = \"{limit}/1d\"\n"
    )
}

/// A folder with `rules.toml` in it.
pub(crate) fn folder(toml: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("rules.toml");
    fs::write(&file, toml).unwrap();
    (folder, file)
}

/// A server of these rules: its folder, its file, itself and its operator.
fn served(toml: &str, more: &[&str]) -> (TempDir, PathBuf, Server, Client) {
    let (folder, file) = folder(toml);
    let server = serve(&file, more);
    let operator = server.operator();
    (folder, file, server, operator)
}

pub(crate) fn serve(file: &Path, more: &[&str]) -> Server {
    Server::with_arguments(&[&["--config", file.to_str().unwrap()], more].concat())
}

/// The remaining units of a user.
pub(crate) async fn remaining(server: &Server) -> u64 {
    server.client().check(BODY).await.json()["remaining"].as_u64().unwrap()
}

#[tokio::test]
async fn sighup_puts_the_file_in_force_and_what_was_used_stays_used() {
    let (_folder, file, mut server, admin) = served(&rules(100), &["--no-watch"]);
    let etag = |answer: crate::client::Answer| answer.header("etag").unwrap().to_owned();
    let first = etag(admin.get("/v1/rules").await);
    let used = server.client().check(&BODY.replace(": 0", ": 30")).await;
    assert_eq!(used.json()["remaining"], 70);
    fs::write(&file, rules(50)).unwrap();
    server.signal("HUP");
    let change = "(each user): limit 100/1d -> 50/1d";
    let parts = ["cause=\"SIGHUP\"", "changed=1", change, first.trim_matches('"')];
    server.logs_with("another configuration is in force", &parts);
    assert_eq!(remaining(&server).await, 20);
    let answer = admin.get("/v1/rules").await;
    assert_eq!(
        (&answer.json()["rules"][0]["limit"], &answer.json()["reloads"]["succeeded"]),
        (&50.into(), &1.into())
    );
    assert_ne!(etag(answer), first);
    server.reload("says what is in force already");
    fs::write(&file, rules(100)).unwrap();
    server.reload("another configuration is in force");
    assert_eq!(etag(admin.get("/v1/rules").await), first, "equal texts have one tag");
}

/// Reloads that succeeded, that failed, whether the configuration is stale, and whether there was a reload.
async fn reloads(server: &Server) -> (Option<u64>, Option<u64>, Option<u64>, bool) {
    let text = server.metrics().await;
    let of =
        |outcome: &str| value(&text, &format!("tidegate_reloads_total{{outcome=\"{outcome}\"}}"));
    let stale = value(&text, "tidegate_configuration_is_stale");
    let last = value(&text, "tidegate_last_reload_seconds");
    (of("succeeded"), of("failed"), stale, last.is_some())
}

#[tokio::test]
async fn a_mistake_leaves_the_rules_in_force_and_is_counted_and_logged_with_its_place() {
    let (_folder, file, mut server, _admin) = served(&rules(100), &["--no-watch"]);
    assert_eq!(reloads(&server).await, (Some(0), Some(0), Some(0), false));
    fs::write(&file, rules(7).replace("rate", "rite")).unwrap();
    server.reload("the configuration before stays");
    server.logs_with("rules.toml:5:1: ", &["did you mean `rate`?"]);
    assert_eq!(remaining(&server).await, 100);
    assert_eq!(reloads(&server).await, (Some(0), Some(1), Some(1), true));
    let shown = server.operator().get("/v1/rules").await.json()["reloads"].clone();
    assert_eq!((&shown["succeeded"], &shown["failed"]), (&0.into(), &1.into()));
    assert!(shown["error"].as_str().unwrap().contains("rules.toml:5:1"), "{shown}");
    for (broken, expected) in [
        (&(|| fs::remove_file(&file).unwrap()) as &dyn Fn(), "no such file"),
        (&|| fs::create_dir(&file).unwrap(), "is a directory"),
    ] {
        broken();
        server.reload(expected);
        assert_eq!(remaining(&server).await, 100);
    }
    fs::remove_dir(&file).unwrap();
    fs::write(&file, rules(8)).unwrap();
    server.reload("another configuration is in force");
    assert_eq!(remaining(&server).await, 8);
    assert_eq!(reloads(&server).await, (Some(1), Some(3), Some(0), true));
}

#[tokio::test]
async fn a_file_that_is_renamed_linked_anew_or_half_written_is_seen() {
    let (folder, file) = folder("");
    fs::remove_file(&file).unwrap();
    // As Kubernetes mounts a ConfigMap: a link to a file below a link to a folder.
    for (name, limit) in [("one", 1), ("two", 2)] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("rules.toml"), rules(limit)).unwrap();
    }
    let at = |name: &str| folder.path().join(name);
    symlink("one", at("data")).unwrap();
    symlink("data/rules.toml", &file).unwrap();
    let mut server = serve(&file, &[]);
    assert_eq!(remaining(&server).await, 1);
    symlink("two", at("data.new")).unwrap();
    fs::rename(at("data.new"), at("data")).unwrap();
    server.logs_with("another configuration is in force", &["the file changed"]);
    assert_eq!(remaining(&server).await, 2);
    // As an editor saves.
    fs::write(at("saved"), rules(3)).unwrap();
    fs::rename(at("saved"), &file).unwrap();
    server.logs("another configuration is in force");
    assert_eq!(remaining(&server).await, 3);
    // A file that is being written, and rests half-written.
    fs::write(&file, &rules(4)[..40]).unwrap();
    server.logs("the configuration before stays");
    fs::write(&file, rules(4)).unwrap();
    server.logs("another configuration is in force");
    assert_eq!(remaining(&server).await, 4);
    let counts = server.operator().get("/v1/rules").await.json()["reloads"].clone();
    assert_eq!(
        (&counts["succeeded"], &counts["failed"]),
        (&3.into(), &1.into()),
        "each content is tried once"
    );
}

/// Each reload has rules that the reload before did not have, and each of them decides.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn reloads_leave_no_memory_behind() {
    const RULES: u64 = 40;
    const SETTLED: u64 = 200;
    const MOST_GROWN: u64 = 2 << 20;
    const SPANS: u64 = 5;
    let reloads = if testkit::threads::long() { 1_000 } else { 300 };
    let toml = |number: u64| -> String {
        let rule = |rule: u64| {
            let name = if rule == 0 { number + RULES } else { rule };
            format!(
                "[[rule]]\nname = \"rule-{name}\"\nkey = [\"user\"]\nalgorithm = \"token_bucket\"\n\
                 limit = {}\nwindow = \"1ms\"\n",
                number % 7 + 1
            )
        };
        (0..RULES).map(rule).collect()
    };
    let (_folder, file, mut server, _admin) = served(&toml(0), &["--no-watch"]);
    let client = server.client();
    let mut used = Vec::new();
    for number in 1..=SETTLED + reloads {
        fs::write(&file, toml(number)).unwrap();
        server.reload("another configuration is in force");
        client.check(BODY).await.succeeded();
        if number >= SETTLED && (number - SETTLED).is_multiple_of(reloads / SPANS) {
            used.push(server.memory());
        }
    }
    // Memory that a thread's allocator keeps and gives back goes up and down; memory that reloads leak raises the smallest
    // of the later figures too.
    let (earlier, later) = used.split_at(used.len() / 2);
    let grown = later.iter().min().unwrap().saturating_sub(*earlier.iter().min().unwrap());
    assert!(grown <= MOST_GROWN, "{used:?}");
}

#[tokio::test]
async fn what_needs_a_restart_is_named_and_everything_else_is_in_force() {
    let (_folder, file, mut server, _admin) = served(&rules(1), &["--no-watch"]);
    let more = "[server]\ndrain = \"9s\"\nlog_level = \"debug\"\n\
                [store]\nurl = \"redis://127.0.0.1:1\"\n";
    for limit in [2, 3] {
        fs::write(&file, format!("{}{more}", rules(limit))).unwrap();
        let logged = server.reload("need a restart");
        assert!(logged.contains("[server] drain") && !logged.contains("log_level"), "{logged}");
        assert!(logged.contains("[store] url"), "as long as it was not restarted: {logged}");
        assert_eq!(remaining(&server).await, limit);
    }
    server.logs_with("outcome=", &["DEBUG"]);
}

#[tokio::test]
async fn tokens_are_read_again_and_kept_where_the_new_ones_are_broken() {
    let (folder, file) = folder(&rules(9));
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, "first").unwrap();
    let mut server = serve(&file, &["--token-file", tokens.to_str().unwrap()]);
    let client = server.client();
    let ask = async |said: &str| client.post_as("/v1/check", BODY, said).await.status.as_u16();
    assert_eq!(ask("Bearer first").await, 200);
    fs::write(&tokens, "second\nthird").unwrap();
    server.reload("tokens are read again");
    let said = [ask("Bearer first").await, ask("Bearer second").await, ask("Bearer third").await];
    assert_eq!(said, [401, 200, 200]);
    fs::write(&tokens, "not a token").unwrap();
    let logged = server.reload("those read before stay in force");
    assert!(logged.contains("line 1 is no token") && !logged.contains("not a token"), "{logged}");
    assert_eq!(ask("Bearer second").await, 200);
}

#[test]
fn a_difference_is_said_with_the_exit_codes_of_diff() {
    let (folder, old) = folder(&rules(100));
    let new = folder.path().join("new.toml");
    fs::write(&new, format!("{}[server]\ndrain = \"9s\"\n", rules(50))).unwrap();
    let diff = |new: &Path, more: &[&str]| {
        let files = ["diff", old.to_str().unwrap(), new.to_str().unwrap()];
        let output = run(&[&files, more].concat());
        (output.code, output.out)
    };
    assert_eq!(diff(&old, &[]), (Some(0), "no difference\n".to_owned()));
    let (code, text) = diff(&new, &[]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with("~ [server] drain: added: 9s; needs a restart\n"), "{text}");
    assert!(
        text.ends_with("waits at most 1d because of it\nrules: 0 added, 1 changed, 0 removed\n"),
        "{text}"
    );
    let (code, json) = diff(&new, &["--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["is_same"]), (Some(1), &false.into()));
    assert_eq!(json["rules"][0]["fields"][0]["new"], "50/1d");
    fs::write(&new, "[[rule]]").unwrap();
    assert_eq!(diff(&new, &[]).0, Some(2));
    assert_eq!(diff(&folder.path().join("none"), &[]).0, Some(2));
}

#[tokio::test]
async fn a_token_moves_from_one_file_to_another_with_one_signal() {
    let (folder, file) = folder(&rules(9));
    let [clients, operators] = ["clients", "operators"].map(|name| folder.path().join(name));
    let write = |client: &str, operator: &str| {
        fs::write(&clients, client).unwrap();
        fs::write(&operators, operator).unwrap();
    };
    write("first", "second\nmoved");
    let [of_clients, of_operators] = [&clients, &operators].map(|path| path.to_str().unwrap());
    let files = ["--token-file", of_clients, "--admin-token-file", of_operators];
    let mut server = serve(&file, &files);
    write("first\nmoved", "second");
    server.signal("HUP");
    for _ in 0..2 {
        server.logs("tokens are read again");
    }
    let asked = server.client().post_as("/v1/check", BODY, "Bearer moved").await;
    assert_eq!(asked.status, 200);
}
