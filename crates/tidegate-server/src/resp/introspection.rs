//! Commands about the server: COMMAND and INFO, in the form of Redis, for client libraries and monitors.
//! `dispatch.rs` calls them; all facts about commands come from `table.rs`.

use super::args::Args;
use super::reply::RespReply;
use super::session::Session;
use super::state::ListenerState;
use super::table::{Argument, COMMANDS, Command};
use super::usage::help;

/// The version of Redis whose replies these are; clients choose their commands by it.
const LIKE_REDIS: &str = "7.0.0";

/// `COMMAND [COUNT|LIST|INFO [name ...]|DOCS [name ...]|HELP]`.
pub(super) fn command(
    session: &Session,
    command: &Command,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) {
    let named = args.skip(2);
    match command.subcommand(args.word(1)).map(|subcommand| subcommand.name) {
        None => all(session, reply),
        Some("info") if named.len() == 0 => all(session, reply),
        Some("info") => some(session, &named, reply),
        Some("docs") => docs(session, &named, reply),
        Some("count") => reply.integer(listed(session).count() as u64),
        Some("list") => list(session, reply),
        _ => help("COMMAND", &HELP, reply),
    }
}

const HELP: [&str; 6] = [
    "(no subcommand)",
    "    All that is known of all commands.",
    "COUNT|LIST|INFO [name ...]",
    "    How many commands there are, their names, or all that is known of some.",
    "DOCS [name ...]",
    "    What commands are for, and what they take.",
];

/// The commands that are available.
fn listed(session: &Session) -> impl Iterator<Item = &'static Command> {
    let verbs = session.verbs;
    COMMANDS.iter().filter(move |command| command.verb.public().is_none_or(|verb| verbs.has(verb)))
}

fn list(session: &Session, reply: &mut RespReply<'_>) {
    reply.array(listed(session).count());
    for command in listed(session) {
        reply.text(command.name);
    }
}

fn all(session: &Session, reply: &mut RespReply<'_>) {
    reply.array(listed(session).count());
    for command in listed(session) {
        info_of(command, reply);
    }
}

fn some(session: &Session, named: &Args<'_>, reply: &mut RespReply<'_>) {
    reply.array(named.len());
    for name in named.iter() {
        let found =
            listed(session).find(|command| command.name.as_bytes().eq_ignore_ascii_case(name));
        match found {
            Some(command) => info_of(command, reply),
            None => reply.null(),
        }
    }
}

/// The ten fields of a command in Redis' reply.
fn info_of(command: &Command, reply: &mut RespReply<'_>) {
    reply.array(10);
    reply.text(command.name);
    reply.integer(command.arity);
    reply.flags(if command.is_open { &["fast", "no_auth"] } else { &["fast"] });
    // The first key, the last key and the step between keys are equal, because no command has more than one key.
    for position in [command.first_key, command.first_key, command.first_key] {
        reply.integer(position);
    }
    reply.set(0); // categories
    reply.array(0); // tips
    reply.array(0); // key specifications
    reply.array(0); // subcommands
}

/// The reply to `COMMAND DOCS`, for these commands or all.
fn docs(session: &Session, named: &Args<'_>, reply: &mut RespReply<'_>) {
    let asked: Vec<_> = listed(session)
        .filter(|command| {
            named.len() == 0
                || named.iter().any(|name| command.name.as_bytes().eq_ignore_ascii_case(name))
        })
        .collect();
    reply.map(asked.len());
    for command in asked {
        reply.text(command.name);
        reply.map(4);
        let Command { summary, group, .. } = *command;
        reply.texts(&["summary", summary, "since", "0.1.0", "group", group, "arguments"]);
        reply.array(command.arguments().len());
        for argument in command.arguments() {
            write_argument(argument, reply);
        }
    }
}

/// One argument, in the form of Redis.
fn write_argument(argument: &Argument, reply: &mut RespReply<'_>) {
    let Argument { name, kind, token, flags, parts } = argument;
    let further = usize::from(token.is_some())
        + usize::from(!flags.is_empty())
        + usize::from(!parts.is_empty());
    reply.map(2 + further);
    reply.texts(&["name", name, "type", kind]);
    if let Some(token) = token {
        reply.texts(&["token", token]);
    }
    if !flags.is_empty() {
        reply.text("flags");
        reply.flags(flags);
    }
    if !parts.is_empty() {
        reply.text("arguments");
        reply.array(parts.len());
        for part in *parts {
            write_argument(part, reply);
        }
    }
}

/// `INFO [section ...]`: the values that monitors read, in the form of Redis.
pub(super) fn info(state: &ListenerState, args: &Args<'_>, reply: &mut RespReply<'_>) {
    let begun = state.begun();
    let open = state.open();
    let rules = state.decider.limiters.policy().rules().len();
    let sections = [
        (
            "Server",
            format!(
                "redis_version:{LIKE_REDIS}\r\nredis_mode:standalone\r\ntidegate_version:{}\r\n\
                 process_id:{}\r\nuptime_in_seconds:{}\r\n",
                env!("CARGO_PKG_VERSION"),
                std::process::id(),
                state.since.elapsed().as_secs()
            ),
        ),
        ("Clients", format!("connected_clients:{open}\r\n")),
        ("Stats", format!("total_connections_received:{begun}\r\n")),
        ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
        ("Tidegate", format!("rules:{rules}\r\n")),
    ];
    let mut asked = Vec::new();
    for (section, lines) in sections {
        if is_asked(section, args) {
            asked.push(format!("# {section}\r\n{lines}"));
        }
    }
    reply.verbatim(&asked.join("\r\n"));
}

/// Returns whether the words after INFO ask for a section: by its name, or for all.
fn is_asked(section: &str, args: &Args<'_>) -> bool {
    let all = [section.as_bytes(), b"all", b"default", b"everything"];
    let mut names = args.iter().skip(1);
    args.len() == 1 || names.any(|name| all.iter().any(|word| word.eq_ignore_ascii_case(name)))
}
