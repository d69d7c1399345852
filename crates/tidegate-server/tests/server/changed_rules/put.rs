//! Another configuration over the admin listener: in force and in the file, or neither.

use std::fs::{self, Permissions};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use hyper::Method;

use super::{folder, remaining, rules, serve, served};
use crate::client::Client;
use crate::process::{BINARY, Server};

/// The tag of the configuration in force.
async fn etag(admin: &Client) -> String {
    admin.get("/v1/rules").await.header("etag").unwrap().to_owned()
}

fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap()
}

#[tokio::test]
async fn a_change_is_in_force_and_in_the_file_and_in_the_log() {
    let (_folder, file, mut server, admin) = served(&rules(100), &[]);
    let first = etag(&admin).await;
    let put = admin.put_rules("", &first, &rules(50)).await.succeeded();
    let second = put.header("etag").unwrap().to_owned();
    assert_eq!((put.json()["changed"].as_u64(), &put.json()["dry_run"]), (Some(1), &false.into()));
    assert_eq!(put.json()["rules"][0]["fields"][0]["old"], "100/1d");
    assert_eq!((remaining(&server).await, text(&file)), (50, rules(50)));
    assert_eq!(etag(&admin).await, second);
    let tags = [&first, &second].map(|tag| tag.trim_matches('"'));
    let parts = ["PUT by 127.0.0.1:", "limit 100/1d -> 50/1d", tags[0], tags[1]];
    server.logs_with("another configuration is in force", &parts);
    // Another change, by an operator who has not seen this change.
    let stale = admin.put_rules("", &first, &rules(70)).await;
    assert_eq!(stale.header("etag"), Some(&*second));
    stale.refused(412, &second);
    admin
        .put_rules("", second.trim_matches('"'), &rules(70))
        .await
        .refused(412, "lacks its quotes");
    admin.put_rules("", "", &rules(70)).await.problem(428);
    assert_eq!((remaining(&server).await, text(&file)), (50, rules(50)));
    admin.put_rules("", "*", &rules(70)).await.succeeded();
}

/// A signal reads the file of before or of after, and never puts the one of before in force again.
#[tokio::test]
async fn signals_beside_puts_leave_in_force_what_was_put_and_is_in_the_file() {
    let (_folder, file, server, admin) = served(&rules(100), &[]);
    for limit in (1..=20).map(|round| 100 + round) {
        server.signal("HUP");
        let text_of = rules(limit);
        let (put, ()) = tokio::join!(admin.put_rules("", "*", &text_of), async {
            server.signal("HUP");
        });
        assert_eq!(put.status, 200, "{}", put.text);
        server.signal("HUP");
        assert_eq!((remaining(&server).await, text(&file)), (limit, text_of));
        assert_eq!(put.header("etag"), Some(&*etag(&admin).await));
    }
}

#[tokio::test]
async fn a_dry_run_answers_what_would_change_and_changes_nothing() {
    let (_folder, file, server, admin) = served(&rules(100), &[]);
    let tag = etag(&admin).await;
    let dry = admin.put_rules("?dry_run=1", "", &rules(50)).await;
    let text_of = dry.json()["text"].as_str().unwrap().to_owned();
    assert!(text_of.contains("limit 100/1d -> 50/1d; lower"), "{text_of}");
    assert!(text_of.contains("a caller waits at most 1d because of it"), "{text_of}");
    assert_eq!(dry.json()["rules"][0]["fields"][0]["longest_wait_us"], 86_400_000_000_u64);
    assert_eq!((dry.header("etag"), &dry.json()["dry_run"]), (Some(&*tag), &true.into()));
    assert_eq!(dry.json()["file"], file.to_str().unwrap());
    admin.put_rules("?dry_run=1", "\"other\"", &rules(50)).await.problem(412);
    admin.put_rules("?dry_runs", &tag, &rules(50)).await.problem(400);
    assert_eq!((remaining(&server).await, text(&file)), (100, rules(100)));
    assert_eq!(etag(&admin).await, tag);
}

#[tokio::test]
async fn a_revision_that_falls_is_a_warning_of_the_answer_and_of_the_log() {
    let (_folder, _file, mut server, admin) =
        served(&format!("revision = 11\n{}", rules(100)), &[]);
    let before = format!("revision = 10\n{}", rules(100));
    for query in ["?dry_run=1", ""] {
        let put = admin.put_rules(query, "*", &before).await;
        let warning = put.json()["warnings"][0].as_str().unwrap().to_owned();
        assert!(
            warning.contains("falls from 11 to 10") && warning.contains("at least 11"),
            "{warning}"
        );
    }
    server.logs("falls from 11 to 10");
}

