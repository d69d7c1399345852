//! CLIENT TRACKING, CACHING and TRACKINGINFO, for libraries that cache replies. `handshake.rs` calls them. Replies of this
//! server are no stored values, so no message says that a value has changed. Errors have the texts of Redis.

use std::collections::BTreeSet;

use super::args::{Args, integer};
use super::reply::RespReply;

const SYNTAX: &str = "ERR syntax error";
const NOT_TRACKING: &str = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
                            OPTOUT mode enabled";
/// Most bytes of the prefixes of a connection.
const PREFIX_BYTES: usize = 4 << 10;
/// Bytes that a prefix takes in addition to its text.
const EACH: usize = 32;

/// The state of a connection whose client has turned tracking on.
#[derive(Debug, Default)]
pub(super) struct Tracking {
    options: TrackingOptions,
    /// The number of the connection that gets the messages; 0 for this connection.
    redirect: i64,
    prefixes: BTreeSet<Vec<u8>>,
    /// True from CLIENT CACHING until the next command that is not CLIENT.
    pub(super) is_caching: bool,
}

/// The words among the options of CLIENT TRACKING that stand alone.
#[derive(Clone, Copy, Debug, Default)]
struct TrackingOptions {
    bcast: bool,
    optin: bool,
    optout: bool,
    noloop: bool,
}

/// `CLIENT TRACKING ON|OFF [REDIRECT id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`.
///
/// `tracking` is the state of the connection, and `begun` the number of all connections so far.
pub(super) fn tracking(
    tracking: &mut Option<Box<Tracking>>,
    begun: u64,
    args: &Args<'_>,
    reply: &mut RespReply<'_>,
) {
    match turned(tracking.as_deref(), begun, args) {
        Ok(turned) => {
            *tracking = turned.map(Box::new);
            reply.ok();
        }
        Err(error) => reply.error(&error),
    }
}

/// The state after CLIENT TRACKING; `None` for OFF.
fn turned(
    before: Option<&Tracking>,
    begun: u64,
    args: &Args<'_>,
) -> Result<Option<Tracking>, String> {
    // As in Redis, options are read first: a mistake in them is an error of OFF, too.
    let asked = AskedTracking::read(begun, args.skip(3))?;
    let word = args.word(2);
    if word.eq_ignore_ascii_case(b"off") {
        return Ok(None);
    }
    if !word.eq_ignore_ascii_case(b"on") {
        return Err(SYNTAX.to_owned());
    }
    // The other options are replaced, while prefixes are added to those before.
    let prefixes = asked.prefixes(before)?;
    let AskedTracking { options, redirect, .. } = asked;
    let is_caching = before.is_some_and(|before| before.is_caching);
    Ok(Some(Tracking { options, redirect, prefixes, is_caching }))
}

/// The options of a CLIENT TRACKING.
#[derive(Default)]
struct AskedTracking<'a> {
    options: TrackingOptions,
    redirect: i64,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> AskedTracking<'a> {
    fn read(begun: u64, mut rest: Args<'a>) -> Result<Self, String> {
        let mut asked = Self::default();
        while let Some(option) = rest.get(0) {
            let value = rest.get(1);
            let has_value = match (option.to_ascii_lowercase().as_slice(), value) {
                (b"redirect", Some(id)) => {
                    asked.redirect_to(begun, id)?;
                    true
                }
                (b"prefix", Some(prefix)) => {
                    asked.prefixes.push(prefix);
                    true
                }
                // A word that needs a value and is the last is a mistake, too.
                (flag, _) => {
                    *asked.options.named(flag).ok_or(SYNTAX)? = true;
                    false
                }
            };
            rest = rest.skip(1 + usize::from(has_value));
        }
        Ok(asked)
    }

    fn redirect_to(&mut self, begun: u64, id: &[u8]) -> Result<(), String> {
        if self.redirect != 0 {
            return Err("ERR A client can only redirect to a single other client".to_owned());
        }
        self.redirect = integer(id).ok_or("ERR value is not an integer or out of range")?;
        // Redis knows which connections are open. No message is ever sent, so a connection that has ended does as well.
        if u64::try_from(self.redirect).is_ok_and(|id| (1..=begun).contains(&id)) {
            return Ok(());
        }
        Err("ERR The client ID you want redirect to does not exist".to_owned())
    }

    /// The prefixes of the connection, whose tracking was `before`, with these options; or why they cannot be used.
    fn prefixes(&self, before: Option<&Tracking>) -> Result<BTreeSet<Vec<u8>>, String> {
        let TrackingOptions { bcast, optin, optout, .. } = self.options;
        let old = before.map(|before| before.options);
        // In the order of Redis, because a client may make several mistakes at once.
        let error = if !bcast && !self.prefixes.is_empty() {
            "PREFIX option requires BCAST mode to be enabled"
        } else if old.is_some_and(|old| old.bcast != bcast) {
            "You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a \
             different mode."
        } else if bcast && (optin || optout) {
            "OPTIN and OPTOUT are not compatible with BCAST"
        } else if optin && optout {
            "You can't specify both OPTIN mode and OPTOUT mode"
        } else if old.is_some_and(|old| optin && old.optout || optout && old.optin) {
            "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a \
             different mode."
        } else {
            return self.prefixes_with(before.map(|before| before.prefixes.clone()));
        };
        Err(format!("ERR {error}"))
    }

    fn prefixes_with(
        &self,
        before: Option<BTreeSet<Vec<u8>>>,
    ) -> Result<BTreeSet<Vec<u8>>, String> {
        let mut all = before.unwrap_or_default();
        // Without BCAST there are neither old prefixes nor new prefixes.
        if !self.options.bcast {
            return Ok(all);
        }
        // Checked first: it bounds the time of the comparisons as well as the memory of the connection.
        let old = all.iter().map(Vec::as_slice);
        let bytes: usize = old.chain(self.prefixes.iter().copied()).map(|p| p.len() + EACH).sum();
        if bytes > PREFIX_BYTES {
            return Err(format!(
                "ERR the prefixes are too long: expected at most {PREFIX_BYTES} bytes"
            ));
        }
        for (number, prefix) in self.prefixes.iter().enumerate() {
            if let Some(other) = all.iter().find(|other| overlap(other, prefix)) {
                return Err(overlaps(prefix, "an existing", other));
            }
            let mut later = self.prefixes.iter().skip(number + 1);
            if let Some(other) = later.find(|other| overlap(other, prefix)) {
                return Err(overlaps(prefix, "another provided", other));
            }
        }
        all.extend(self.prefixes.iter().map(|prefix| prefix.to_vec()));
        // Without a prefix every key is meant.
        if self.prefixes.is_empty() {
            all.insert(Vec::new());
        }
        Ok(all)
    }
}

