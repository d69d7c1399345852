//! `tidegate script`: the printed shell line decides in a real store.

use std::env;
use std::path::Path;
use std::process::Command;

use tidegate::AlgorithmKind;

use crate::process::{BINARY, Ended, run};
use crate::store::Store;

/// Prints the script of an algorithm with a limit of two.
fn printed(algorithm: AlgorithmKind) -> String {
    run(&["script", algorithm.name(), "--rate", "2/3600s", "--key", "by hand"]).printed()
}

/// Runs a shell line over a store, with the binary on the path, and returns its output.
fn shell(line: &str, store: &Store) -> String {
    let folder = Path::new(BINARY).parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("PATH", path);
    let output = Ended::of(command.env("REDIS", format!("redis-cli -p {}", store.port())));
    assert!(output.code == Some(0) && output.err.is_empty(), "{line}: {output:?}");
    output.out.trim_end().to_owned()
}

#[test]
fn the_printed_shell_line_of_each_algorithm_decides_in_a_store() {
    for algorithm in AlgorithmKind::ALL {
        let store = Store::start();
        let text = printed(*algorithm);
        let line = text.lines().find_map(|line| line.strip_prefix("--   ${REDIS")).unwrap();
        let line = format!("${{REDIS{line}");
        let looks = format!("{line} '\"peek\"'");
        let is_list = |reply: &str| reply.starts_with("1) (integer) ");
        // A queue serves one request, and two wait.
        let most = if algorithm.is_queue() { 3 } else { 2 };
        assert!(shell(&looks, &store).starts_with("1) (integer) 0\n"), "{algorithm}");
        for _ in 0..most {
            let reply = shell(&line, &store);
            assert!(!is_list(&reply), "{algorithm}: {reply}");
        }
        for line in [&line, &looks] {
            let reply = shell(line, &store);
            assert!(reply.starts_with("1) (integer) 1\n"), "{algorithm}: {reply}");
        }
    }
}

#[test]
fn the_numbers_of_the_argument_are_named_as_the_script_reads_them() {
    for (algorithm, expected) in [
        (AlgorithmKind::FixedWindow, "doubles: cost 1, W 3600000000, N 2, anchored 0\n"),
        (AlgorithmKind::SlidingLog, "doubles: cost 1, W 3600000000, N 2, tick 1, most 2\n"),
    ] {
        let text = printed(algorithm);
        assert!(text.contains(expected), "{}", text.lines().take(20).collect::<String>());
    }
}

#[test]
fn an_unknown_algorithm_is_answered_with_the_known_ones() {
    let said = run(&["script", "tokn_bucket"]).refused(2);
    for algorithm in AlgorithmKind::ALL {
        assert!(said.contains(algorithm.name()), "{said}");
    }
}
