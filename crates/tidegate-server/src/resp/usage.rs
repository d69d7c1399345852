//! The usage of commands, and errors about it, in the wording of Redis. The commands and `dispatch.rs` write them.

use std::borrow::Cow;

use super::args::Args;
use super::question::QuestionMistake;
use super::reply::RespReply;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The error of a command with too many or too few words.
pub(super) fn wrong_number(command: &str, reply: &mut RespReply<'_>) {
    reply.refuse(&RefusalKind::InvalidQuestion.because(wrong_words(command)));
}

fn wrong_words(command: &str) -> String {
    let words = match command {
        "tg.check" | "tg.peek" => "domain [COST n] [ID id] [name value ...]",
        "tg.reserve" => "domain [COST n] [ID id] [LIFE ms] [name value ...]",
        "tg.settle" => "reservation actual",
        "tg.renew" => "reservation",
        "tg.refund" => "domain [COST n] [name value ...]",
        "tg.reset" => "domain [name value ...]",
        _ => return format!("wrong number of arguments for '{command}' command"),
    };
    format!(
        "wrong number of arguments for '{command}' command: expected {} {words}",
        command.to_ascii_uppercase()
    )
}

impl QuestionMistake {
    /// The refusal of a command whose question is invalid.
    pub(super) fn refusal(self, command: &str) -> RequestRefusal {
        match self {
            Self::Arity | Self::NoText => {
                RefusalKind::InvalidQuestion.because(wrong_words(command))
            }
            Self::Invalid(why) => why,
        }
    }
}

/// The error of an unknown command, with the first words after it.
pub(super) fn unknown(args: &Args<'_>, reply: &mut RespReply<'_>) {
    /// The most bytes that are shown of a name, and of the words after it.
    const MOST_SHOWN: usize = 128;
    let mut words = String::new();
    for word in args.iter().skip(1) {
        let Some(most) = MOST_SHOWN.checked_sub(words.len()).filter(|most| *most > 0) else {
            break;
        };
        words += &format!("'{}' ", shown(word, most));
    }
    let name = shown(args.word(0), MOST_SHOWN);
    reply.error(&format!("ERR unknown command '{name}', with args beginning with: {words}"));
}

/// The first bytes of a word, as text.
fn shown(word: &[u8], most: usize) -> Cow<'_, str> {
    String::from_utf8_lossy(word.get(..most).unwrap_or(word))
}

/// The error of an unknown subcommand.
pub(super) fn unknown_subcommand(command: &str, word: &[u8], reply: &mut RespReply<'_>) {
    let word = shown(word, 128);
    reply.error(&format!("ERR unknown subcommand '{word}'. Try {command} HELP."));
}

/// The reply to HELP: the words that a command takes, and their uses.
pub(super) fn help(command: &'static str, lines: &[&'static str], reply: &mut RespReply<'_>) {
    reply.array(lines.len() + 2);
    reply.simple(command);
    for line in lines {
        reply.simple(line);
    }
    reply.simple("HELP");
}
