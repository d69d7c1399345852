//! The settings of a shared store: its address, deadline, bounds and keys.
//!
//! They come from the section `[store]` of a configuration, or from a program, and make a `SharedGate`.

mod secret;
mod url;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_core::is_whole;

pub use secret::Secret;
pub use url::{StoreForm, StoreUrl, StoreUrlError, UrlParts, parts_of};

/// The default for the time of one decision.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(10);
/// The longest possible time of one decision.
const MOST_TIMEOUT: Duration = Duration::from_secs(60);
/// The valid values of `timeout`.
pub const TIMEOUT_EXPECTED: &str = "a length of time such as \"10ms\", from 1ms to 1m";
/// The default for requests under way.
const DEFAULT_IN_FLIGHT: usize = 4_096;
/// The largest possible number of requests under way.
pub const MOST_IN_FLIGHT: usize = 1_000_000;
/// The valid values of `max_in_flight`.
pub const IN_FLIGHT_EXPECTED: &str = "a whole number from 1 to 1000000";
/// The largest possible number of nodes.
pub const MOST_NODES: u64 = 1_000_000;
/// The valid values of `nodes`.
pub const NODES_EXPECTED: &str = "the number of nodes that share the store, from 1 to 1000000";
/// The valid values of `key_prefix`.
const PREFIX_EXPECTED: &str =
    "1 to 64 visible characters of ASCII without `{` and `}`, such as \"tidegate:\"";

/// A shared store: its address, and how it is used.
///
/// ```
/// use std::time::Duration;
/// use tidegate::StoreSettings;
///
/// let mut settings = StoreSettings::new("redis://127.0.0.1:6379/2".parse()?);
/// settings.timeout = Duration::from_millis(5);
/// settings.nodes = Some(3);
/// # Ok::<(), tidegate::StoreUrlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSettings {
    /// The address.
    pub url: StoreUrl,
    /// The user, in place of the user in the URL.
    pub username: Option<String>,
    /// The password, in place of the password in the URL; it is read again for each connection.
    pub password: Option<Secret>,
    /// The user at Sentinel, which has users and passwords of its own; only with Sentinel.
    pub sentinel_username: Option<String>,
    /// The password at Sentinel, by default none; it is read again for each connection.
    pub sentinel_password: Option<Secret>,
    /// A PEM file of certificates to trust in place of the system's; only with TLS.
    pub tls_roots: Option<PathBuf>,
    /// A PEM file of the certificate that is shown to each server, Sentinel and node; only with
    /// TLS and `tls_key`.
    pub tls_cert: Option<PathBuf>,
    /// A PEM file of the private key of `tls_cert`.
    pub tls_key: Option<PathBuf>,
    /// The longest time of one decision, 1 ms to one minute; after it the rules' own
    /// `on_store_error` decides (default 10 ms).
    pub timeout: Duration,
    /// The beginning of every key: 1 to 64 visible ASCII characters without braces (default
    /// `tidegate:`).
    pub key_prefix: String,
    /// The maximum number of limiters in calls under way at each server of the store, from 1 to a million (default
    /// 4,096). The actual number adapts to how many the server answers in time. 16 times as many requests may wait;
    /// beyond them the store counts as overloaded.
    pub max_in_flight: usize,
    /// The number of nodes that share the store, from 1 to a million; this sets each node's share of a limit
    /// while it decides without the store. `None`, the default, uses the number of nodes last seen
    /// in the store: each live node is listed under `key_prefix`.
    pub nodes: Option<u64>,
    /// True if this process repeats the store's latest denials without asking the store, for the same cost or more, for
    /// at most 50 ms (default false). Units that another node gives back, and rules that it changes, may then be
    /// noticed that much later.
    pub denial_memory: bool,
    /// True if a call that finds the store idle goes over a connection of the runtime that asks, which costs no hand-over
    /// to the thread of the store and back (default false). Each runtime of tokio that asks has one such connection, up
    /// to 64. The runtime needs I/O and time, must last for many calls, and must be driven all the time. The setting has
    /// an effect over a single server by TCP without TLS, whose user may run `INFO`, with a `max_in_flight` of 512 or
    /// more. The calls of one runtime are sent in the order in which they began, as long as the store takes at most a
    /// quarter of `timeout`, and at most 5 ms, for each. A call without a reply in time is decided as under load.
    pub direct: bool,
}

impl StoreSettings {
    /// A store at `url`, with every other setting at its default.
    #[must_use]
    pub fn new(url: StoreUrl) -> Self {
        Self {
            url,
            username: None,
            password: None,
            sentinel_username: None,
            sentinel_password: None,
            tls_roots: None,
            tls_cert: None,
            tls_key: None,
            timeout: DEFAULT_TIMEOUT,
            key_prefix: "tidegate:".to_owned(),
            max_in_flight: DEFAULT_IN_FLIGHT,
            nodes: None,
            denial_memory: false,
            direct: false,
        }
    }

