//! The list of commands: their names, their numbers of words, and their actions. `dispatch.rs` finds each command
//! here, and `introspection.rs` describes the list to clients.

use crate::verbs::PublicVerb;

/// The action of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandVerb {
    Throttle,
    Check,
    Peek,
    Reserve,
    Settle,
    Renew,
    Refund,
    ResetLimiters,
    Ping,
    Echo,
    Hello,
    Auth,
    Client,
    Cluster,
    Select,
    Reset,
    Quit,
    Command,
    Info,
    Multi,
    Exec,
    Discard,
}

impl CommandVerb {
    /// Returns whether it is run at once also after MULTI.
    pub(super) const fn is_never_kept(self) -> bool {
        matches!(self, Self::Multi | Self::Exec | Self::Discard | Self::Quit | Self::Reset)
    }

    /// The verb that has to be granted to the client.
    pub(super) const fn public(self) -> Option<PublicVerb> {
        match self {
            Self::Check | Self::Throttle => Some(PublicVerb::Check),
            Self::Peek => Some(PublicVerb::Peek),
            Self::Reserve => Some(PublicVerb::Reserve),
            Self::Settle | Self::Renew => Some(PublicVerb::Settle),
            Self::Refund => Some(PublicVerb::Refund),
            Self::ResetLimiters => Some(PublicVerb::Reset),
            _ => None,
        }
    }
}

/// An argument of a command, for clients that complete typed commands.
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) name: &'static str,
    /// The kind in Redis' terms: key, string, integer or block.
    pub(super) kind: &'static str,
    /// The word before the argument.
    pub(super) token: Option<&'static str>,
    pub(super) flags: &'static [&'static str],
    /// The parts of a block.
    pub(super) parts: &'static [Argument],
}

const fn argument(name: &'static str, kind: &'static str) -> Argument {
    Argument { name, kind, token: None, flags: &[], parts: &[] }
}

impl Argument {
    const fn optional(self) -> Self {
        Self { flags: &["optional"], ..self }
    }

    const fn after(self, token: &'static str) -> Self {
        Self { token: Some(token), ..self }
    }
}

static OF_THROTTLE: [Argument; 5] = [
    argument("key", "key"),
    argument("max_burst", "integer"),
    argument("count", "integer"),
    argument("period", "integer"),
    argument("quantity", "integer").optional(),
];

const ENTRIES: Argument = Argument {
    flags: &["optional", "multiple"],
    parts: &[argument("name", "string"), argument("value", "string")],
    ..argument("entry", "block")
};

static OF_CHECK: [Argument; 4] = [
    argument("domain", "string"),
    argument("n", "integer").after("COST").optional(),
    argument("id", "string").after("ID").optional(),
    ENTRIES,
];

static OF_RESERVE: [Argument; 5] = [
    argument("domain", "string"),
    argument("n", "integer").after("COST").optional(),
    argument("id", "string").after("ID").optional(),
    argument("ms", "integer").after("LIFE").optional(),
    ENTRIES,
];

static OF_REFUND: [Argument; 3] =
    [argument("domain", "string"), argument("n", "integer").after("COST").optional(), ENTRIES];

static OF_RESET: [Argument; 2] = [argument("domain", "string"), ENTRIES];

static OF_SETTLE: [Argument; 2] =
    [argument("reservation", "string"), argument("actual", "integer")];

static OF_RENEW: [Argument; 1] = [argument("reservation", "string")];

/// A subcommand, which is the second word of a command.
#[derive(Debug)]
pub(super) struct Subcommand {
    pub(super) name: &'static str,
    /// The number of words, including the command; a negative number is a minimum.
    arity: i64,
}

impl Subcommand {
    /// Returns whether this number of words, including the command, is valid.
    pub(super) const fn takes_words(&self, words: usize) -> bool {
        takes_words(self.arity, words)
    }
}

const fn subcommand(name: &'static str, arity: i64) -> Subcommand {
    Subcommand { name, arity }
}

static OF_CLIENT: [Subcommand; 8] = [
    subcommand("id", 2),
    subcommand("getname", 2),
    subcommand("setname", 3),
    subcommand("setinfo", 4),
    subcommand("tracking", -3),
    subcommand("caching", 3),
    subcommand("trackinginfo", 2),
    subcommand("help", 2),
];

static OF_CLUSTER: [Subcommand; 7] = [
    subcommand("slots", 2),
    subcommand("shards", 2),
    subcommand("nodes", 2),
    subcommand("info", 2),
    subcommand("myid", 2),
    subcommand("keyslot", 3),
    subcommand("help", 2),
];

static OF_COMMAND: [Subcommand; 5] = [
    subcommand("info", -2),
    subcommand("docs", -2),
    subcommand("count", 2),
    subcommand("list", 2),
    subcommand("help", 2),
];

/// A command, with the facts that Redis tells of it.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) verb: CommandVerb,
    /// The name in lower case; clients may write it in any.
    pub(super) name: &'static str,
    /// The number of words, including the name; a negative one is a minimum.
    pub(super) arity: i64,
    /// The position of its first key; 0 for none.
    pub(super) first_key: i64,
    /// True if it is answered before a client has authenticated.
    pub(super) is_open: bool,
    pub(super) group: &'static str,
    pub(super) summary: &'static str,
}

const fn command(verb: CommandVerb, name: &'static str, arity: i64) -> Command {
    Command { verb, name, arity, first_key: 0, is_open: false, group: "connection", summary: "" }
}

impl Command {
    const fn of(self, group: &'static str, summary: &'static str) -> Self {
        Self { group, summary, ..self }
    }

    const fn keyed(self) -> Self {
        Self { first_key: 1, ..self }
    }

    const fn open(self) -> Self {
        Self { is_open: true, ..self }
    }

