//! The flags of `serve`, and their values as types. Each is also a variable and, but for `--config` and `--store`, a field of
//! `[server]`; `settings.rs` puts the three together.
//!
//! A comment of a field here is the text of `--help`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args as _, Command};
use tidegate::config::parse_duration;
use tidegate::{Policy, Recorder, StoreUrl};

use super::super::address::{self, Where};
use super::super::guard::file;
use super::super::{bounds, guard};
use crate::failure::Failure;
use crate::grpc::{BadRequest, Choices, Family, Unavailable};
use crate::limiters::Limiters;
use crate::listener::Clients;
use crate::logging::{LineFormat, LogLevel};
use crate::otlp::{self, CollectorAddress};
use crate::policy;
use crate::resp::{ListenerAddress, RespService};
use crate::verbs::{self, PublicVerb, PublicVerbs};

const BRIEFLY: &str = "\
Example:  tidegate serve -c rules.toml --http 0.0.0.0:8080
Any flag is also a variable (--http: TIDEGATE_HTTP) and a field of `[server]`.";

const EXAMPLES: &str = "\
A flag goes before its variable, and that before the field of its name in
`[server]` of the configuration, such as `log_level = \"warn\"`.

Examples:
  tidegate serve
  tidegate serve -c rules.toml --http 0.0.0.0:8080 --log-format json
  tidegate serve -c rules.toml --store redis://10.0.0.7:6379
  tidegate serve --tls-cert cert.pem --tls-key key.pem --token-file tokens
  tidegate serve --http 127.0.0.1:0 --grpc 127.0.0.1:0 --resp 127.0.0.1:0 --admin 127.0.0.1:0
                                           any free ports; they are printed
  tidegate serve -c rules.toml --grpc off --resp off
                                           over HTTP alone

Without a token the admin listener asks for no password: keep it where only
operators reach it. SIGTERM and SIGINT let requests that are under way finish; a
second one does not, and the exit code is then 1. SIGHUP reads the
configuration, tokens and certificates again.";

/// Decide over HTTP, gRPC and RESP, in memory or in a shared store
#[derive(Debug, clap::Args)]
#[command(after_help = BRIEFLY, after_long_help = EXAMPLES)]
pub(crate) struct ServeArgs {
    /// The configuration (TOML); without it a few rules
    #[arg(short, long, value_name = "FILE", env = "TIDEGATE_CONFIG", value_parser = file())]
    pub(super) config: Option<PathBuf>,

    /// The store that nodes share, as `[store] url`
    ///
    /// redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://
    #[arg(long, value_name = "URL", env = "TIDEGATE_STORE", hide_env_values = true)]
    pub(super) store: Option<StoreUrl>,

    /// Checks over HTTP, or `off`
    ///
    /// An address is IP:PORT; port 0 takes any free one
    #[arg(long, value_name = "ADDR", env = "TIDEGATE_HTTP", default_value = "127.0.0.1:8080", value_parser = address::or_off)]
    pub(super) http: Where,

    /// Envoy's rate limit service
    #[arg(long, value_name = "ADDR", env = "TIDEGATE_GRPC", default_value = "127.0.0.1:8081", value_parser = address::or_off)]
    pub(super) grpc: Where,

    /// Redis clients
    ///
    /// RESP2 and RESP3
    #[arg(long, value_name = "ADDR", env = "TIDEGATE_RESP", default_value = "127.0.0.1:6380", value_parser = address::or_off)]
    pub(super) resp: Where,

    /// The address that Redis clients in cluster mode are told
    ///
    /// By default the address that the client has reached, which is wrong where ports are mapped, and where TLS needs a
    /// name
    #[arg(long, value_name = "HOST:PORT", env = "TIDEGATE_RESP_ANNOUNCE", value_parser = address::announced, hide_short_help = true)]
    resp_announce: Option<ListenerAddress>,

    /// Operators
    ///
    /// The address for operators, to reset, refund and read the rules
    #[arg(long, value_name = "ADDR", env = "TIDEGATE_ADMIN", default_value = "127.0.0.1:8082", value_parser = address::or_off)]
    pub(super) admin: Where,

    /// Probes of an orchestrator, without TLS and tokens
    ///
    /// GET /livez and /readyz, and nothing else
    #[arg(long, value_name = "ADDR", env = "TIDEGATE_PROBE", default_value = "off", value_parser = address::or_off, hide_short_help = true)]
    pub(super) probe: Where,

