//! The section `[store]`: the store of limiters that many nodes share.

use std::path::PathBuf;
use std::time::Duration;

use super::accept::TableFields;
use super::source::ConfigReport;
use super::table::{TomlEntry, TomlTable};
use super::value::{flag, how_long, text, whole, wrong};
use crate::rules::Policy;
use crate::settings::{IN_FLIGHT_EXPECTED, NODES_EXPECTED, TIMEOUT_EXPECTED};
use crate::settings::{Secret, StoreSettings, StoreUrl};

/// The contents of the section.
#[derive(Default)]
pub(super) struct StoreDraft {
    url: Option<StoreUrl>,
    username: Option<String>,
    password: Option<Secret>,
    sentinel_username: Option<String>,
    sentinel_password: Option<Secret>,
    tls_roots: Option<PathBuf>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    timeout: Option<Duration>,
    key_prefix: Option<String>,
    max_in_flight: Option<usize>,
    nodes: Option<u64>,
    denial_memory: Option<bool>,
}

pub(super) fn fields<'t>() -> TableFields<'t, StoreDraft> {
    TableFields::of_fields(
        [
            (("url", &["uri", "address", "host", "endpoint"]), StoreDraft::url),
            (("username", &["user"]), StoreDraft::username),
            (("password_env", &["password", "passwordvariable"]), StoreDraft::password_env),
            (("password_file", &["passwordpath", "secretfile"]), StoreDraft::password_file),
            (("sentinel_username", &["sentineluser"]), StoreDraft::sentinel_username),
            (("sentinel_password_env", &["sentinelpassword"]), StoreDraft::sentinel_password_env),
            (
                ("sentinel_password_file", &["sentinelpasswordpath"]),
                StoreDraft::sentinel_password_file,
            ),
            (("tls_roots", &["ca", "cafile", "cacert"]), StoreDraft::tls_roots),
            (("tls_cert", &["cert", "clientcert"]), StoreDraft::tls_cert),
            (("tls_key", &["key", "clientkey"]), StoreDraft::tls_key),
            (("timeout", &["deadline"]), StoreDraft::timeout),
            (("key_prefix", &["prefix", "namespace"]), StoreDraft::key_prefix),
            (("max_in_flight", &["inflight"]), StoreDraft::max_in_flight),
            (("nodes", &["replicas"]), StoreDraft::nodes),
            (("denial_memory", &[]), StoreDraft::denial_memory),
        ],
        |_| None,
    )
}

impl StoreDraft {
    /// Reads the section; reports its errors. `None` where the settings cannot be used.
    pub(super) fn read(
        table: &TomlTable<'_>,
        report: &mut ConfigReport<'_>,
    ) -> Option<StoreSettings> {
        let mut draft = Self::default();
        let failed = fields().read(table, &mut draft, report);
        if !cfg!(feature = "redis") {
            report.add(
                &table.header,
                "`[store]` names a shared store, which this program was built without: expected no \
                 `[store]`, or a build with the feature `redis`",
            );
        }
        if table.get("url").is_none() && !failed.contains(&"url") {
            let expected = "a text such as \"redis://127.0.0.1:6379\"";
            report.add(&table.header, format!("`url` is missing: expected {expected}"));
        }
        let has_url = draft.url.is_some();
        let settings = draft.settings()?;
        for mistake in settings.mistakes().iter().filter(|one| !failed.contains(&one.field())) {
            let position =
                table.get(mistake.field()).map_or(table.header.clone(), TomlEntry::position);
            report
                .add(&position, format!("`{}`: expected {}", mistake.field(), mistake.expected()));
        }
        has_url.then_some(settings)
    }

    /// The settings. An invalid URL is replaced by a valid URL, so that the rest can be checked. The valid URL asks for
    /// TLS and Sentinel, because their fields would be errors otherwise.
    fn settings(self) -> Option<StoreSettings> {
        let url = self.url.or_else(|| "rediss+sentinel://localhost/any".parse().ok())?;
        let mut settings = StoreSettings::new(url);
        settings.username = self.username;
        settings.password = self.password;
        settings.sentinel_username = self.sentinel_username;
        settings.sentinel_password = self.sentinel_password;
        settings.tls_roots = self.tls_roots;
        settings.tls_cert = self.tls_cert;
        settings.tls_key = self.tls_key;
        settings.timeout = self.timeout.unwrap_or(settings.timeout);
        settings.key_prefix = self.key_prefix.unwrap_or(settings.key_prefix);
        settings.max_in_flight = self.max_in_flight.unwrap_or(settings.max_in_flight);
        settings.nodes = self.nodes;
        settings.denial_memory = self.denial_memory.unwrap_or(settings.denial_memory);
        Some(settings)
    }

