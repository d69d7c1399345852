//! Replies to commands over a pipe; nothing here waits for a socket.

mod allocations;
mod conversations;

use super::testing::{exchange, replies_to, state};
use crate::listener::ListenerSecret;

/// The replies of a listener with a secret.
async fn replies_with_secret(sent: &str) -> String {
    let secret = ListenerSecret::parse("right").unwrap();
    String::from_utf8(exchange(state(Some(secret)), sent.as_bytes()).await).unwrap()
}

pub(super) fn command(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{}", words.len(), words.concat())
}

/// The values of a check of `per-user`, in RESP2.
fn values(allowed: u8, remaining: u8) -> String {
    let start = format!("*22\r\n$7\r\nallowed\r\n:{allowed}\r\n$4\r\nrule\r\n$8\r\nper-user\r\n");
    start + &format!("$5\r\nlimit\r\n:3\r\n$9\r\nremaining\r\n:{remaining}\r\n")
}

#[tokio::test]
async fn a_pipeline_is_answered_in_order_and_a_refusal_is_no_error() {
    let check = command(&["TG.CHECK", "default", "user", "ada"]);
    let came = replies_to(&(check.repeat(4) + "PING\r\n")).await;
    let starts: Vec<_> = came.match_indices("*22").map(|(at, _)| &came[at..]).collect();
    assert_eq!(starts.len(), 4);
    for (start, (allowed, remaining)) in starts.iter().zip([(1, 2), (1, 1), (1, 0), (0, 0)]) {
        assert!(start.starts_with(&values(allowed, remaining)), "{start}");
    }
    assert!(came.ends_with("+PONG\r\n"), "{came}");
}

#[tokio::test]
async fn a_look_takes_nothing_and_a_cost_is_read_once() {
    for (words, start) in [
        (&["TG.PEEK", "default", "user", "b"][..], values(1, 3)),
        (&["tg.check", "default", "cost", "3", "user", "b"], values(1, 0)),
        (&["TG.CHECK", "default", "COST", "0", "user", "b"], values(1, 3)),
        (&["TG.CHECK", "default", "COST", "4", "user", "b"], values(0, 3)),
    ] {
        let came = replies_to(&command(words)).await;
        assert!(came.starts_with(&start), "{words:?}: {came}");
    }
    let never = replies_to(&command(&["TG.CHECK", "default", "COST", "4", "user", "b"])).await;
    assert!(never.contains("$14\r\nretry_after_us\r\n$-1\r\n"), "{never}");
    let entry = replies_to(&command(&["TG.CHECK", "other", "COST", "1", "cost", "x"])).await;
    assert!(entry.contains("$4\r\nrule\r\n$-1\r\n") && entry.contains("$9\r\nunlimited\r\n:1"));
}

#[tokio::test]
async fn an_invalid_question_is_an_error_with_what_was_expected() {
    for (words, expected) in [
        (
            &["TG.CHECK"][..],
            "-ERR wrong number of arguments for 'tg.check' command: expected TG.CHECK domain [COST n] [ID id] [name value ...]\r\n",
        ),
        (
            &["TG.CHECK", "d", "a"],
            "-ERR wrong number of arguments for 'tg.check' command: expected TG.CHECK domain [COST n] [ID id] [name value ...]\r\n",
        ),
        (
            &["TG.PEEK", "d", "a"],
            "-ERR wrong number of arguments for 'tg.peek' command: expected TG.PEEK domain [COST n] [ID id] [name value ...]\r\n",
        ),
        (&["TG.CHECK", ""], "-ERR the domain is empty: expected a name such as default\r\n"),
        (
            &["TG.CHECK", "d", "COST", "-1"],
            "-ERR COST is \"-1\": expected a whole number from 0 to 1000000000\r\n",
        ),
        (
            &["TG.CHECK", "d", "ID", "", "a", "1"],
            "-ERR the request's id is empty: expected 1 to 256 bytes, or no id at all\r\n",
        ),
        (
            &["TG.CHECK", "d", "ID", &"x".repeat(257)],
            "-ERR the request's id has 257 bytes: expected 1 to 256\r\n",
        ),
        (&["GET", "a", "b"], "-ERR unknown command 'GET', with args beginning with: 'a' 'b' \r\n"),
        (
            &["G\u{9b}2J\u{202e}"],
            "-ERR unknown command 'G\\u{9b}2J\\u{202e}', with args beginning with: \r\n",
        ),
        (&["ECHO"], "-ERR wrong number of arguments for 'echo' command\r\n"),
        (&["PING", "a", "b"], "-ERR wrong number of arguments for 'ping' command\r\n"),
        (&["SELECT", "1"], "-ERR DB index is out of range\r\n"),
        (&["CLIENT", "LIST"], "-ERR unknown subcommand 'LIST'. Try CLIENT HELP.\r\n"),
        (&["COMMAND", "NO"], "-ERR unknown subcommand 'NO'. Try COMMAND HELP.\r\n"),
        (
            &["COMMAND", "COUNT", "1"],
            "-ERR wrong number of arguments for 'command|count' command\r\n",
        ),
        (&["CLIENT", "ID", "1"], "-ERR wrong number of arguments for 'client|id' command\r\n"),
        (&["HELLO", "4"], "-NOPROTO unsupported protocol version\r\n"),
        (&["HELLO", "x"], "-ERR Protocol version is not an integer or out of range\r\n"),
        (&["HELLO", "3", "FOO"], "-ERR Syntax error in HELLO option 'FOO'\r\n"),
    ] {
        assert_eq!(replies_to(&command(words)).await, expected, "{words:?}");
    }
}