    /// Its subcommands.
    pub(super) const fn subcommands(&self) -> &'static [Subcommand] {
        match self.verb {
            CommandVerb::Client => &OF_CLIENT,
            CommandVerb::Cluster => &OF_CLUSTER,
            CommandVerb::Command => &OF_COMMAND,
            _ => &[],
        }
    }

    /// The subcommand of a word, in upper or lower case.
    pub(super) fn subcommand(&self, word: &[u8]) -> Option<&'static Subcommand> {
        let mut subcommands = self.subcommands().iter();
        subcommands.find(|subcommand| subcommand.name.as_bytes().eq_ignore_ascii_case(word))
    }

    /// Its arguments; only for commands that clients do not know already.
    pub(super) const fn arguments(&self) -> &'static [Argument] {
        match self.verb {
            CommandVerb::Throttle => &OF_THROTTLE,
            CommandVerb::Check | CommandVerb::Peek => &OF_CHECK,
            CommandVerb::Reserve => &OF_RESERVE,
            CommandVerb::Settle => &OF_SETTLE,
            CommandVerb::Renew => &OF_RENEW,
            CommandVerb::Refund => &OF_REFUND,
            CommandVerb::ResetLimiters => &OF_RESET,
            _ => &[],
        }
    }

    /// Returns whether this number of words, including the name, is valid.
    pub(super) const fn takes_words(&self, words: usize) -> bool {
        takes_words(self.arity, words)
    }
}

/// Returns whether a command of this arity takes this number of words, including its name.
const fn takes_words(arity: i64, words: usize) -> bool {
    let words = words as i64;
    if arity < 0 { words >= -arity } else { words == arity }
}

/// The most frequent commands come first.
pub(super) static COMMANDS: [Command; 22] = [
    // A wrong number of words gets the error of redis-cell.
    command(CommandVerb::Throttle, "cl.throttle", -1).keyed().of(
        "limit",
        "Decides by a limit that the call carries: count per period seconds, and max_burst beyond the first",
    ),
    command(CommandVerb::Check, "tg.check", -2)
        .of("limit", "Decides a request by the rules of a domain, and takes its cost if all admit it"),
    command(CommandVerb::Peek, "tg.peek", -2)
        .of("limit", "Tells what TG.CHECK would answer, and takes nothing"),
    command(CommandVerb::Reserve, "tg.reserve", -2)
        .of("limit", "Decides as TG.CHECK, and keeps what it took for TG.SETTLE"),
    command(CommandVerb::Settle, "tg.settle", 3)
        .of("limit", "Gives back what a reservation did not need, or takes what it lacked"),
    command(CommandVerb::Renew, "tg.renew", 2)
        .of("limit", "Makes the permits of a reservation last their lives from now"),
    command(CommandVerb::Refund, "tg.refund", -2).of("limit", "Gives the cost of a request back"),
    command(CommandVerb::ResetLimiters, "tg.reset", -2)
        .of("limit", "Makes every limiter of a request idle"),
    command(CommandVerb::Ping, "ping", -1).of("connection", "Answers PONG, or the message"),
    command(CommandVerb::Echo, "echo", 2).of("connection", "Answers the message"),
    command(CommandVerb::Hello, "hello", -1)
        .of("connection", "Selects RESP2 or RESP3, and describes the server")
        .open(),
    command(CommandVerb::Auth, "auth", -2)
        .of("connection", "Authenticates the connection")
        .open(),
    command(CommandVerb::Client, "client", -2)
        .of("connection", "Describes or names this connection"),
    command(CommandVerb::Cluster, "cluster", -2)
        .of("cluster", "Describes a cluster of one node, which is this server"),
    command(CommandVerb::Select, "select", 2).of("connection", "There is one database, 0"),
    command(CommandVerb::Reset, "reset", 1)
        .of("connection", "Returns the connection to its initial state")
        .open(),
    command(CommandVerb::Quit, "quit", -1).of("connection", "Ends the connection").open(),
    command(CommandVerb::Command, "command", -1)
        .of("server", "Describes these commands"),
    command(CommandVerb::Info, "info", -1).of("server", "Tells of the server"),
    command(CommandVerb::Multi, "multi", 1)
        .of("transactions", "Keeps the commands that follow until EXEC"),
    command(CommandVerb::Exec, "exec", 1)
        .of("transactions", "Runs the commands that were kept, one after another"),
    command(CommandVerb::Discard, "discard", 1).of("transactions", "Forgets the commands that were kept"),
];

/// The command of a name, in upper or lower case.
pub(super) fn find(name: &[u8]) -> Option<&'static Command> {
    // Letter by letter it would take as long as to read the command.
    let [throttle, check, ..] = &COMMANDS;
    match name {
        b"CL.THROTTLE" | b"cl.throttle" => return Some(throttle),
        b"TG.CHECK" | b"tg.check" => return Some(check),
        _ => {}
    }
    COMMANDS.iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_found_by_its_name_in_any_letters_and_explains_itself() {
        for command in &COMMANDS {
            let shouted = command.name.to_uppercase();
            assert_eq!(find(shouted.as_bytes()).unwrap().verb, command.verb);
            assert_eq!(command.name, command.name.to_lowercase());
            assert!(!command.summary.is_empty() && command.arity != 0);
        }
        assert!(find(b"get").is_none());
    }

    #[test]
    fn arity_is_read_as_redis_reads_it() {
        let echo = find(b"echo").unwrap();
        assert_eq!([1, 2, 3].map(|words| echo.takes_words(words)), [false, true, false]);
        let auth = find(b"auth").unwrap();
        assert_eq!([1, 2, 9].map(|words| auth.takes_words(words)), [false, true, true]);
    }
}