impl TrackingOptions {
    /// The option of a word in lower case.
    fn named(&mut self, word: &[u8]) -> Option<&mut bool> {
        match word {
            b"bcast" => Some(&mut self.bcast),
            b"optin" => Some(&mut self.optin),
            b"optout" => Some(&mut self.optout),
            b"noloop" => Some(&mut self.noloop),
            _ => None,
        }
    }
}

/// Returns whether a key can begin with both.
fn overlap(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

fn overlaps(prefix: &[u8], which: &str, other: &[u8]) -> String {
    let prefix = String::from_utf8_lossy(prefix);
    let other = String::from_utf8_lossy(other);
    let rule = "Prefixes for a single client must not overlap.";
    format!("ERR Prefix '{prefix}' overlaps with {which} prefix '{other}'. {rule}")
}

/// `CLIENT CACHING YES|NO`.
pub(super) fn caching(tracking: Option<&mut Tracking>, word: &[u8], reply: &mut RespReply<'_>) {
    // Redis checks the word only while tracking is on.
    let Some(tracking) = tracking else { return reply.error(NOT_TRACKING) };
    let TrackingOptions { optin, optout, .. } = tracking.options;
    let (is_right, name) = match word.to_ascii_lowercase().as_slice() {
        b"yes" => (optin, "YES is only valid when tracking is enabled in OPTIN"),
        b"no" => (optout, "NO is only valid when tracking is enabled in OPTOUT"),
        _ => return reply.error(SYNTAX),
    };
    if !is_right {
        return reply.error(&format!("ERR CLIENT CACHING {name} mode."));
    }
    tracking.is_caching = true;
    reply.ok();
}

/// `CLIENT TRACKINGINFO`.
pub(super) fn tracking_info(tracking: Option<&Tracking>, reply: &mut RespReply<'_>) {
    reply.map(3);
    reply.text("flags");
    let flags = tracking.map_or_else(|| vec!["off"], Tracking::flags);
    reply.set(flags.len());
    reply.texts(&flags);
    reply.text("redirect");
    // Redis writes -1 while tracking is off, and 0 without a redirection.
    reply.integer(tracking.map_or(-1, |tracking| tracking.redirect));
    reply.text("prefixes");
    reply.array(tracking.map_or(0, |tracking| tracking.prefixes.len()));
    for prefix in tracking.iter().flat_map(|tracking| &tracking.prefixes) {
        reply.bulk(prefix);
    }
}

impl Tracking {
    /// The words that describe it, in the order of Redis.
    fn flags(&self) -> Vec<&'static str> {
        let TrackingOptions { bcast, optin, optout, noloop } = self.options;
        let all = [
            ("on", true),
            ("bcast", bcast),
            ("optin", optin),
            ("caching-yes", optin && self.is_caching),
            ("optout", optout),
            ("caching-no", optout && self.is_caching),
            ("noloop", noloop),
        ];
        all.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).collect()
    }
}
