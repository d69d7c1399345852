//! The section `[store]`: the store of limiters that many nodes share.
//!
//! `document.rs` has it among the sections of a file. A `SharedGate` is made of the result.

use super::accept::TableFields;
use super::kind::ValueKind::{self, Flag, Pattern, Text, Whole};
use super::source::ConfigReport;
use super::table::TomlTable;
use super::value::{Given, put};
use tidegate_rules::settings::{
    IN_FLIGHT_EXPECTED, MOST_IN_FLIGHT, MOST_NODES, NODES_EXPECTED, Secret, StoreSettings,
    TIMEOUT_EXPECTED,
};

pub(super) fn fields<'t>() -> TableFields<'t, StoreSettings> {
    TableFields::of_fields([
        (
            ("url", &["uri", "address", "host", "endpoint"]),
            Pattern("^(rediss?(\\+sentinel|\\+cluster)?|unix)://"),
            url,
        ),
        (("username", &["user"]), Text, |store, given| {
            put(&mut store.username, given.text().map(str::to_owned))
        }),
        (("password_env", &["password", "passwordvariable"]), Text, |store, given| {
            once(&mut store.password, env, given)
        }),
        (("password_file", &["passwordpath", "secretfile"]), Text, |store, given| {
            once(&mut store.password, file, given)
        }),
        (("sentinel_username", &["sentineluser"]), Text, |store, given| {
            put(&mut store.sentinel_username, given.text().map(str::to_owned))
        }),
        (("sentinel_password_env", &["sentinelpassword"]), Text, |store, given| {
            once(&mut store.sentinel_password, env, given)
        }),
        (("sentinel_password_file", &["sentinelpasswordpath"]), Text, |store, given| {
            once(&mut store.sentinel_password, file, given)
        }),
        (("tls_roots", &["ca", "cafile", "cacert"]), Text, |store, given| {
            put(&mut store.tls_roots, given.path())
        }),
        (("tls_cert", &["cert", "clientcert"]), Text, |store, given| {
            put(&mut store.tls_cert, given.path())
        }),
        (("tls_key", &["key", "clientkey"]), Text, |store, given| {
            put(&mut store.tls_key, given.path())
        }),
        (("timeout", &["deadline"]), ValueKind::TIME, |store, given| {
            put(&mut store.timeout, given.how_long(TIMEOUT_EXPECTED))
        }),
        (("key_prefix", &["prefix", "namespace"]), Pattern("^[!-z|~]{1,64}$"), |store, given| {
            put(&mut store.key_prefix, given.text())
        }),
        (("max_in_flight", &["inflight"]), Whole(1, MOST_IN_FLIGHT as u64), |store, given| {
            put(&mut store.max_in_flight, given.number::<usize>(IN_FLIGHT_EXPECTED))
        }),
        (("nodes", &["replicas"]), Whole(1, MOST_NODES), |store, given| {
            put(&mut store.nodes, given.number::<u64>(NODES_EXPECTED))
        }),
        (("denial_memory", &[]), Flag, |store, given| put(&mut store.denial_memory, given.flag())),
    ])
}

/// Reads the section; reports its errors. `None` where the settings cannot be used.
pub(super) fn read(table: &TomlTable<'_>, report: &mut ConfigReport<'_>) -> Option<StoreSettings> {
    // The place of an invalid URL is held by a valid URL, so that the rest can be checked. The valid URL asks for TLS
    // and Sentinel, because their fields would be errors otherwise.
    let mut store = StoreSettings::new("rediss+sentinel://localhost/any".parse().ok()?);
    let failed = fields().read(table, &mut store, report);
    if !cfg!(feature = "shared") {
        report.add(
            &table.header,
            "`[store]` names a shared store, which this program was built without: expected no \
             `[store]`, or a build with the feature `redis`",
        );
    }
    let lacks_url =
        table.lacks("url", "a text such as \"redis://127.0.0.1:6379\"", &failed, report);
    for mistake in store.mistakes().iter().filter(|one| !failed.contains(&one.field())) {
        let message = format!("`{}`: expected {}", mistake.field(), mistake.expected());
        report.add(&table.position_of(&[mistake.field()]), message);
    }
    (!lacks_url && !failed.contains(&"url")).then_some(store)
}

fn url(store: &mut StoreSettings, given: &mut Given<'_, '_, '_>) -> Option<()> {
    match given.text()?.parse() {
        Ok(url) => store.url = url,
        Err(error) => return given.error(format!("`url`: {error}")),
    }
    Some(())
}

fn env(name: &str) -> Secret {
    Secret::Env(name.to_owned())
}

fn file(path: &str) -> Secret {
    Secret::File(path.into())
}

/// Notes a password, which may be named by one field only.
fn once(
    password: &mut Option<Secret>,
    secret: fn(&str) -> Secret,
    given: &mut Given<'_, '_, '_>,
) -> Option<()> {
    let secret = secret(given.text()?);
    if password.replace(secret).is_some() {
        let message = if given.entry.name.starts_with("sentinel") {
            "the password at Sentinel is named twice: expected `sentinel_password_env` or \
             `sentinel_password_file`"
        } else {
            "the password is named twice: expected `password_env` or `password_file`"
        };
        given.report.add(&given.entry.key, message);
        return None;
    }
    Some(())
}
