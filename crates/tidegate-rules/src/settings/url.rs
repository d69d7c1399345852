//! The address of a store as a URL: one server, a socket, Sentinel or a cluster.
//!
//! `[store]` and flags of the server name a store by it. Its messages hide the password.

mod parts;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use parts::{RAW_PASSWORD, address, database, decoded, user_part};

/// The valid forms of a URL.
const EXPECTED: &str = "expected redis://[user:password@]host[:port][/database] (rediss:// with TLS), \
                        unix:///path, redis+sentinel://host:port,…/name[/database] or \
                        redis+cluster://host:port,…";

const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// The address of a store.
///
/// | form | server that it reaches |
/// | --- | --- |
/// | `redis://host:6379/0` | one server |
/// | `unix:///run/redis.sock?db=0` | one server, by its socket |
/// | `redis+sentinel://a:26379,b:26379/name/0` | the primary that Sentinel calls `name` |
/// | `redis+cluster://a:6379,b:6379` | a cluster, found through any of these nodes |
///
/// `rediss` in place of `redis` selects TLS. A user and a password precede the host,
/// `user:password@` or `:password@`, with every character but letters and digits as `%XX`;
/// [`StoreSettings`](super::StoreSettings) can take them from elsewhere. A displayed URL never
/// shows the password.
///
/// ```
/// use tidegate::StoreUrl;
///
/// let url: StoreUrl = "rediss://app:s3cret@10.0.0.7:6379/1".parse()?;
/// assert_eq!(url.to_string(), "rediss://10.0.0.7:6379/1");
/// # Ok::<(), tidegate::StoreUrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    form: StoreForm,
    tls: bool,
    hosts: Vec<(String, u16)>,
    database: i64,
    username: Option<String>,
    password: Option<String>,
}

/// The kind of store of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreForm {
    /// One server.
    Single,
    /// One server, at a socket of this host.
    Unix(PathBuf),
    /// A server that Sentinel names.
    Sentinel {
        /// The name under which Sentinel knows it.
        service: String,
    },
    /// A cluster.
    Cluster,
}

/// The parts of a URL that a client of the store needs.
#[derive(Clone, Copy)]
pub struct UrlParts<'a> {
    /// The kind of store.
    pub form: &'a StoreForm,
    /// The hosts with their ports; none of a socket.
    pub hosts: &'a [(String, u16)],
    /// The number of the database.
    pub database: i64,
    /// The password in the URL.
    pub password: Option<&'a str>,
}

/// Takes a URL apart.
pub fn parts_of(url: &StoreUrl) -> UrlParts<'_> {
    let StoreUrl { form, hosts, database, password, .. } = url;
    UrlParts { form, hosts, database: *database, password: password.as_deref() }
}

