//! MULTI, EXEC and DISCARD: commands are kept, and run one after another when the client sends EXEC. `dispatch.rs` keeps and
//! runs them.
//!
//! As in Redis, an error of a command that is kept makes EXEC run none of them, so nothing is taken. EXEC writes the
//! head of its reply, and puts the commands before the rest of the input: their replies are its items. Each decision is
//! one step, as without MULTI, and decisions of other clients may come between two of them.

use super::args::Args;
use super::reply::RespReply;

/// Most bytes of the commands that are kept.
const KEPT_BYTES: usize = 64 << 10;

/// The commands since MULTI.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// The commands, each as an array of words.
    kept: Vec<u8>,
    commands: usize,
    /// True if one of them was an error.
    is_aborted: bool,
}

impl Transaction {
    /// Notes that EXEC is to run none of the commands.
    pub(super) fn abort(&mut self) {
        self.is_aborted = true;
        self.kept = Vec::new();
    }

    /// Keeps a command for EXEC.
    pub(super) fn keep(&mut self, args: &Args<'_>, reply: &mut RespReply<'_>) {
        if !self.is_aborted {
            self.commands += 1;
            // As an array also if it came inline, whose quotes are gone by now.
            self.kept.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
            for number in 0..args.len() {
                let word = args.word(number);
                self.kept.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                self.kept.extend_from_slice(word);
                self.kept.extend_from_slice(b"\r\n");
            }
        }
        if self.kept.len() > KEPT_BYTES {
            self.abort();
            let most = format!("expected at most {KEPT_BYTES} bytes of commands after MULTI");
            return reply.error(&format!("ERR the transaction is too long: {most}"));
        }
        reply.simple("QUEUED");
    }

    /// Answers EXEC; returns the commands to run.
    pub(super) fn exec(self, reply: &mut RespReply<'_>) -> Vec<u8> {
        let Self { kept, commands, is_aborted } = self;
        if is_aborted {
            reply.error("EXECABORT Transaction discarded because of previous errors.");
        } else {
            reply.array(commands);
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use crate::resp::testing::{exchange, open, replies_to};
    use crate::resp::tests::command;

    /// Reads the units that are left of this user's limit of three, and takes none.
    const PEEK: &str = "TG.PEEK default COST 0 user ada\r\n";
    const TAKE: &str = "TG.CHECK default user ada\r\n";

    #[tokio::test]
    async fn exec_runs_what_was_kept_in_order_and_answers_it_as_one_array() {
        let alone = replies_to(&TAKE.repeat(2)).await;
        let came =
            replies_to(&format!("MULTI\r\n{}PING\r\nEXEC\r\nPING\r\n", TAKE.repeat(2))).await;
        let without_times = |text: &str| {
            let lines = text.lines().filter(|line| !line.starts_with(":") || line.len() < 8);
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let queued = "+OK\r\n".to_owned() + &"+QUEUED\r\n".repeat(3);
        let expected = format!("{queued}*3\r\n{alone}+PONG\r\n+PONG\r\n");
        assert_eq!(without_times(&came), without_times(&expected));
    }

    #[tokio::test]
    async fn commands_that_wait_are_items_too_and_what_follows_waits_behind_them() {
        let wait = command(&["TG.CHECK", "waits", "user", "ada"]);
        let came =
            replies_to(&format!("MULTI\r\n{}ECHO last\r\nEXEC\r\nECHO end\r\n", wait.repeat(3)))
                .await;
        let (queued, ran) = came.split_once("*4\r\n").unwrap();
        assert_eq!(queued.matches("+QUEUED\r\n").count(), 4, "{came}");
        assert_eq!(ran.matches("shaped").count(), 3, "{came}");
        assert!(ran.ends_with("$4\r\nlast\r\n$3\r\nend\r\n"), "{came}");
    }

    /// Once, MULTI was an error and the commands after it were run, although their client believed that none was.
    #[tokio::test]
    async fn a_transaction_with_an_error_takes_nothing() {
        let untouched = replies_to(PEEK).await;
        let long = format!("ECHO {}\r\n", "x".repeat(30 << 10)).repeat(3);
        for wrong in ["NOSUCH a\r\n", "TG.CHECK\r\n", "TG.RESET default user ada\r\n", &long] {
            let sent = format!("MULTI\r\n{TAKE}{wrong}{TAKE}EXEC\r\n{PEEK}");
            let came = replies_to(&sent).await;
            let (before, after) = came.split_once("-EXECABORT").unwrap();
            assert!(before.starts_with("+OK\r\n+QUEUED\r\n"), "{came}");
            assert!(after.ends_with(&untouched), "{came}");
        }
        for given_up in ["DISCARD", "RESET"] {
            let came = replies_to(&format!("MULTI\r\n{TAKE}{given_up}\r\n{PEEK}")).await;
            assert!(came.ends_with(&untouched), "{came}");
        }
        let state = open();
        exchange(state.clone(), format!("MULTI\r\n{TAKE}").as_bytes()).await;
        let came = exchange(state, PEEK.as_bytes()).await;
        assert_eq!(String::from_utf8(came).unwrap(), untouched);
    }

    #[tokio::test]
    async fn words_of_any_bytes_are_kept_as_they_are() {
        let came =
            exchange(open(), b"MULTI\r\n*2\r\n$4\r\nECHO\r\n$4\r\n\xff\r\n\x00\r\nEXEC\r\n").await;
        assert!(came.ends_with(b"*1\r\n$4\r\n\xff\r\n\x00\r\n"), "{came:?}");
    }
}
