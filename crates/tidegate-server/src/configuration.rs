//! The configuration in force: the tag of its text, and its replacement by another configuration. SIGHUP and the watch
//! of the file call [`Configuration::reload`], and `PUT /v1/rules` calls [`Configuration::put`]; both put rules in force
//! through [`Limiters::replace`], all or nothing.

mod put;
mod rewrite;
mod watch;

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{self, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use siphasher::sip128::{Hasher128, SipHasher13};
use tidegate::Policy;
use tidegate::config::{self, SectionValues};
use tidegate_lab::diff::{Change, PolicyDiff};

use crate::allocator::return_free_memory;
use crate::counts::Reloads;
use crate::limiters::Limiters;
use crate::logging::{AUDIT, LevelSwitch, LogLevel};
use crate::policy::Wrong;
pub(crate) use put::{Proposal, Proposed, PutRefused};
pub(crate) use watch::watch;

/// The only field of `[server]` that a running server follows.
const LOG_LEVEL: &str = "log_level";
/// The largest number of changes that a log line names.
const MOST_NAMED: usize = 20;

/// The keys of the tags: a tag is in logs, and must not help to find a password in the text.
static KEYS: LazyLock<(u64, u64)> = LazyLock::new(|| {
    let random = RandomState::new();
    (random.hash_one(0), random.hash_one(1))
});

/// A text, read and checked. The files that `[server]` names are read at the start only.
pub(crate) struct Candidate {
    pub(crate) policy: Policy,
    /// The fields of `[server]`.
    pub(crate) server: SectionValues,
    /// The level of the log, by flag, variable or field.
    pub(crate) level: LogLevel,
}

/// Reads a text, given after the name of its file.
type ReadConfig = dyn Fn(&str, &str) -> Result<Candidate, Wrong> + Send + Sync;

/// The origin of a configuration.
pub(crate) struct ConfigOrigin {
    /// `None` if the rules are built in.
    pub(crate) file: Option<PathBuf>,
    /// The text at the start, and the fields of `[server]` in it.
    pub(crate) text: String,
    pub(crate) server: SectionValues,
    /// Reads another text.
    pub(crate) read: Box<ReadConfig>,
}

/// The only place where the configuration changes.
pub(crate) struct Configuration {
    limiters: Arc<Limiters>,
    file: Option<PathBuf>,
    read: Box<ReadConfig>,
    level: LevelSwitch,
    /// Locked by one change at a time; the hash of the last attempt, text or error.
    changing: Mutex<u128>,
    /// Locked only for moments.
    loaded: Mutex<Arc<LoadedConfig>>,
}

/// The configuration in force.
#[derive(Debug)]
struct LoadedConfig {
    /// The entity tag of its text, which is long for many rules and not kept.
    etag: String,
    /// The fields of `[server]` that have an effect.
    server: SectionValues,
}

/// Why the file is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Signal,
    /// The watch saw that the file has changed.
    Watch,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signal => "SIGHUP",
            Self::Watch => "the file changed",
        })
    }
}

impl Configuration {
    pub(crate) fn new(limiters: Arc<Limiters>, origin: ConfigOrigin, level: LevelSwitch) -> Self {
        let ConfigOrigin { file, text, server, read } = origin;
        let tried = Mutex::new(hash(&text));
        let loaded = Mutex::new(Arc::new(LoadedConfig { etag: etag(&text), server }));
        Self { limiters, file, read, level, changing: tried, loaded }
    }

    /// The entity tag of the configuration in force: equal for equal texts, in one process.
    pub(crate) fn etag(&self) -> String {
        self.loaded().etag.clone()
    }

