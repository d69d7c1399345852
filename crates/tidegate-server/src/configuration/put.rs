//! A configuration that a client brings: checked, put in force and written to the file, or nothing.
//! `http/put_rules.rs` calls it on a thread that may block.

use std::fmt;
use std::sync::PoisonError;

use tidegate_lab::diff::PolicyDiff;

use super::rewrite::Rewrite;
use super::{Configuration, etag, hash};
use crate::allocator::return_free_memory;
use crate::failure::Failure;
use crate::policy::Wrong;

/// The name of the text in messages.
const NAME: &str = "the body";

/// A client's request for a change.
pub(crate) struct Proposal {
    pub(crate) text: String,
    /// The tags of `If-Match`: the change is made only if the configuration in force has one of them.
    pub(crate) expected: Option<String>,
    /// True if only the difference is asked for.
    pub(crate) is_dry_run: bool,
    /// The operator that asks, for the log.
    pub(crate) who: String,
}

/// The changes that were made, or would be.
#[derive(Debug)]
pub(crate) struct Proposed {
    /// The tag of the configuration in force now.
    pub(crate) etag: String,
    pub(crate) diff: PolicyDiff,
}

/// Why nothing changed.
#[derive(Debug)]
pub(crate) enum PutRefused {
    /// There is no `If-Match`.
    Unconditional,
    /// The configuration in force has another tag.
    Stale {
        /// Its tag.
        etag: String,
        /// True if only the quotes of the tag are missing.
        is_unquoted: bool,
    },
    /// The file cannot be written, or it has changed since it was loaded.
    Conflict(String),
    Wrong(Wrong),
}

impl fmt::Display for PutRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unconditional => f.write_str("no If-Match"),
            Self::Stale { .. } => f.write_str("another entity tag is in force"),
            Self::Conflict(why) => f.write_str(why),
            Self::Wrong(wrong) => wrong.fmt(f),
        }
    }
}

impl Configuration {
    /// Puts a text in force and writes it to the file that was loaded, or does neither. Attempts are
    /// logged, dry runs are not. This blocks.
    ///
    /// # Errors
    /// Returns why nothing changed.
    pub(crate) fn put(&self, proposal: Proposal) -> Result<Proposed, PutRefused> {
        // Held to the end, so that the tag that was compared stays in force until the change is made.
        let mut tried = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_dry_run = proposal.is_dry_run;
        let who = format!("PUT by {}", proposal.who);
        let text = hash(&proposal.text);
        let done = self.try_put(proposal, &who);
        return_free_memory();
        match &done {
            _ if is_dry_run => {}
            // The watch finds a changed file next, and need not load it again.
            Ok(_) => *tried = text,
            Err(why) => {
                self.reloads().refused();
                let why = why.to_string();
                let why = why.lines().next().unwrap_or_default();
                tracing::warn!(
                    cause = who,
                    why,
                    "a configuration was refused; the previous configuration stays in force"
                );
            }
        }
        done
    }

    /// Makes the change, if it is allowed now and all of it can be made.
    fn try_put(&self, proposal: Proposal, who: &str) -> Result<Proposed, PutRefused> {
        let Proposal { text, expected, is_dry_run, .. } = proposal;
        let before = self.loaded();
        match expected {
            None if !is_dry_run => return Err(PutRefused::Unconditional),
            Some(tags) if !has(&tags, &before.etag) => {
                let etag = before.etag.clone();
                let is_unquoted = has(&format!("\"{}\"", tags.trim()), &etag);
                return Err(PutRefused::Stale { etag, is_unquoted });
            }
            _ => {}
        }
        let Some(file) = &self.file else {
            let why =
                "the rules are built in: expected a server with --config, whose file is changed";
            return Err(PutRefused::Conflict(why.to_owned()));
        };
        let candidate = (self.read)(NAME, &text).map_err(PutRefused::Wrong)?;
        // Checked before the file is written, so that rules that do not fit leave the file alone.
        if let Some(store) = self.limiters.policy().store() {
            let fits = store.fits(&candidate.policy);
            fits.map_err(|error| PutRefused::Wrong(Wrong::Whole(Failure::configuration(error))))?;
        }
        let diff = self.diff(&candidate);
        if is_dry_run {
            return Ok(Proposed { etag: before.etag.clone(), diff });
        }
        // The file comes first: it can be put back, while rules that were in force have decided already.
        let old = Rewrite::prepare(file, |content| etag(content) == before.etag, &text)
            .and_then(Rewrite::commit)
            .map_err(|why| PutRefused::Conflict(format!("{}: {why}", file.display())))?;
        if let Err(errors) = self.limiters.replace(candidate.policy) {
            let back = Rewrite::prepare(file, |content| content == text, &old);
            if let Err(why) = back.and_then(Rewrite::commit) {
                let file = file.display();
                tracing::error!(why, "{file} keeps a configuration that is not in force");
            }
            return Err(PutRefused::Wrong(Wrong::of_rules(errors)));
        }
        self.follow(candidate.level, &candidate.server, etag(&text));
        self.reloads().succeeded();
        self.log(&who, &before.etag, &diff);
        Ok(Proposed { etag: self.etag(), diff })
    }
}

/// Returns whether a list of tags, or `*`, contains this tag.
fn has(tags: &str, etag: &str) -> bool {
    // A weak tag (`W/"..."`) is never equal, as RFC 9110, 13.1.1 demands of `If-Match`.
    tags.split(',').map(str::trim).any(|tag| tag == "*" || tag == etag)
}
