//! The allocations of a decision, counted by an allocator.

use allocation_counter::measure;

use super::command;
use crate::resp::parse::Parser;
use crate::resp::reply::Proto;
use crate::resp::session::CommandOutcome;
use crate::resp::testing::{open, session};

const COMMANDS: usize = 100;

/// Allocations of several commands, after the buffers of the connection have grown to their size. The count of frequent
/// keys samples one in sixteen decisions. A sampled decision allocates if its key is not counted yet, as when a new
/// minute has just begun, so this is the smallest of ten runs.
fn allocations(proto: Proto, words: &[&str]) -> u64 {
    let sent = command(words).repeat(COMMANDS).into_bytes();
    let mut parser = Parser::new();
    let mut session = session(open());
    session.proto = proto;
    let mut out = Vec::new();
    let mut answer_all = || {
        out.clear();
        let mut rest = &sent[..];
        while let Some(bytes) = parser.parse(rest).unwrap() {
            assert_eq!(session.answer(&parser.args(rest), &mut out), CommandOutcome::Answered);
            rest = &rest[bytes..];
        }
        assert!(rest.is_empty() && !out.is_empty());
    };
    (0..10).map(|_| measure(&mut answer_all).count_total).min().unwrap_or_default()
}

#[test]
fn a_decision_allocates_nothing() {
    for (proto, words) in [
        (Proto::Resp2, &["CL.THROTTLE", "user123", "15", "30", "60"][..]),
        (Proto::Resp2, &["CL.THROTTLE", "user123", "0", "1", "86400", "1"]),
        (Proto::Resp2, &["TG.CHECK", "default", "user", "ada"]),
        (Proto::Resp3, &["TG.CHECK", "default", "COST", "2", "user", "ada", "more", "x"]),
        (Proto::Resp3, &["TG.PEEK", "default", "user", "ada"]),
        (Proto::Resp2, &["PING"]),
    ] {
        assert_eq!(allocations(proto, words), 0, "{words:?}");
    }
}

/// Shows that the test above can fail.
#[test]
fn the_allocator_counts() {
    assert!(allocations(Proto::Resp2, &["NOSUCH", "a"]) >= COMMANDS as u64);
}