#[tokio::test]
async fn a_body_that_lost_its_ends_of_lines_is_told_from_others() {
    let (_folder, _file, _server, admin) = served(&rules(100), &[]);
    admin
        .put_rules("", "*", &rules(50).replace('\n', ""))
        .await
        .refused(400, "--data-binary @FILE");
    let detail = admin.put_rules("", "*", &rules(50).replace("rate", "rite")).await.problem(400);
    assert!(!detail.contains("--data-binary"), "{detail}");
}

#[tokio::test]
async fn every_mistake_of_a_body_is_listed_with_its_place() {
    let (_folder, _file, _server, admin) = served(&rules(100), &[]);
    let wrong = format!("{}[server]\nhttp = \"nowhere\"\n", rules(1).replace("rate", "rite"));
    for query in ["", "?dry_run=1"] {
        let refused = admin.put_rules(query, &etag(&admin).await, &wrong).await;
        refused.problem(400);
        let problem = refused.json();
        let places: Vec<_> = problem["mistakes"].as_array().unwrap().iter().collect();
        assert!(places.len() >= 2, "{problem}");
        assert!(places.iter().any(|one| one["line"] == 5 && one["column"] == 1), "{problem}");
        assert!(places.iter().any(|one| one["line"] == 7 && one["column"] == 8), "{problem}");
    }
    let whole = format!("{}[server]\nhttp = \"off\"\ngrpc = \"off\"\nresp = \"off\"\n", rules(1));
    let all_off = admin.put_rules("", "*", &whole).await;
    // Flags of the command line open the listeners, so the file is sound here.
    assert_eq!(all_off.status, 200, "{}", all_off.text);
    let json = admin.send(Method::PUT, "/v1/rules", Some("application/json"), vec![b'{']).await;
    json.problem(415);
    let large = "#".repeat((4 << 20) + 1);
    admin.put_rules("", "*", &large).await.problem(413);
    assert_eq!(admin.send(Method::DELETE, "/v1/rules", None, Vec::new()).await.status, 405);
}

/// This number of rules, each for a tenant of its own, whose name is its number.
fn many(rules: usize, limit: u64, note: &str) -> String {
    let rule = |number| {
        format!(
            "[[rule]]\nname=\"{number}\"\nkey=[\"u\"]\nalgorithm=\"token_bucket\"\nwhen={{t=\"{number}\"}}\n\
             rate=\"{limit}/1d\"\n{note}"
        )
    };
    (0..rules).map(rule).collect()
}

#[tokio::test]
async fn ten_thousand_rules_are_put_and_answered_one_by_one() {
    const RULES: usize = 10_000;
    let (_folder, _file, server, admin) = served(&rules(100), &["--no-watch"]);
    let note = format!("# {}\n", "a note of an operator who maintains it".repeat(4));
    for (limit, change) in [(7, "added"), (9, "changed")] {
        let put =
            admin.put_rules("", &etag(&admin).await, &many(RULES, limit, &note)).await.succeeded();
        assert_eq!(put.json()[change], RULES);
        assert_eq!(put.json()["rules"].as_array().unwrap().len(), RULES + usize::from(limit == 7));
        let answer = server.client().check(r#"{"descriptor": {"t": "9999", "u": "ada"}}"#).await;
        let answer = answer.json();
        assert_eq!((&answer["limit"], &answer["rule"]), (&limit.into(), &"9999".into()));
    }
    assert_eq!(admin.get("/v1/rules").await.json()["rules"].as_array().unwrap().len(), RULES);
    assert_eq!(server.metric("tidegate_policy_rules").await, Some(10_000));
}

#[tokio::test]
async fn a_file_that_was_changed_or_can_not_be_written_is_a_conflict() {
    let (folder, file, mut server, admin) = served(&rules(100), &["--no-watch"]);
    let conflict = async |expected: &str| {
        let refused = admin.put_rules("", "*", &rules(50)).await;
        assert!(refused.problem(409).contains(expected), "{}", refused.text);
        assert_eq!(remaining(&server).await, 100);
    };
    fs::write(&file, rules(70)).unwrap();
    conflict("it has changed since it was loaded").await;
    assert_eq!(text(&file), rules(70));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    conflict("is no regular file").await;
    fs::remove_dir(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    conflict("is no regular file").await;
    fs::remove_file(&file).unwrap();
    conflict("rules.toml").await;
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "no file is left");
    server.logs("a configuration was refused");
    let built_in = Server::with_example();
    let refused = built_in.operator().put_rules("", "*", &rules(1)).await;
    assert!(refused.problem(409).contains("the rules are built in"), "{}", refused.text);
}

#[tokio::test]
async fn a_folder_that_may_only_be_read_is_a_conflict() {
    const NOBODY: u32 = 65_534;
    let (folder, file) = folder(&rules(100));
    let mut command = Command::new(BINARY);
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        // Permissions bind everybody else.
        command.uid(NOBODY).gid(NOBODY);
    }
    fs::set_permissions(&file, Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o555)).unwrap();
    let server = Server::of(command, &["--config", file.to_str().unwrap()]);
    let refused = server.operator().put_rules("", "*", &rules(50)).await;
    assert!(refused.problem(409).contains("denied"), "{}", refused.text);
    assert_eq!((remaining(&server).await, text(&file)), (100, rules(100)));
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn of_two_servers_on_one_file_the_one_that_is_behind_writes_nothing() {
    let (_folder, file) = folder(&rules(100));
    let (one, two) = (serve(&file, &["--no-watch"]), serve(&file, &["--no-watch"]));
    let put = async |server: &Server, limit| {
        server.operator().put_rules("", "*", &rules(limit)).await.status.as_u16()
    };
    assert_eq!(put(&one, 50).await, 200);
    assert_eq!(put(&two, 70).await, 409);
    let (this, that) = tokio::join!(put(&one, 51), put(&two, 71));
    assert_eq!((this, that), (200, 409));
    assert_eq!((text(&file), remaining(&two).await), (rules(51), 100));
}

