//! Usage is kept in a file: over a stop, over a kill at any moment, and with a file that cannot be used.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tidegate::{Clock, Gate, SystemClock, config};
use tokio::time::sleep;

use crate::process::{ANY_PORTS, BINARY, Ended, Server, check, config as file_of, prepared};

const RULES: &str = r#"
rule = [
    { name = "per-user", key = ["user"], algorithm = "sliding_log", limit = 2, window = "365d" },
    { name = "all", algorithm = "token_bucket", limit = 1_000_000, window = "365d" },
]
"#;

/// A folder for the file.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("limiters")
    }

    fn with(&self, more: &[&str]) -> Vec<String> {
        let file = self.file().display().to_string();
        [&["--snapshot", &file], more].concat().into_iter().map(str::to_owned).collect()
    }

    fn server(&self, more: &[&str]) -> Server {
        let all = self.with(more);
        Server::with_rules_and(RULES, &all.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The message of a server that does not begin.
    fn refused(&self) -> String {
        let rules = file_of(RULES);
        let mut command = Command::new(BINARY);
        command.arg("serve").args(ANY_PORTS).args(self.with(&[])).arg("-c").arg(rules.path());
        Ended::of(&mut command).refused(1)
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

async fn asked(server: &Server, user: &str) -> u16 {
    let body = json!({ "descriptor": { "user": user } }).to_string();
    server.client().check(&body).await.status.as_u16()
}

/// Waits for this many more of a series.
async fn wait_for_more(server: &Server, series: &str, more: u64) {
    let before = server.metric(series).await.unwrap();
    while server.metric(series).await < Some(before + more) {
        sleep(Duration::from_millis(20)).await;
    }
}

const SUCCEEDED: &str = "tidegate_snapshots_total{outcome=\"succeeded\"}";
const FAILED: &str = "tidegate_snapshots_total{outcome=\"failed\"}";

#[tokio::test]
async fn what_was_used_before_a_stop_is_used_after_it() {
    let place = Place::new();
    let mut server = place.server(&[]);
    server.logs("no snapshot is there yet");
    assert_eq!([asked(&server, "ada").await, asked(&server, "ada").await], [200, 200]);
    assert!(server.stopped().contains("the snapshot is written"));
    assert_eq!(fs::metadata(place.file()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(place.names(), ["limiters", "limiters.lock"]);
    let mut server = place.server(&[]);
    assert!(server.logs("usage before the restart still counts").contains("limiters=2"));
    assert_eq!([asked(&server, "ada").await, asked(&server, "bob").await], [429, 200]);
}

#[tokio::test]
async fn a_kill_forgets_what_came_after_the_last_snapshot_and_no_more() {
    let place = Place::new();
    let server = place.server(&["--snapshot-every", "100ms"]);
    assert_eq!([asked(&server, "ada").await, asked(&server, "ada").await], [200, 200]);
    wait_for_more(&server, SUCCEEDED, 2).await;
    assert_eq!(server.metric(FAILED).await, Some(0));
    drop(server);
    let server = place.server(&[]);
    assert_eq!([asked(&server, "ada").await, asked(&server, "bob").await], [429, 200]);
}

#[tokio::test]
async fn a_damaged_file_is_kept_aside_and_the_server_begins_fresh() {
    let place = Place::new();
    place.server(&[]).stopped();
    let mut bytes = fs::read(place.file()).unwrap();
    bytes[30] ^= 1;
    fs::write(place.file(), &bytes).unwrap();
    let mut server = place.server(&[]);
    server.logs_with("cannot be used", &["WARN", "the checksum of the block at byte 12"]);
    assert_eq!(asked(&server, "ada").await, 200);
    server.stopped();
    let names = place.names();
    let aside = names.iter().find(|name| name.starts_with("limiters.damaged-")).unwrap();
    assert_eq!(fs::read(place.0.path().join(aside)).unwrap(), bytes);
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn two_servers_do_not_share_a_file_and_a_folder_is_none() {
    let place = Place::new();
    let first = place.server(&[]);
    let said = place.refused();
    assert!(said.contains("another server uses it"), "{said}");
    first.stopped();
    place.server(&[]).stopped();
    fs::remove_file(place.file()).unwrap();
    fs::create_dir(place.file()).unwrap();
    let said = place.refused();
    assert!(said.contains("expected the path of a file"), "{said}");
    fs::remove_dir_all(place.0.path()).unwrap();
    let said = place.refused();
    assert!(said.contains("a folder that this server may write to"), "{said}");
}

#[tokio::test]
async fn a_file_that_cannot_be_replaced_is_an_error_until_it_can() {
    let place = Place::new();
    let mut server = place.server(&["--snapshot-every", "100ms"]);
    wait_for_more(&server, SUCCEEDED, 1).await;
    fs::rename(place.file(), place.0.path().join("moved")).unwrap();
    while fs::create_dir(place.file()).is_err() {
        let _ = fs::remove_file(place.file());
    }
    wait_for_more(&server, FAILED, 2).await;
    server.logs_with("cannot be written", &["ERROR", "Is a directory"]);
    fs::remove_dir(place.file()).unwrap();
    wait_for_more(&server, SUCCEEDED, 1).await;
    server.logs("snapshots are written again");
}

/// Writes the limiters of so many users. All of them have used their whole limit.
fn fill(file: &Path, users: usize) {
    let gate = Gate::new(config::parse("test", RULES).unwrap());
    for user in 0..users {
        let user = user.to_string();
        (0..2).for_each(|_| assert!(gate.admits(("default", &[("user", &*user)]))));
    }
    let _ = gate.write_snapshot(fs::File::create(file).unwrap()).unwrap();
}

/// A process whose files may have this many blocks of 512 bytes, as on a disk that is full then.
#[tokio::test]
async fn on_a_full_disk_the_file_before_stays_whole() {
    let place = Place::new();
    fill(&place.file(), 2_000);
    let before = fs::read(place.file()).unwrap();
    let rules = file_of(RULES);
    let command = prepared("trap '' XFSZ && ulimit -f 64 &&");
    let all = place.with(&["--snapshot-every", "100ms", "-c", rules.path()]);
    let mut server = Server::of(command, &all.iter().map(String::as_str).collect::<Vec<_>>());
    wait_for_more(&server, FAILED, 2).await;
    assert!(server.logs("cannot be written").contains("ERROR"));
    assert_eq!(asked(&server, "0").await, 429, "it decides");
    let log = server.stopped();
    assert!(!log.contains("the snapshot is written"), "{log}");
    assert_eq!(fs::read(place.file()).unwrap(), before);
    assert_eq!(place.names(), ["limiters", "limiters.lock"]);
}

#[tokio::test]
async fn a_server_that_is_killed_at_any_moment_leaves_a_whole_file() {
    let (place, users) = (Place::new(), 60_000);
    fill(&place.file(), users);
    let rounds = if testkit::threads::long() { 40_u64 } else { 8 };
    for round in 0..rounds {
        let server = place.server(&["--snapshot-every", "100ms"]);
        assert_eq!(asked(&server, &(round * 97).to_string()).await, 429);
        sleep(Duration::from_millis(40 + round * 37 % 170)).await;
        drop(server);
        let gate = Gate::new(config::parse("test", RULES).unwrap());
        let (gate, loaded) = gate.with_snapshot(fs::File::open(place.file()).unwrap()).unwrap();
        assert_eq!(loaded.limiters, users as u64 + 1, "round {round}");
        assert!(!gate.admits(("default", &[("user", "7")])), "round {round}");
    }
    place.server(&[]).stopped();
    assert_eq!(place.names(), ["limiters", "limiters.lock"], "nothing else is left");
}

#[test]
fn a_file_beside_a_store_has_no_effect_and_that_is_said() {
    let text = format!("{RULES}[server]\nsnapshot = \"x\"\n");
    assert!(check(file_of(&text).path()).err.is_empty());
    let over = file_of(&format!("{text}[store]\nurl = \"redis://127.0.0.1:1\"\n"));
    let said = check(over.path()).err;
    assert!(said.contains("warning: `snapshot` has no effect"), "{said}");
    let often = file_of(&format!("{RULES}[server]\nsnapshot_every = \"1ms\"\n"));
    check(often.path()).fails(2, "expected a time from \"100ms\" to \"1d\"");
}

/// A command that gets this socket as a service manager passes it, under a name.
fn with_socket(socket: &TcpListener, name: &str) -> Command {
    let mut command = prepared("exec 3<&0 </dev/null && LISTEN_FDS=1 LISTEN_PID=$$");
    command.env("LISTEN_FDNAMES", name).stdin(OwnedFd::from(socket.try_clone().unwrap()));
    command
}

/// One request on a connection of its own; `None` if it got no answer.
fn asked_once(at: SocketAddr) -> Option<bool> {
    let Ok(mut stream) = TcpStream::connect(at) else { panic!("a connection is refused") };
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let body = r#"{"descriptor":{"user":"ada"}}"#;
    let head =
        "POST /v1/check HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json";
    let request = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    match answer.split(' ').nth(1)? {
        "200" => Some(true),
        "429" => Some(false),
        other => panic!("{other}: {answer}"),
    }
}

#[test]
fn while_a_server_is_replaced_nobody_is_refused_a_connection_and_the_limit_holds() {
    const LIMIT: usize = 4_000;
    let place = Place::new();
    let rules = file_of(&RULES.replace("limit = 2,", &format!("limit = {LIMIT},")));
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let arguments = place.with(&["-c", rules.path()]);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let start = || Server::of(with_socket(&socket, "http"), &arguments);
    let counts = [(); 3].map(|()| AtomicUsize::new(0));
    let [admitted, refused, unanswered] = &counts;
    let (clock, longest_us) = (SystemClock::new(), AtomicU64::new(0));
    let server = start();
    assert_eq!(server.http, at);
    let server = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while refused.load(SeqCst) + unanswered.load(SeqCst) == 0 {
                    let began = clock.now();
                    let count = match asked_once(at) {
                        Some(true) => admitted,
                        Some(false) => refused,
                        None => unanswered,
                    };
                    count.fetch_add(1, SeqCst);
                    let took_us = clock.now().as_micros() - began.as_micros();
                    longest_us.fetch_max(took_us, SeqCst);
                }
            });
        }
        (1..=3).fold(server, |server, part| {
            while admitted.load(SeqCst) < part * LIMIT / 4 && unanswered.load(SeqCst) == 0 {
                thread::yield_now();
            }
            server.stopped();
            start()
        })
    });
    assert_eq!(asked_once(at), Some(false));
    assert_eq!((admitted.load(SeqCst), unanswered.load(SeqCst)), (LIMIT, 0));
    println!("the longest request took {longest_us:?} us, a replacement in it");
    server.stopped();
}

#[test]
fn a_socket_that_has_no_listener_is_refused() {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    for (name, more, expected) in [
        ("web", [].as_slice(), "expected the name http, grpc, resp or admin"),
        ("grpc", &["--grpc", "off"], "is for a listener that is off"),
    ] {
        let mut command = with_socket(&socket, name);
        command.arg("serve").args(&ANY_PORTS[4..]).args(more);
        Ended::of(&mut command).fails(2, expected);
    }
}

/// A stranger who may write to the folder let the server wait for a pipe, or create any file that its user may create.
#[test]
fn a_pipe_or_a_link_in_the_place_of_the_lock_is_refused_and_not_followed() {
    let (pipe, link) = (Place::new(), Place::new());
    let lock = |place: &Place| format!("{}.lock", place.file().display());
    assert!(Command::new("mkfifo").arg(lock(&pipe)).status().unwrap().success());
    let elsewhere = link.file().with_file_name("elsewhere");
    std::os::unix::fs::symlink(&elsewhere, lock(&link)).unwrap();
    for place in [pipe, link] {
        let said = place.refused();
        assert!(said.contains("limiters.lock is not a file"), "{said}");
    }
    assert!(!elsewhere.exists());
}