#[tokio::test]
async fn clients_open_as_they_are_used_to() {
    let greeting = |proto: &str| command(&["HELLO", proto, "SETNAME", "one"]);
    let three = replies_to(&(greeting("3") + &command(&["CLIENT", "GETNAME"]))).await;
    assert!(three.starts_with("%7\r\n$6\r\nserver\r\n$8\r\ntidegate\r\n"), "{three}");
    assert!(three.contains("$5\r\nproto\r\n:3\r\n") && three.ends_with("$3\r\none\r\n"), "{three}");
    assert!(replies_to(&greeting("2")).await.starts_with("*14\r\n"));
    let info = command(&["CLIENT", "SETINFO", "LIB-NAME", "redis-py"]);
    let more = [info, command(&["SELECT", "0"]), command(&["ECHO", "a b"]), "RESET\r\n".into()];
    let came = replies_to(&(more.concat() + "CLIENT GETNAME\r\nQUIT\r\nPING\r\n")).await;
    assert_eq!(came, "+OK\r\n+OK\r\n$3\r\na b\r\n+RESET\r\n$-1\r\n+OK\r\n");
}

#[tokio::test]
async fn resp_3_has_maps_booleans_and_nulls() {
    let came =
        replies_to(&(command(&["HELLO", "3"]) + &command(&["TG.CHECK", "other", "a", "b"]))).await;
    let (_, reply) = came.split_once("%11\r\n").unwrap();
    assert!(reply.starts_with("$7\r\nallowed\r\n#t\r\n$4\r\nrule\r\n_\r\n"), "{reply}");
}

#[tokio::test]
async fn a_secret_is_needed_before_any_answer() {
    let refused = "-NOAUTH Authentication required.\r\n";
    let unknown =
        "PING\r\nNOSUCH\r\nTG.CHECK a\r\nCLUSTER SLOTS\r\nCLUSTER NOSUCH\r\nCLIENT TRACKING ON\r\n";
    assert_eq!(replies_with_secret(unknown).await, refused.repeat(6));
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    for (sent, expected) in [
        ("AUTH wrong\r\nAUTH root right\r\n", wrong.repeat(2)),
        ("AUTH right\r\nPING\r\n", "+OK\r\n+PONG\r\n".to_owned()),
        ("AUTH default right\r\nRESET\r\nPING\r\n", format!("+OK\r\n+RESET\r\n{refused}")),
    ] {
        assert_eq!(replies_with_secret(sent).await, expected);
    }
    let hello = replies_with_secret("HELLO 3\r\n").await;
    assert!(hello.starts_with("-NOAUTH HELLO must be called"), "{hello}");
    assert!(replies_with_secret("HELLO 3 AUTH default right\r\n").await.starts_with("%7"));
    let unasked = replies_to("AUTH a\r\nAUTH default a\r\n").await;
    assert!(unasked.starts_with("-ERR AUTH <password> called without any password configured"));
    assert!(unasked.ends_with("+OK\r\n"), "as Redis without a password: {unasked}");
}

#[tokio::test]
async fn ten_wrong_tokens_end_the_connection_and_a_right_one_begins_anew() {
    let ask = async |sent: String| {
        let came = replies_with_secret(&sent).await;
        (came.matches("-WRONGPASS").count(), came.ends_with("+PONG\r\n"))
    };
    let (wrong, right) = ("AUTH a\r\n".repeat(9), "AUTH right\r\n");
    let hello = "HELLO 3 AUTH default a\r\n";
    assert_eq!(ask(wrong.clone() + right + &wrong + "PING\r\n").await, (18, true));
    assert_eq!(ask(wrong.clone() + hello + right + "PING\r\n").await, (10, false));
    assert_eq!(ask(wrong + hello + hello + hello).await, (10, false));
}

#[tokio::test]
async fn a_stranger_may_say_little_until_it_has_said_who_it_is() {
    let long = command(&["ECHO", &"x".repeat(20_000)]);
    let reply = replies_with_secret(&long).await;
    assert_eq!(reply, "-ERR Protocol error: unauthenticated bulk length\r\n");
    let reply = replies_with_secret("PING\r\n*11\r\n").await;
    assert!(
        reply.ends_with("-ERR Protocol error: unauthenticated multibulk length\r\n"),
        "{reply}"
    );
    let reply = replies_with_secret(&format!("AUTH right\r\n{long}")).await;
    assert!(reply.starts_with("+OK\r\n$20000\r\nxxx"));
}