    /// The whole path of the file; `None` if the rules are built in.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let file = self.file.as_ref()?;
        Some(path::absolute(file).unwrap_or_else(|_| file.clone()))
    }

    /// The counts of changes, and the time of the last.
    pub(crate) fn reloads(&self) -> &Reloads {
        &self.limiters.counts.reloads
    }

    /// Reads the file again and puts it in force, all of it or nothing. The outcome is logged; the
    /// watch tries and logs each content once. This blocks while the file is read.
    pub(crate) fn reload(&self, cause: Cause) {
        self.try_file(cause);
        // Also if nothing has changed, because the text was read.
        return_free_memory();
    }

    fn try_file(&self, cause: Cause) {
        let Some(file) = &self.file else {
            tracing::info!("{cause}: the rules are built in, so there is no file to read again");
            return;
        };
        // Held to the end, so that no change of a client comes between the text and the policy.
        let mut tried = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let text = config::read_text(file).map_err(Wrong::Text);
        // An error is told from a text that reads like it.
        let content = match &text {
            Ok(text) => hash(text),
            Err(wrong) => !hash(&wrong.to_string()),
        };
        // A signal tries the same text again, because the cause of a failure may lie outside of the file.
        if std::mem::replace(&mut *tried, content) == content && cause == Cause::Watch {
            return;
        }
        let file = file.display();
        if let Err(wrong) = text.and_then(|text| self.try_text(&file.to_string(), &text, &cause)) {
            self.reloads().failed(wrong.lines().join("\n"));
            tracing::error!(%cause, "{file} cannot be put in force; the configuration before stays");
            for mistake in wrong.lines().iter().take(MOST_NAMED) {
                tracing::error!("{mistake}");
            }
        }
    }

    fn try_text(&self, name: &str, text: &str, cause: &dyn fmt::Display) -> Result<(), Wrong> {
        let before = self.loaded();
        let etag = etag(text);
        if before.etag == etag {
            self.reloads().succeeded();
            tracing::info!(%cause, "{name} says what is in force already");
            return Ok(());
        }
        let candidate = (self.read)(name, text)?;
        // Compared before the policy in force is replaced.
        let diff = self.diff(&candidate);
        // Only this step may still fail, and it leaves the policy before in force.
        self.limiters.replace(candidate.policy).map_err(Wrong::of_rules)?;
        self.follow(candidate.level, &candidate.server, etag);
        self.reloads().succeeded();
        self.log(cause, &before.etag, &diff);
        Ok(())
    }

    /// The difference between the configuration in force and another text.
    fn diff(&self, candidate: &Candidate) -> PolicyDiff {
        let server = [&*self.loaded().server, &*candidate.server];
        PolicyDiff::between(&self.limiters.policy(), &candidate.policy).with_section(
            "server",
            server,
            needs_restart,
        )
    }

    /// Follows a text whose rules are in force by now. The tag is set last, so that a caller who reads the tag and then
    /// the rules never has a tag newer than the rules.
    fn follow(&self, level: LogLevel, server: &SectionValues, etag: String) {
        self.level.set(level);
        let before = self.loaded();
        // The other fields stay as they were at the start, so that every later difference names them again.
        let fields = before.server.iter().filter(|(name, _)| needs_restart(name));
        let fields = fields.chain(server.iter().filter(|(name, _)| !needs_restart(name)));
        let loaded = LoadedConfig { etag, server: fields.cloned().collect() };
        *self.locked() = Arc::new(loaded);
    }

    /// Logs a change, and what of the text needs a restart.
    fn log(&self, cause: &dyn fmt::Display, before: &str, diff: &PolicyDiff) {
        tracing::info!(
            target: AUDIT,
            cause = cause.to_string(),
            before = before.trim_matches('"'),
            after = self.etag().trim_matches('"'),
            added = diff.count(Change::Added),
            changed = diff.count(Change::Changed),
            removed = diff.count(Change::Removed),
            changes = brief(diff),
            "another configuration is in force"
        );
        for warning in &diff.warnings {
            tracing::warn!("{warning}");
        }
        let fields = diff.needing_restart();
        if !fields.is_empty() {
            let fields = fields.join(", ");
            tracing::warn!(
                fields,
                "these fields of the configuration need a restart; all others are in force"
            );
        }
    }

    fn loaded(&self) -> Arc<LoadedConfig> {
        Arc::clone(&self.locked())
    }

    fn locked(&self) -> MutexGuard<'_, Arc<LoadedConfig>> {
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a field of `[server]` has its effect only at the start.
pub(crate) fn needs_restart(field: &str) -> bool {
    field != LOG_LEVEL
}

/// The changes on one line, at most [`MOST_NAMED`].
fn brief(diff: &PolicyDiff) -> String {
    let text = diff.to_string();
    let mut lines: Vec<_> = text.lines().take(MOST_NAMED).collect();
    let more = format!("and {} more lines", text.lines().count() - lines.len());
    if text.lines().nth(MOST_NAMED).is_some() {
        lines.push(&more);
    }
    lines.join(" | ")
}

fn etag(text: &str) -> String {
    format!("\"{:032x}\"", hash(text))
}

fn hash(text: &str) -> u128 {
    let (one, other) = *KEYS;
    let mut hasher = SipHasher13::new_with_keys(one, other);
    hasher.write(text.as_bytes());
    hasher.finish128().as_u128()
}

#[cfg(test)]
mod tests;