#[tokio::test]
async fn a_kill_in_the_middle_leaves_the_old_file_or_the_new_one_whole() {
    let (_folder, file) = folder(&rules(1));
    // Large enough that writing it takes a while.
    let toml = |limit| format!("{}#{}\n", rules(limit), "x".repeat(200_000));
    fs::write(&file, toml(1)).unwrap();
    let (mut before, mut changed) = (1, 0);
    for round in 0..24_u64 {
        let server = serve(&file, &["--no-watch"]);
        assert_eq!(remaining(&server).await, before);
        let admin = server.operator();
        let put = tokio::spawn(async move {
            for limit in 0.. {
                let toml = toml(1_000 + 100 * round + limit % 100);
                // It ends with the server.
                admin.put_rules("", "*", &toml).await;
            }
        });
        let watched = server.operator();
        while watched.get("/v1/rules").await.json()["reloads"]["succeeded"].as_u64()
            < Some(round % 3)
        {}
        for _ in 0..=round {
            let _ = watched.get("/healthz").await;
        }
        server.signal("KILL");
        drop(server);
        assert!(put.await.unwrap_err().is_panic());
        let left = text(&file);
        let limit: u64 =
            left.split('"').nth(7).unwrap().split('/').next().unwrap().parse().unwrap();
        assert_eq!(left, toml(limit), "round {round}");
        changed += u64::from(limit != before);
        before = limit;
    }
    assert!(changed > 0, "no change was ever made");
}

#[tokio::test]
async fn beyond_loopback_a_change_needs_a_token_or_a_certificate() {
    let Some(own) = own_address() else { return };
    let (folder, file) = folder(&rules(100));
    let at = format!("{own}:0");
    let tokens = folder.path().join("tokens");
    fs::write(&tokens, "first\nsecond").unwrap();
    let mut kept = serve(&file, &["--admin", &at, "--token-file", tokens.to_str().unwrap()]);
    let admin = kept.operator();
    admin.put_rules("", "*", &rules(50)).await.problem(401);
    admin.put_rules_as("*", &rules(50), "Bearer second").await.succeeded();
    let logged = kept.logs("another configuration is in force");
    assert!(logged.contains(&format!("PUT by {own}:")) && logged.contains(", token 2"), "{logged}");
}

/// An address of this machine that others could reach; `None` where it has none.
fn own_address() -> Option<Ipv4Addr> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    match socket.local_addr().ok()?.ip() {
        std::net::IpAddr::V4(own) if !own.is_loopback() => Some(own),
        _ => None,
    }
}

/// So many rules that the answer to the change would be longer than a connection may keep.
#[tokio::test]
async fn a_change_that_is_in_force_is_not_answered_as_failed_however_long_it_is() {
    const RULES: usize = 45_000;
    let (_folder, _file, server, admin) = served(&rules(100), &["--no-watch"]);
    for (query, tag) in [("?dry_run=1", ""), ("", "*")] {
        let put = admin.put_rules(query, tag, &many(RULES, 7, "")).await.succeeded();
        let answer = put.json();
        assert_eq!(answer["added"], RULES);
        let shown = answer["rules"].as_array().unwrap().len() as u64;
        assert_eq!(shown + answer["left_out"].as_u64().unwrap(), RULES as u64 + 1);
        assert!(put.text.len() <= 6 << 20, "{}", put.text.len());
    }
    let body = r#"{"descriptor": {"t": "44999", "u": "ada"}}"#;
    assert_eq!(server.client().check(body).await.json()["limit"], 7);
}
