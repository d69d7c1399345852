//! Commands that set up a connection: HELLO, AUTH, CLIENT, SELECT and RESET. `dispatch.rs` calls them, and they
//! change the [`Session`]. Errors have the texts of Redis.

use super::args::{Args, integer};
use super::bounds::WRONG_TOKENS;
use super::reply::{Proto, RespReply};
use super::session::{CommandOutcome, Session};
use super::table::Command;
use super::tracking;
use super::usage::help;
use crate::listener::Given;
use crate::verbs::PublicVerbs;

const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NONE_NEEDED: &str = "ERR AUTH <password> called without any password configured for the \
                           default user. Are you sure your configuration is correct?";
/// The only user, by its name in Redis.
const USER: &[u8] = b"default";

/// `HELLO [2|3 [AUTH user token] [SETNAME name]]`; it has no effect if any part of it is invalid.
pub(super) fn hello(
    session: &mut Session,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) -> CommandOutcome {
    match Greeting::read(session, args) {
        Err(error) => return refuse(session, &error, reply),
        Ok(greeting) => {
            session.proto = greeting.proto;
            if let Some((verbs, token)) = greeting.admitted {
                session.authenticated(verbs, token);
            }
            if let Some(name) = greeting.name {
                session.name = name.to_vec();
            }
            // As in Redis, the reply to HELLO is in the new protocol already.
            reply.speak(greeting.proto);
            introduce(session, reply);
        }
    }
    CommandOutcome::Answered
}

/// A parsed HELLO.
struct Greeting<'a> {
    proto: Proto,
    /// The grants of a right token, if there was one.
    admitted: Option<Admitted>,
    name: Option<&'a [u8]>,
}

impl<'a> Greeting<'a> {
    fn read(session: &Session, args: &Args<'a>) -> Result<Self, String> {
        let proto = match args.get(1) {
            None => session.proto,
            Some(word) => proto(word)?,
        };
        let mut greeting = Self { proto, admitted: None, name: None };
        let mut rest = args.skip(2);
        while let Some(option) = rest.get(0) {
            rest = greeting.option(session, option, rest)?;
        }
        // Nothing of the session has changed so far, so an error here leaves it as it was.
        if greeting.admitted.is_some() || session.is_authenticated {
            return Ok(greeting);
        }
        Err("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
             <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
            .to_owned())
    }

    /// Takes one option; returns the words after it.
    fn option(
        &mut self,
        session: &Session,
        option: &[u8],
        rest: Args<'a>,
    ) -> Result<Args<'a>, String> {
        if option.eq_ignore_ascii_case(b"auth") && rest.len() > 2 {
            self.admitted = Some(admit(session, rest.word(1), rest.word(2))?);
            Ok(rest.skip(3))
        } else if option.eq_ignore_ascii_case(b"setname") && rest.len() > 1 {
            self.name = Some(name(rest.word(1))?);
            Ok(rest.skip(2))
        } else {
            let option = String::from_utf8_lossy(option);
            Err(format!("ERR Syntax error in HELLO option '{option}'"))
        }
    }
}

fn proto(word: &[u8]) -> Result<Proto, String> {
    match integer(word) {
        Some(2) => Ok(Proto::Resp2),
        Some(3) => Ok(Proto::Resp3),
        Some(_) => Err("NOPROTO unsupported protocol version".to_owned()),
        None => Err("ERR Protocol version is not an integer or out of range".to_owned()),
    }
}

/// Writes the server's description of itself.
fn introduce(session: &Session, reply: &mut RespReply<'_>) {
    reply.map(7);
    reply.texts(&["server", "tidegate", "version", env!("CARGO_PKG_VERSION"), "proto"]);
    reply.integer(session.proto.number());
    reply.field("id", Some(session.number));
    reply.texts(&["mode", "standalone", "role", "master", "modules"]);
    reply.array(0);
}

/// `AUTH [user] token`.
pub(super) fn auth(
    session: &mut Session,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) -> CommandOutcome {
    let (user, token) = match args.len() {
        2 => (USER, args.word(1)),
        3 => (args.word(1), args.word(2)),
        _ => return refuse(session, "ERR syntax error", reply),
    };
    // As in Redis a token alone is a mistake where none is needed; with the user `default` any token is right.
    if session.state.clients.secret.is_none() && args.len() == 2 {
        return refuse(session, NONE_NEEDED, reply);
    }
    match admit(session, user, token) {
        Ok((verbs, token)) => {
            session.authenticated(verbs, token);
            reply.ok();
            CommandOutcome::Answered
        }
        Err(error) => refuse(session, &error, reply),
    }
}