    fn url(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        let url = text(entry, report)?.parse().map_err(|error| {
            report.add(&entry.position(), format!("`url`: {error}"));
        });
        self.url = Some(url.ok()?);
        Some(())
    }

    fn username(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.username = Some(text(entry, report)?.to_owned());
        Some(())
    }

    fn password_env(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        let secret = Secret::Env(text(entry, report)?.to_owned());
        once(&mut self.password, secret, entry, report)
    }

    fn password_file(
        &mut self,
        entry: &TomlEntry<'_>,
        report: &mut ConfigReport<'_>,
    ) -> Option<()> {
        let secret = Secret::File(text(entry, report)?.into());
        once(&mut self.password, secret, entry, report)
    }

    fn sentinel_username(
        &mut self,
        entry: &TomlEntry<'_>,
        report: &mut ConfigReport<'_>,
    ) -> Option<()> {
        self.sentinel_username = Some(text(entry, report)?.to_owned());
        Some(())
    }

    fn sentinel_password_env(
        &mut self,
        entry: &TomlEntry<'_>,
        report: &mut ConfigReport<'_>,
    ) -> Option<()> {
        let secret = Secret::Env(text(entry, report)?.to_owned());
        once(&mut self.sentinel_password, secret, entry, report)
    }

    fn sentinel_password_file(
        &mut self,
        entry: &TomlEntry<'_>,
        report: &mut ConfigReport<'_>,
    ) -> Option<()> {
        let secret = Secret::File(text(entry, report)?.into());
        once(&mut self.sentinel_password, secret, entry, report)
    }

    fn tls_roots(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.tls_roots = Some(text(entry, report)?.into());
        Some(())
    }

    fn tls_cert(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.tls_cert = Some(text(entry, report)?.into());
        Some(())
    }

    fn tls_key(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.tls_key = Some(text(entry, report)?.into());
        Some(())
    }

    fn timeout(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.timeout = Some(how_long(entry, TIMEOUT_EXPECTED, report)?);
        Some(())
    }

    fn key_prefix(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.key_prefix = Some(text(entry, report)?.to_owned());
        Some(())
    }

    fn max_in_flight(
        &mut self,
        entry: &TomlEntry<'_>,
        report: &mut ConfigReport<'_>,
    ) -> Option<()> {
        let number = usize::try_from(whole(entry, IN_FLIGHT_EXPECTED, report)?).ok();
        self.max_in_flight = Some(number.or_else(|| wrong(entry, IN_FLIGHT_EXPECTED, report))?);
        Some(())
    }

    fn nodes(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        let number = u64::try_from(whole(entry, NODES_EXPECTED, report)?).ok();
        self.nodes = Some(number.or_else(|| wrong(entry, NODES_EXPECTED, report))?);
        Some(())
    }

    fn denial_memory(
        &mut self,
        entry: &TomlEntry<'_>,
        report: &mut ConfigReport<'_>,
    ) -> Option<()> {
        self.denial_memory = Some(flag(entry, report)?);
        Some(())
    }
}

/// Notes a password, which may be named by one field only.
fn once(
    password: &mut Option<Secret>,
    secret: Secret,
    entry: &TomlEntry<'_>,
    report: &mut ConfigReport<'_>,
) -> Option<()> {
    if password.replace(secret).is_some() {
        let message = if entry.name.starts_with("sentinel") {
            "the password at Sentinel is named twice: expected `sentinel_password_env` or \
             `sentinel_password_file`"
        } else {
            "the password is named twice: expected `password_env` or `password_file`"
        };
        report.add(&entry.key, message);
        return None;
    }
    Some(())
}

/// The policy with the settings of the section.
pub(super) fn applied_to(store: Option<StoreSettings>, policy: Policy) -> Policy {
    match store {
        Some(store) => policy.with_store(store),
        None => policy,
    }
}
