//! What the server tells of itself: COMMAND and INFO.

use std::fmt::Write;

use super::args::Args;
use super::handshake::unknown;
use super::reply::Reply;
use super::session::wrong_number;
use super::shared::Shared;
use super::table::{self, COMMANDS, Command};

/// Clients look here for what they may use. What is answered is what Redis 7.0 answers to it.
const LIKE_REDIS: &str = "7.0.0";

/// `COMMAND [COUNT|LIST|INFO [name ...]|DOCS [name ...]]`.
pub(super) fn command(args: &Args<'_>, reply: &mut Reply<'_>) {
    let named = args.skip(2);
    match args.get(1).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None => all(reply),
        Some(b"count") if named.len() == 0 => reply.integer(COMMANDS.len()),
        Some(b"count") => wrong_number("command|count", reply),
        Some(b"list") if named.len() == 0 => {
            reply.array(COMMANDS.len());
            COMMANDS.iter().for_each(|command| reply.text(command.name));
        }
        Some(b"list") => wrong_number("command|list", reply),
        Some(b"info") if named.len() == 0 => all(reply),
        Some(b"info") => some(&named, reply),
        Some(b"docs") => docs(&named, reply),
        Some(_) => unknown("COMMAND", args.word(1), reply),
    }
}

fn all(reply: &mut Reply<'_>) {
    reply.array(COMMANDS.len());
    COMMANDS.iter().for_each(|command| info_of(command, reply));
}

fn some(named: &Args<'_>, reply: &mut Reply<'_>) {
    reply.array(named.len());
    for name in named.iter() {
        match table::find(name) {
            Some(command) => info_of(command, reply),
            None => reply.null(),
        }
    }
}

/// The ten things that Redis tells of a command.
fn info_of(command: &Command, reply: &mut Reply<'_>) {
    reply.array(10);
    reply.text(command.name);
    reply.integer(command.arity);
    let flags: &[&'static str] = if command.is_open { &["fast", "no_auth"] } else { &["fast"] };
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    for place in [command.first_key, command.first_key, command.first_key] {
        reply.integer(place);
    }
    reply.set(0); // categories
    reply.array(0); // tips
    reply.array(0); // key specifications
    reply.array(0); // subcommands
}

fn docs(named: &Args<'_>, reply: &mut Reply<'_>) {
    let asked = |command: &&Command| {
        named.len() == 0
            || named.iter().any(|name| command.name.as_bytes().eq_ignore_ascii_case(name))
    };
    reply.map(COMMANDS.iter().filter(asked).count());
    for command in COMMANDS.iter().filter(asked) {
        reply.text(command.name);
        reply.map(4);
        let takes = format!("{} {}", command.name.to_uppercase(), command.takes);
        let summary = format!("{}: {}", takes.trim_end(), command.summary);
        for (name, value) in
            [("summary", summary.as_str()), ("since", "0.1.0"), ("group", command.group)]
        {
            reply.text(name);
            reply.text(value);
        }
        reply.text("arguments");
        reply.array(0);
    }
}

/// `INFO [section ...]`: what monitors read, in the form of Redis.
pub(super) fn info(shared: &Shared, args: &Args<'_>, reply: &mut Reply<'_>) {
    let (begun, open) = shared.connections();
    let rules = shared.limiters.policy().rules().len();
    let sections = [
        (
            "Server",
            format!(
                "redis_version:{LIKE_REDIS}\r\nredis_mode:standalone\r\ntidegate_version:{}\r\n\
                 process_id:{}\r\n",
                env!("CARGO_PKG_VERSION"),
                std::process::id()
            ),
        ),
        ("Clients", format!("connected_clients:{open}\r\n")),
        ("Stats", format!("total_connections_received:{begun}\r\n")),
        ("Replication", "role:master\r\nconnected_slaves:0\r\n".to_owned()),
        ("Tidegate", format!("rules:{rules}\r\n")),
    ];
    let asked = |section: &str| {
        let mut names = args.iter().skip(1);
        let is = |name: &[u8]| {
            let all = [section.as_bytes(), b"all", b"default", b"everything"];
            all.iter().any(|section| section.eq_ignore_ascii_case(name))
        };
        args.len() == 1 || names.any(is)
    };
    let mut told = String::new();
    for (section, lines) in sections.iter().filter(|(section, _)| asked(section)) {
        let between = if told.is_empty() { "" } else { "\r\n" };
        // Writing to a text does not fail.
        let _ = write!(told, "{between}# {section}\r\n{lines}");
    }
    reply.verbatim(&told);
}