impl StoreUrl {
    /// Returns whether it uses TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        self.tls
    }

    /// The user in the URL.
    #[must_use]
    pub fn username(&self) -> Option<&str> {
        self.username.as_deref()
    }

    /// Returns whether it is the address of a cluster.
    #[must_use]
    pub const fn is_cluster(&self) -> bool {
        matches!(self.form, StoreForm::Cluster)
    }

    /// Returns whether Sentinel names its primary.
    pub(crate) const fn is_sentinel(&self) -> bool {
        matches!(self.form, StoreForm::Sentinel { .. })
    }

    fn unix(rest: &str) -> Result<Self, StoreUrlError> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !path.starts_with('/') {
            return Err(wrong("the path of a socket begins with `/`"));
        }
        let mut url = Self {
            form: StoreForm::Unix(decoded(path)?.into()),
            tls: false,
            hosts: Vec::new(),
            database: 0,
            username: None,
            password: None,
        };
        // The password of a socket stands in its query, because the URL has no host to put it before.
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("db", number)) => url.database = database(number)?,
                Some(("user", name)) => url.username = user_part(name)?,
                Some(("pass", word)) => url.password = user_part(word)?,
                _ => return Err(wrong("a socket takes only `db`, `user` and `pass` after `?`")),
            }
        }
        Ok(url)
    }

    fn remote(kind: UrlKind, tls: bool, rest: &str) -> Result<Self, StoreUrlError> {
        // First, because an error about `?` alone would not say that it stands in a password.
        if kind.has_raw_password(rest) {
            return Err(wrong(RAW_PASSWORD));
        }
        if rest.contains(['?', '#']) {
            return Err(wrong("`?` and `#` are not allowed"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // The last `@` ends the user, because a password that was not escaped may have others.
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        // A password may contain colons, a user name none.
        let (username, password) = user.split_once(':').unwrap_or((user, ""));
        let port = if kind == UrlKind::Sentinel { SENTINEL_PORT } else { REDIS_PORT };
        let hosts =
            hosts.split(',').map(|host| address(host, port)).collect::<Result<Vec<_>, _>>()?;
        let (form, number) = kind.form(path, hosts.len())?;
        Ok(Self {
            form,
            tls,
            hosts,
            database: database(number)?,
            username: user_part(username)?,
            password: user_part(password)?,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UrlKind {
    Single,
    Sentinel,
    Cluster,
}

impl UrlKind {
    /// Returns whether a user or a password contains a character that ends it. Then the text that should be the hosts
    /// is none, and an `@` follows.
    fn has_raw_password(self, rest: &str) -> bool {
        let Some(at) = rest.find(['/', '?', '#']) else { return false };
        let (authority, after) = rest.split_at(at);
        // Any default port will do, because only the form of the hosts matters.
        let are_hosts = authority.split(',').all(|host| address(host, 1).is_ok());
        // The name of a service at Sentinel may contain an `@`.
        let is_name = self == Self::Sentinel
            && after.starts_with('/')
            && (authority.contains('@') || are_hosts);
        after.contains('@') && !is_name
    }

    /// The form, and the text of the database.
    fn form(self, path: &str, hosts: usize) -> Result<(StoreForm, &str), StoreUrlError> {
        match self {
            Self::Single if hosts > 1 => {
                Err(wrong("several hosts need redis+cluster://, or redis+sentinel:// for Sentinel"))
            }
            Self::Single => Ok((StoreForm::Single, path)),
            Self::Cluster if !matches!(path, "" | "0") => {
                Err(wrong("a cluster has only database 0"))
            }
            // An empty text is database 0.
            Self::Cluster => Ok((StoreForm::Cluster, "")),
            Self::Sentinel => match path.split_once('/').unwrap_or((path, "")) {
                ("", _) => Err(wrong("the name that Sentinel knows the primary by is missing")),
                (name, number) => Ok((StoreForm::Sentinel { service: decoded(name)? }, number)),
            },
        }
    }
}

impl FromStr for StoreUrl {
    type Err = StoreUrlError;

    fn from_str(text: &str) -> Result<Self, StoreUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it has no `://`"))?;
        match scheme {
            "unix" | "redis+unix" => Self::unix(rest),
            "redis" | "valkey" => Self::remote(UrlKind::Single, false, rest),
            "rediss" | "valkeys" => Self::remote(UrlKind::Single, true, rest),
            "redis+sentinel" => Self::remote(UrlKind::Sentinel, false, rest),
            "rediss+sentinel" => Self::remote(UrlKind::Sentinel, true, rest),
            "redis+cluster" => Self::remote(UrlKind::Cluster, false, rest),
            "rediss+cluster" => Self::remote(UrlKind::Cluster, true, rest),
            _ => Err(wrong("no such kind of store")),
        }
    }
}

/// Shows everything but the user and the password.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.tls { "s" } else { "" };
        let hosts: Vec<_> = self.hosts.iter().map(shown).collect();
        let hosts = hosts.join(",");
        match &self.form {
            StoreForm::Unix(path) => write!(f, "unix://{}?db={}", path.display(), self.database),
            StoreForm::Single => write!(f, "redis{s}://{hosts}/{}", self.database),
            StoreForm::Cluster => write!(f, "redis{s}+cluster://{hosts}"),
            StoreForm::Sentinel { service } => {
                write!(f, "redis{s}+sentinel://{hosts}/{service}/{}", self.database)
            }
        }
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

fn shown((host, port): &(String, u16)) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Why a text is not the address of a store. The error never shows the text, which may contain a
/// password.
///
/// ```
/// use tidegate::StoreUrl;
///
/// let error = "http://app:s3cret@10.0.0.7".parse::<StoreUrl>().unwrap_err().to_string();
/// assert!(error.starts_with("not the URL of a store") && !error.contains("s3cret"), "{error}");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrlError {
    problem: &'static str,
}

const fn wrong(problem: &'static str) -> StoreUrlError {
    StoreUrlError { problem }
}

impl fmt::Display for StoreUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not the URL of a store: {}; {EXPECTED}", self.problem)
    }
}

tidegate_core::debug_as_display!(StoreUrlError);

impl std::error::Error for StoreUrlError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> StoreUrl {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn every_form_is_understood_and_shown() {
        for (text, shown) in [
            ("redis://localhost", "redis://localhost:6379/0"),
            ("valkey://localhost:7000/", "redis://localhost:7000/0"),
            ("rediss://[::1]:7000/3", "rediss://[::1]:7000/3"),
            ("redis://[::1]", "redis://[::1]:6379/0"),
            ("unix:///run/a%20b.sock?db=2", "unix:///run/a b.sock?db=2"),
            ("redis+sentinel://a,b:7/main/4", "redis+sentinel://a:26379,b:7/main/4"),
            ("rediss+cluster://a:1,b:2", "rediss+cluster://a:1,b:2"),
        ] {
            assert_eq!(url(text).to_string(), shown);
        }
        assert!(url("redis+cluster://a").is_cluster());
    }

    #[test]
    fn user_and_password_are_decoded_and_never_shown() {
        let given = url("redis://ann:p%40ss%3Aword@h");
        assert_eq!(given.username.as_deref(), Some("ann"));
        assert_eq!(given.password.as_deref(), Some("p@ss:word"));
        assert!(!format!("{given} {given:?}").contains("ss:word"));
        assert_eq!(url("redis://:only@h").password.as_deref(), Some("only"));
        assert_eq!(url("redis://:only@h").username, None);
        assert_eq!(url("unix:///s?user=u&pass=p").password.as_deref(), Some("p"));
    }

    #[test]
    fn a_raw_character_of_a_password_is_reported_and_a_coded_one_is_read() {
        for (raw, coded) in [('/', "%2F"), ('?', "%3F"), ('#', "%23"), ('%', "%25")] {
            for form in [
                "redis://ann:pa{}ss@h:7/1",
                "redis://:p@a{}ss@h:7/1",
                "redis+sentinel://:pa{}ss@h:7/main",
                "redis+cluster://:{}@h:7",
            ] {
                let error = form.replace("{}", &raw.to_string()).parse::<StoreUrl>().unwrap_err();
                let error = error.to_string();
                assert!(
                    error.contains(coded) && error.contains("`password_file`"),
                    "{form} {raw}: {error}"
                );
                assert!(!error.contains("ss@"), "{error}");
                let url = url(&form.replace("{}", coded));
                assert!(
                    url.password.is_some_and(|password| password.contains(raw)),
                    "{form} {raw}"
                );
            }
        }
        for raw in ["?", "#"] {
            let error = format!("redis+sentinel://:p@a{raw}ss@h:7/main").parse::<StoreUrl>();
            assert!(error.unwrap_err().to_string().contains("`password_file`"), "{raw}");
        }
        assert_eq!(url("redis+sentinel://h:7/ma@in").to_string(), "redis+sentinel://h:7/ma@in/0");
        assert_eq!(url("redis://:p@ss@h").password.as_deref(), Some("p@ss"));
    }

    #[test]
    fn what_is_no_url_of_a_store_is_reported_without_telling_the_text() {
        for text in "localhost:6379 http://h redis:// redis://h:0 redis://h:65536 redis://h: \
             redis://h/x redis://h/-1 redis://a,b redis://[::1 redis://h?db=1 \
             redis+sentinel://a redis+sentinel://a//1 redis+cluster://a/1 unix://x \
             unix:///x?timeout=1 redis://:%zz@h redis://:%f@h redis://:%ff@h"
            .split(' ')
            .chain([""])
        {
            let error = text.parse::<StoreUrl>().unwrap_err().to_string();
            assert!(error.contains("expected redis://"), "{text}: {error}");
            assert!(!error.contains("%zz"), "{error}");
        }
    }
}
