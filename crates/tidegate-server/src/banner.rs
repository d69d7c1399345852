//! The text that `serve` prints at start: its addresses, the rules in force, and a line to paste. `cli/serve.rs`
//! fills it once all listeners are bound.

mod table;

pub(crate) use table::{of as table, overrides};

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use tidegate::Policy;

use crate::listener::AcceptOptions;
use crate::policy;
use crate::sample_request::SampleRequest;

/// The facts of the text, which [`fmt::Display`] writes.
pub(crate) struct Banner<'a> {
    /// The address of each listener; `None` if it is off.
    pub(crate) public: Option<SocketAddr>,
    pub(crate) grpc: Option<SocketAddr>,
    pub(crate) resp: Option<SocketAddr>,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) probe: Option<SocketAddr>,
    /// The options of the listeners for clients.
    pub(crate) options: &'a AcceptOptions,
    /// The file of the token, if there is one.
    pub(crate) token_file: Option<&'a Path>,
    pub(crate) certificate: Option<&'a Path>,
    pub(crate) config: Option<&'a Path>,
    pub(crate) policy: &'a Policy,
    /// True if the store of the policy does not answer.
    pub(crate) is_store_away: bool,
    /// The columns of the terminal, if it is printed on one.
    pub(crate) width: Option<u16>,
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rules = policy::count(self.policy);
        write!(f, "tidegate {}: {rules} ", env!("CARGO_PKG_VERSION"))?;
        match self.config {
            Some(file) => writeln!(f, "of {}", file.display())?,
            None => writeln!(f, "built in as an example (--config FILE for your own)")?,
        }
        writeln!(f)?;
        let scheme = self.scheme();
        let resp = if self.options.tls.is_some() { "rediss" } else { "redis" };
        for (name, scheme, at, remark) in [
            ("http ", scheme, self.public, "POST /v1/check /v1/peek, GET /healthz"),
            ("resp ", resp, self.resp, "TG.CHECK TG.PEEK CL.THROTTLE"),
            ("grpc ", scheme, self.grpc, "Envoy's rate limit service, health, reflection"),
            ("admin", scheme, self.admin, "/v1/rules /v1/stats /v1/top /v1/reset /metrics"),
        ] {
            match at {
                Some(at) => writeln!(f, "  {name}  {scheme}://{at}  {remark}")?,
                None => writeln!(f, "  {name}  off")?,
            }
        }
        if let Some(at) = self.probe {
            writeln!(f, "  probe  http://{at}  GET /livez /readyz")?;
        }
        if let Some(store) = self.policy.store() {
            let away = if self.is_store_away { " (unavailable now)" } else { "" };
            writeln!(
                f,
                "  store  {}{away}  limits are shared there; keys begin with {}",
                store.url, store.key_prefix
            )?;
        }
        // The command asks the admin listener.
        let hint = self.admin.map_or("", |_| ": `tidegate rules` lists all");
        let is_shared = self.policy.store().is_some();
        writeln!(f, "\n{}\n", table::first_of(self.policy, is_shared, self.width, hint))?;
        if let Some(at) = self.public {
            writeln!(f, "Try it:\n  {}", self.curl(at, &SampleRequest::of(self.policy)))?;
        }
        Ok(())
    }
}

impl Banner<'_> {
    const fn scheme(&self) -> &'static str {
        if self.options.tls.is_some() { "https" } else { "http" }
    }

    /// A shell command that asks the server for a decision; the shell reads the token, without the verbs after it. The server's
    /// own certificate is trusted, because its authority may be unknown here.
    fn curl(&self, at: SocketAddr, sample: &SampleRequest) -> String {
        let trust =
            self.certificate.map(|file| format!(" --cacert {}", quoted(&file.to_string_lossy())));
        format!(
            "curl -i {}://{}/v1/check{}{} -H 'content-type: application/json' -d {}",
            self.scheme(),
            reachable(at),
            trust.unwrap_or_default(),
            self.token(),
            quoted(&sample.body())
        )
    }

    fn token(&self) -> String {
        match (&self.options.secret, self.token_file) {
            (None, _) => String::new(),
            (Some(_), None) => " -H \"authorization: Bearer $TIDEGATE_TOKEN\"".to_owned(),
            (Some(_), Some(file)) => {
                // The first word of the first line that has any: verbs may follow a token.
                let file = quoted(&file.display().to_string());
                format!(" -H \"authorization: Bearer $(awk 'NF {{print $1; exit}}' {file})\"")
            }
        }
    }
}

/// An address to connect to: a listener on every address is reached on loopback.
fn reachable(at: SocketAddr) -> SocketAddr {
    let ip = match at.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, at.port())
}

/// One word of a shell of any characters.
fn quoted(text: &str) -> String {
    // Nothing is special in single quotes but their end, so a quote is written between two quoted parts.
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_reached_on_loopback() {
        let reached = |at: &str| reachable(at.parse().unwrap()).to_string();
        assert_eq!(reached("0.0.0.0:80"), "127.0.0.1:80");
        assert_eq!(reached("[::]:80"), "[::1]:80");
        assert_eq!(reached("10.0.0.1:80"), "10.0.0.1:80");
    }

    #[test]
    fn the_admin_listener_is_hinted_at_only_while_it_is_open() {
        let rule = |number| format!("[[rule]]\nname = \"r{number}\"\nrate = \"1/s\"\n");
        let rules: String = (0..60).map(rule).collect();
        let policy = tidegate::config::parse("test", &rules).unwrap();
        for admin in [None, Some(SocketAddr::from(([127, 0, 0, 1], 8082)))] {
            let banner = Banner {
                public: None,
                grpc: None,
                resp: None,
                admin,
                probe: None,
                options: &AcceptOptions::default(),
                token_file: None,
                certificate: None,
                config: None,
                policy: &policy,
                is_store_away: false,
                width: None,
            };
            let text = banner.to_string();
            assert!(text.contains("and 10 more"), "{text}");
            assert_eq!(text.contains("tidegate rules"), admin.is_some(), "{text}");
        }
    }
}
