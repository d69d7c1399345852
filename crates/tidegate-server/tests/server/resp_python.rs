//! redis-py on the RESP listener, as a client and as a cluster: it opens with HELLO 3 and CLIENT SETINFO, and pools its
//! connections.

use std::path::PathBuf;
use std::process::Command;

use crate::process::{Ended, Server};
use crate::resp::{RULES, examples};

/// Uses the library for a decision in both versions, pipelines, and an error.
const SCRIPT: &str = r#"
import sys, redis
port = int(sys.argv[1])
for protocol in (2, 3):
    r = redis.Redis(port=port, protocol=protocol, client_name="tests")
    assert r.ping() and r.client_getname() in (b"tests", "tests")
    key = f"py{protocol}"
    assert r.execute_command("CL.THROTTLE", key, 15, 30, 60) == [0, 16, 15, -1, 2]
    with r.pipeline(transaction=False) as p:
        for _ in range(5):
            p.execute_command("CL.THROTTLE", key + "p", 2, 1, 86400)
        assert [told[0] for told in p.execute()] == [0, 0, 0, 1, 1]
    with r.pipeline(transaction=True) as p:
        for _ in range(4):
            p.execute_command("CL.THROTTLE", key + "t", 2, 1, 86400)
        assert [told[0] for told in p.execute()] == [0, 0, 0, 1]
    with r.pipeline(transaction=True) as p:
        p.execute_command("CL.THROTTLE", key + "e", 0, 1, 86400)
        p.execute_command("NOSUCH")
        try:
            p.execute()
            raise SystemExit("no error")
        except redis.ResponseError as error:
            assert "NOSUCH" in str(error), error
    assert r.execute_command("CL.THROTTLE", key + "e", 0, 1, 86400)[0] == 0, "taken by what was not run"
    told = r.execute_command("TG.CHECK", "default", "COST", 2, "user", key)
    if protocol == 2:
        told = dict(zip(told[::2], told[1::2]))
    assert told[b"allowed"] == 1 and told[b"remaining"] == 1, told
    assert told[b"rule"] == b"per-user" and told[b"retry_after_us"] == 0, told
    try:
        r.execute_command("CL.THROTTLE", key, "x", 1, 1)
        raise SystemExit("no error")
    except redis.ResponseError as error:
        assert "Couldn't parse as integer: x" in str(error), error
    assert r.info()["redis_mode"] == "standalone"
    assert r.command_count() > 10
    cluster = redis.RedisCluster(host="127.0.0.1", port=port, protocol=protocol)
    assert cluster.execute_command("CL.THROTTLE", key + "c", 15, 30, 60) == [0, 16, 15, -1, 2]
    assert [node.port for node in cluster.get_nodes()] == [port]
print("redis-py", redis.__version__, "is content")
"#;

/// A Python with the library, for these tests, created when it is first needed.
fn python() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("redis-py");
    let python = folder.join("bin/python");
    let imports = |python: &PathBuf| {
        let tried = Command::new(python).args(["-c", "import redis"]).output();
        tried.is_ok_and(|output| output.status.success())
    };
    if !imports(&python) {
        let run = |command: &mut Command, remedy: &str| {
            let output = command.output();
            let output = output.unwrap_or_else(|error| panic!("{error}: install {remedy}"));
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "install {remedy}, and try again: {said}");
        };
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder), "`python3-venv`");
        let pip = ["-m", "pip", "install", "--quiet", "redis>=6,<9"];
        run(Command::new(&python).args(pip), "redis-py from PyPI");
    }
    python
}

/// Runs a script to its end; returns its output.
fn run(script: &str, port: &str) -> String {
    Ended::of(Command::new(python()).args(["-c", script, port])).printed()
}

/// One test, because the library is installed once.
#[test]
fn redis_py_works_unchanged_in_both_versions_and_so_do_the_examples_of_the_page() {
    let server = Server::with_rules(RULES);
    let port = server.resp.port().to_string();
    assert!(run(SCRIPT, &port).contains("is content"));
    let mut examples = examples("python");
    examples.retain(|example| example.starts_with("import redis\n"));
    assert_eq!(examples.len(), 2);
    for example in examples {
        assert_eq!(run(&example.replace("6380", &port), &port), "go on\n", "{example}");
    }
}