    /// Returns every invalid setting.
    #[must_use]
    pub fn mistakes(&self) -> Vec<SettingsError> {
        let by_sentinel = self.url.is_sentinel();
        let can_wait = (Duration::from_millis(1)..=MOST_TIMEOUT).contains(&self.timeout);
        let are_nodes = self.nodes.is_none_or(|nodes| (1..=MOST_NODES).contains(&nodes));
        let can_be_in_flight = (1..=MOST_IN_FLIGHT).contains(&self.max_in_flight);
        // A field is here once for each of its conditions, because each has a text of its own.
        let checks = [
            ("timeout", can_wait && is_whole(self.timeout), TIMEOUT_EXPECTED),
            ("key_prefix", is_prefix(&self.key_prefix), PREFIX_EXPECTED),
            ("max_in_flight", can_be_in_flight, IN_FLIGHT_EXPECTED),
            ("nodes", are_nodes, NODES_EXPECTED),
            ("tls_roots", self.tls_roots.is_none() || self.url.is_tls(), TLS_EXPECTED),
            ("tls_cert", self.tls_cert.is_none() || self.url.is_tls(), TLS_EXPECTED),
            ("tls_key", self.tls_key.is_none() || self.url.is_tls(), TLS_EXPECTED),
            ("tls_cert", self.tls_cert.is_none() || self.tls_key.is_some(), KEY_EXPECTED),
            ("tls_key", self.tls_key.is_none() || self.tls_cert.is_some(), CERT_EXPECTED),
            (
                "sentinel_username",
                self.sentinel_username.is_none() || by_sentinel,
                SENTINEL_EXPECTED,
            ),
            (
                "sentinel_username",
                self.sentinel_username.is_none() || self.sentinel_password.is_some(),
                SENTINEL_PASSWORD_EXPECTED,
            ),
            (
                sentinel_password_field(self.sentinel_password.as_ref()),
                self.sentinel_password.is_none() || by_sentinel,
                SENTINEL_EXPECTED,
            ),
        ];
        let wrong = checks.into_iter().filter(|(_, sound, _)| !sound);
        wrong.map(|(field, _, expected)| SettingsError { field, expected }).collect()
    }
}

/// The condition for `tls_roots`, `tls_cert` and `tls_key`.
const TLS_EXPECTED: &str = "it only with a URL that asks for TLS, such as \"rediss://…\"";
/// The condition for `tls_cert`.
const KEY_EXPECTED: &str = "it together with `tls_key`, the file of its private key";
/// The condition for `tls_key`.
const CERT_EXPECTED: &str = "it together with `tls_cert`, the file of its certificate";
/// The condition for the fields of Sentinel.
const SENTINEL_EXPECTED: &str = "it only with Sentinel, \"redis+sentinel://…\"; `username` and the password are for the servers";
/// The condition for `sentinel_username`.
const SENTINEL_PASSWORD_EXPECTED: &str =
    "it together with `sentinel_password_file` or `sentinel_password_env`";

/// The field of a configuration that names the password at Sentinel.
const fn sentinel_password_field(secret: Option<&Secret>) -> &'static str {
    match secret {
        Some(Secret::Env(_)) => "sentinel_password_env",
        Some(Secret::File(_)) => "sentinel_password_file",
        Some(Secret::Text(_)) | None => "sentinel_password",
    }
}

fn is_prefix(prefix: &str) -> bool {
    (1..=64).contains(&prefix.len())
        // Between braces the prefix would choose the slot of all keys in a cluster.
        && prefix.bytes().all(|c| c.is_ascii_graphic() && c != b'{' && c != b'}')
}

/// An invalid setting of the store.
///
/// ```
/// use std::time::Duration;
/// use tidegate::StoreSettings;
///
/// let mut settings = StoreSettings::new("redis://127.0.0.1".parse()?);
/// settings.timeout = Duration::ZERO;
/// let mistakes = settings.mistakes();
/// assert_eq!(mistakes.iter().map(|error| error.field()).collect::<Vec<_>>(), ["timeout"]);
/// # Ok::<(), tidegate::StoreUrlError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SettingsError {
    field: &'static str,
    expected: &'static str,
}

impl SettingsError {
    /// The name of the setting.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        self.field
    }

    /// The valid values.
    #[must_use]
    pub const fn expected(&self) -> &'static str {
        self.expected
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of the store: expected {}", self.field, self.expected)
    }
}

tidegate_core::debug_as_display!(SettingsError);

impl std::error::Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_out_of_range_is_reported_and_the_defaults_are_sound() {
        let mut settings = StoreSettings::new("redis://127.0.0.1".parse().unwrap());
        assert_eq!(settings.mistakes(), []);
        (settings.timeout, settings.nodes) = (Duration::from_micros(999), Some(0));
        (settings.key_prefix, settings.max_in_flight) = ("a{b}".to_owned(), 0);
        settings.tls_roots = Some("roots.pem".into());
        assert_eq!(
            fields(&settings),
            ["timeout", "key_prefix", "max_in_flight", "nodes", "tls_roots"]
        );
    }

    fn fields(settings: &StoreSettings) -> Vec<&'static str> {
        settings.mistakes().iter().map(SettingsError::field).collect()
    }

    #[test]
    fn a_certificate_has_a_key_and_sentinel_alone_has_its_own_user() {
        let mut settings = StoreSettings::new("rediss+sentinel://127.0.0.1/main".parse().unwrap());
        settings.tls_cert = Some("cert.pem".into());
        assert_eq!(fields(&settings), ["tls_cert"]);
        settings.tls_key = Some("key.pem".into());
        settings.sentinel_username = Some("ann".to_owned());
        assert_eq!(fields(&settings), ["sentinel_username"]);
        settings.sentinel_password = Some(Secret::File("sesame".into()));
        assert_eq!(fields(&settings), [""; 0]);
        settings.url = "redis://127.0.0.1".parse().unwrap();
        let all = ["tls_cert", "tls_key", "sentinel_username", "sentinel_password_file"];
        assert_eq!(fields(&settings), all);
        settings.tls_cert = None;
        assert_eq!(fields(&settings)[..2], ["tls_key", "tls_key"]);
    }
}