    /// Header fields that the proxy adds to responses, in addition to its own; several are
    /// separated by commas
    #[arg(
        long,
        value_name = "FAMILY",
        env = "TIDEGATE_GRPC_HEADERS",
        value_delimiter = ',',
        hide_short_help = true
    )]
    grpc_headers: Vec<Family>,

    /// Answer to the proxy while the store is unavailable and a rule is then closed
    #[arg(
        long,
        value_name = "ANSWER",
        env = "TIDEGATE_GRPC_UNAVAILABLE",
        default_value = "over-limit",
        hide_short_help = true
    )]
    grpc_unavailable: Unavailable,

    /// Answer to the proxy for a request that is not understood
    #[arg(
        long,
        value_name = "ANSWER",
        env = "TIDEGATE_ON_BAD_REQUEST",
        default_value = "over-limit",
        hide_short_help = true
    )]
    on_bad_request: BadRequest,

    /// Verbs that all clients may use, separated by commas; tokens and certificates may grant more
    ///
    /// Operators have theirs on the admin listener
    #[arg(
        long,
        value_name = "VERB",
        env = "TIDEGATE_PUBLIC_VERBS",
        value_delimiter = ',',
        default_value = verbs::USUAL,
        hide_short_help = true
    )]
    public_verbs: Vec<PublicVerb>,

    /// Read the configuration again only on SIGHUP, and not when its file changes
    #[arg(long, value_name = "BOOL", env = "TIDEGATE_NO_WATCH", num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true, value_parser = switch, hide_short_help = true)]
    pub(super) no_watch: bool,

    /// Keep used units across restarts in this file
    ///
    /// Limiters in this process are read from it at the start, and written to it every so often and at the end. It
    /// contains a secret
    #[arg(long, value_name = "FILE", env = "TIDEGATE_SNAPSHOT", value_parser = file())]
    pub(super) snapshot: Option<PathBuf>,

    /// The time between two writes of that file, "100ms" to "1d"
    #[arg(long, value_name = "TIME", env = "TIDEGATE_SNAPSHOT_EVERY", default_value = "1m", value_parser = every, hide_short_help = true)]
    pub(super) snapshot_every: Duration,

    /// Record requests for a replay, for so long: "1s" to "1d", or off
    ///
    /// `tidegate replay --recorded` reads them at the admin listener. They have the keys of callers, except those that a
    /// rule hides
    #[arg(long, value_name = "TIME", env = "TIDEGATE_RECORD", default_value = "off", value_parser = record, hide_short_help = true)]
    record: Duration,

    /// The largest memory of the records, "64KiB" to "1TiB"
    #[arg(long, value_name = "SIZE", env = "TIDEGATE_RECORD_MEMORY", default_value = "64MiB", value_parser = bounds::memory, hide_short_help = true)]
    record_memory: usize,

    /// Record one in so many keys, and of these all requests; 1 records all
    #[arg(long, value_name = "N", env = "TIDEGATE_RECORD_ONE_IN", default_value = "1", allow_negative_numbers = true, value_parser = bounds::one_in, hide_short_help = true)]
    record_one_in: u32,

    /// Log lines, text or json
    ///
    /// On standard error
    #[arg(long, value_name = "KIND", env = "TIDEGATE_LOG_FORMAT", default_value = "text")]
    pub(super) log_format: LineFormat,

    /// Least severe event logged
    #[arg(long, value_name = "LEVEL", env = "TIDEGATE_LOG_LEVEL", default_value = "info")]
    pub(super) log_level: LogLevel,

    /// The collector of spans, over OTLP
    ///
    /// OTLP over gRPC. Requests whose `traceparent` is sampled have a span in that trace
    #[arg(long, value_name = "URL", env = "TIDEGATE_OTLP", value_parser = otlp::endpoint, hide_short_help = true)]
    pub(super) otlp: Option<CollectorAddress>,

    #[command(flatten)]
    pub(super) bounds: bounds::BoundsArgs,

    #[command(flatten)]
    pub(super) guard: guard::GuardArgs,
}

/// The shortest and the longest time between two snapshots.
const EVERY: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(86_400);

fn every(text: &str) -> Result<Duration, String> {
    bounds::within(text, &EVERY, "expected a time from \"100ms\" to \"1d\"")
}

/// The shortest and the longest time for which requests are recorded.
const RECORD: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

/// Reads a time, or `off` as none.
fn record(text: &str) -> Result<Duration, String> {
    let expected = "expected a time from \"1s\" to \"1d\", such as \"10m\", or \"off\"";
    if text == "off" {
        return Ok(Duration::ZERO);
    }
    let record = parse_duration(text).map_err(|error| format!("{error}; {expected}"))?;
    if RECORD.contains(&record) { Ok(record) } else { Err(expected.to_owned()) }
}

fn switch(text: &str) -> Result<bool, &'static str> {
    match text {
        // A variable may be written in any of these ways, and a field of the file is true or false.
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("expected true or false"),
    }
}

/// The flags as a command by itself.
pub(crate) fn command() -> Command {
    ServeArgs::augment_args(Command::new("serve").bin_name("tidegate serve"))
}

impl ServeArgs {
    /// The address of each listener with its option; the last two are for operators and probes.
    pub(in super::super) const fn listeners(&self) -> [(&'static str, Where); 5] {
        [
            ("--http", self.http),
            ("--grpc", self.grpc),
            ("--resp", self.resp),
            ("--admin", self.admin),
            ("--probe", self.probe),
        ]
    }

    /// A policy over the store of `--store`, if that is given.
    pub(super) fn over_store(&self, policy: Policy) -> Policy {
        match &self.store {
            Some(url) => policy::over(policy, url.clone()),
            None => policy,
        }
    }

    /// The answers over gRPC that are chosen by flags.
    pub(super) fn choices(&self) -> Choices {
        Choices {
            fields: self.grpc_headers.iter().copied().collect(),
            unavailable: self.grpc_unavailable,
            bad_request: self.on_bad_request,
        }
    }

    /// The service of Redis clients.
    ///
    /// # Errors
    /// Returns an error as [`RespService::new`] does.
    pub(super) fn resp_service(
        &self,
        limiters: &Arc<Limiters>,
        clients: &Clients,
    ) -> Result<RespService, Failure> {
        let announced = self.resp_announce.clone();
        let service = RespService::new(Arc::clone(limiters), clients.clone(), announced);
        service.map_err(|mistakes| Failure::new(mistakes.to_string()))
    }

    /// The recorder of requests, if they are recorded.
    pub(super) fn recorder(&self) -> Option<Recorder> {
        let recorder = Recorder::new(self.record, self.record_memory).one_in(self.record_one_in);
        (!self.record.is_zero()).then_some(recorder)
    }

    /// The verbs that all clients may use.
    pub(super) fn public_verbs(&self) -> PublicVerbs {
        self.public_verbs.iter().copied().collect()
    }
}