#[tokio::test]
async fn a_call_of_redis_cell_is_answered_as_redis_cell_does() {
    let throttle = |words: &str| format!("CL.THROTTLE {words}\r\n");
    let came = replies_to(&throttle("user123 15 30 60")).await;
    assert_eq!(came, "*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n");
    // One of two in any day, then none, and a cost that never fits.
    let day = ["k 1 1 86400", "k 1 1 86400 1", "k 1 1 86400", "k 1 1 86400 0", "k 1 1 86400 3"];
    let came = replies_to(&day.map(throttle).concat()).await;
    assert_eq!(
        came,
        "*5\r\n:0\r\n:2\r\n:1\r\n:-1\r\n:86400\r\n*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:172800\r\n\
         *5\r\n:1\r\n:2\r\n:0\r\n:86400\r\n:172800\r\n*5\r\n:0\r\n:2\r\n:0\r\n:-1\r\n:172800\r\n\
         *5\r\n:1\r\n:2\r\n:0\r\n:-1\r\n:172800\r\n"
    );
}

#[tokio::test]
async fn errors_of_a_call_have_the_wording_of_redis_cell() {
    let usage = "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]";
    for (words, expected) in [
        ("", usage),
        ("k 1 2", usage),
        ("k 1 2 3 4 5", usage),
        ("k x 2 3", "Couldn't parse as integer: x"),
        ("k 1 2 9999999999999999999", "Couldn't parse as integer: 9999999999999999999"),
        ("k 1 0 3", "Zero rates are not supported"),
        ("k 1 2 0", "Zero rates are not supported"),
        ("k -1 2 3", "max_burst is -1: expected 0 to 999999999"),
        ("k 1 2 3 -4", "quantity is -4: expected 0 to 9223372036854775807"),
        ("k 1 2000000000 1", "count per period is 2000000000: expected 1 to 1000000000"),
    ] {
        let came = replies_to(&format!("CL.THROTTLE {words}\r\n")).await;
        assert_eq!(came, format!("-Cell error: Store error: {expected}\r\n"), "{words}");
    }
    // An input that overflowed another server, which decides in one task, and killed it.
    let came = replies_to("CL.THROTTLE x 999999999 1 31622400\r\nPING\r\n").await;
    assert!(came.starts_with("-Cell error: ") && came.ends_with("+PONG\r\n"), "{came}");
}

/// Limiters of rules and limiters of calls are separate.
#[tokio::test]
async fn calls_have_a_namespace_of_their_own() {
    let check = command(&["TG.CHECK", "default", "user", "ada"]);
    let call = command(&["CL.THROTTLE", "ada", "2", "1", "86400"]);
    let came = replies_to(&(check.repeat(3) + &call)).await;
    assert!(came.ends_with("*5\r\n:0\r\n:3\r\n:2\r\n:-1\r\n:86400\r\n"), "{came}");
}

#[tokio::test]
async fn the_commands_explain_themselves() {
    let count = replies_to("COMMAND COUNT\r\n").await;
    let all = replies_to("COMMAND\r\n").await;
    assert_eq!(count[1..], all[1..count.len()], "as many as are counted");
    let some = replies_to("COMMAND INFO ping nosuch\r\n").await;
    assert!(some.starts_with("*2\r\n*10\r\n$4\r\nping\r\n:-1\r\n") && some.ends_with("$-1\r\n"));
    let docs = replies_to("COMMAND DOCS cl.throttle\r\n").await;
    assert!(docs.starts_with("*2\r\n$11\r\ncl.throttle\r\n*8\r\n$7\r\nsummary\r\n"), "{docs}");
    let summary = docs.lines().nth(7).unwrap();
    assert!(summary.starts_with("Decides by a limit that the call carries"), "{summary}");
    let throttle =
        "$3\r\nkey\r\n$4\r\ntype\r\n$3\r\nkey\r\n*4\r\n$4\r\nname\r\n$9\r\nmax_burst\r\n";
    assert!(docs.contains(throttle), "{docs}");
    let docs = replies_to(&(command(&["HELLO", "3"]) + "COMMAND DOCS tg.check\r\n")).await;
    let cost = "$1\r\nn\r\n$4\r\ntype\r\n$7\r\ninteger\r\n$5\r\ntoken\r\n$4\r\nCOST\r\n\
                $5\r\nflags\r\n~1\r\n+optional\r\n";
    let entry = "$5\r\nflags\r\n~2\r\n+optional\r\n+multiple\r\n$9\r\narguments\r\n*2\r\n%2\r\n";
    assert!(docs.contains(cost) && docs.contains(entry), "{docs}");
    for (name, lines) in [("CLIENT", 12), ("CLUSTER", 8), ("COMMAND", 8)] {
        let help = replies_to(&format!("{name} HELP\r\n")).await;
        assert!(help.starts_with(&format!("*{lines}\r\n+{name}\r\n")), "{help}");
        assert_eq!(help.lines().count(), lines + 1, "{help}");
    }
    let info = replies_to("INFO server\r\n").await;
    assert!(info.contains("uptime_in_seconds:"), "{info}");
    let info = replies_to("INFO clients\r\n").await;
    assert!(info.contains("# Clients\r\nconnected_clients:1\r\n"), "{info}");
    assert!(replies_to("INFO\r\n").await.contains("redis_version:"));
}