/// Writes the error; ends the connection after so many wrong tokens.
fn refuse(session: &mut Session, error: &str, reply: &mut RespReply<'_>) -> CommandOutcome {
    reply.error(error);
    // Mistakes of syntax are no guesses.
    session.wrong_tokens += u32::from(error == WRONG);
    if session.wrong_tokens < WRONG_TOKENS {
        CommandOutcome::Answered
    } else {
        CommandOutcome::Ends
    }
}

/// The verbs of a token. Without a secret any token is right, as in Redis, and grants nothing.
fn admit(session: &Session, user: &[u8], token: &[u8]) -> Result<Admitted, String> {
    // Any other user is refused like a wrong token, and counts as one.
    let said = (user == USER).then_some(token);
    let admitted = match &session.state.clients.secret {
        Some(secret) => {
            // Before the token is looked up, so that no change is missed.
            let given = secret.given(token);
            secret.admits(said).map(|verbs| (verbs, Some(given)))
        }
        None => said.map(|_| (PublicVerbs::default(), None)),
    };
    admitted.ok_or_else(|| WRONG.to_owned())
}

/// The verbs of a right token, and the token if one was needed.
type Admitted = (PublicVerbs, Option<Given>);

/// `CLIENT ID|GETNAME|SETNAME name|SETINFO name value|TRACKING ...|CACHING YES|NO|TRACKINGINFO|HELP`.
pub(super) fn client(
    session: &mut Session,
    command: &Command,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) {
    match command.subcommand(args.word(1)).map(|subcommand| subcommand.name) {
        Some("id") => reply.integer(session.number),
        Some("getname") if session.name.is_empty() => reply.null(),
        Some("getname") => reply.bulk(&session.name),
        Some("setname") => set_name(session, args.word(2), reply),
        Some("setinfo") => set_info(args, reply),
        Some("tracking") => {
            tracking::tracking(&mut session.tracking, session.state.begun(), args, reply);
        }
        Some("caching") => tracking::caching(session.tracking.as_deref_mut(), args.word(2), reply),
        Some("trackinginfo") => tracking::tracking_info(session.tracking.as_deref(), reply),
        _ => help("CLIENT", &HELP, reply),
    }
}

const HELP: [&str; 10] = [
    "ID|GETNAME",
    "    The number or the name of this connection.",
    "SETNAME name",
    "    Names this connection.",
    "SETINFO LIB-NAME|LIB-VER value",
    "    Names the library of the client; the server ignores it.",
    "TRACKING ON|OFF [REDIRECT id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
    "    Tells of changed values, of which there are none.",
    "CACHING YES|NO, TRACKINGINFO",
    "    Chooses for the next command; the state of tracking.",
];

fn set_name(session: &mut Session, word: &[u8], reply: &mut RespReply<'_>) {
    match name(word) {
        Ok(name) => {
            session.name = name.to_vec();
            reply.ok();
        }
        Err(error) => reply.error(&error),
    }
}

/// Returns a name that can be shown in a list.
fn name(word: &[u8]) -> Result<&[u8], String> {
    if word.iter().all(u8::is_ascii_graphic) {
        return Ok(word);
    }
    Err("ERR Client names cannot contain spaces, newlines or special characters.".to_owned())
}

/// Clients report their library, which is ignored.
fn set_info(args: &Args<'_>, reply: &mut RespReply<'_>) {
    let option = args.word(2);
    let known = [&b"lib-name"[..], b"lib-ver"].iter().any(|o| o.eq_ignore_ascii_case(option));
    let shown = String::from_utf8_lossy(option);
    if !known {
        reply.error(&format!("ERR Unrecognized option '{shown}'"));
    } else if !args.word(3).iter().all(u8::is_ascii_graphic) {
        reply.error(&format!("ERR {shown} cannot contain spaces, newlines or special characters."));
    } else {
        reply.ok();
    }
}

/// `SELECT 0`.
pub(super) fn select(args: &Args<'_>, reply: &mut RespReply<'_>) {
    match integer(args.word(1)) {
        Some(0) => reply.ok(),
        Some(_) => reply.error("ERR DB index is out of range"),
        None => reply.error("ERR value is not an integer or out of range"),
    }
}

/// `RESET`: the connection returns to its initial state.
pub(super) fn reset(session: &mut Session, reply: &mut RespReply<'_>) {
    session.proto = Proto::default();
    // As in Redis, the client has to authenticate again if a token is needed.
    session.forget_token();
    session.name.clear();
    session.transaction = None;
    session.tracking = None;
    reply.speak(session.proto);
    reply.simple("RESET");
}
