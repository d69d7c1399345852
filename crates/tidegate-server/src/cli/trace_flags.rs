//! The flags of a trace, for `replay` and `compare`: its files, the format of their lines, and the permission to skip
//! unreadable lines. A comment of a field here is the text of `--help`.

use std::path::PathBuf;

use clap::ValueEnum;
use tidegate::ClientAddress;
use tidegate_lab::trace::{LogFormat, Options, Source};

use crate::failure::Failure;

/// The trace that is decided.
#[derive(Debug, clap::Args)]
pub(super) struct TraceFlags {
    /// The trace; - reads standard input
    ///
    /// May be repeated, or be several files: all are merged by time, each in its own format. A pipe is read until its
    /// writer closes it, however long that takes
    #[arg(long = "trace", value_name = "FILE", num_args = 1..)]
    pub(super) traces: Vec<PathBuf>,
    /// The format of a log that is not recognised, in nginx's or Apache's notation
    ///
    /// As `log_format` of nginx or `LogFormat` of Apache has it, such as
    /// '$remote_addr [$time_iso8601] "$request" $status' or '%h %t "%r" %>s'
    #[arg(long, value_name = "FORMAT", hide_short_help = true)]
    log_format: Option<LogFormat>,
    /// Bits of an IPv6 address in a log that distinguish callers
    #[arg(long, value_name = "BITS", default_value = "64", value_parser = prefix, hide_short_help = true)]
    ipv6_prefix: u8,
    /// A network of proxies that name the caller in a field (may be repeated)
    ///
    /// Such as 10.0.0.0/8. The caller is the last address of the field that is not such a proxy
    #[arg(long, value_name = "NETWORK", value_parser = network, hide_short_help = true)]
    trusted_proxy: Vec<String>,
    /// The field in which trusted proxies name the caller
    #[arg(long, value_enum, value_name = "FIELD", default_value_t = ProxyHeader::XForwardedFor, hide_short_help = true)]
    pub(super) forwarded_field: ProxyHeader,
    /// Exit code 0 even if more than 1% of the lines of a trace cannot be read
    #[arg(long, hide_short_help = true)]
    pub(super) allow_unreadable: bool,
    /// Only show how this line of the trace is read, counted from 1
    #[arg(
        long,
        value_name = "NUMBER",
        requires = "traces",
        value_parser = clap::value_parser!(u64).range(1..),
        hide_short_help = true
    )]
    pub(super) explain_line: Option<u64>,
}

/// A header field of proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ProxyHeader {
    /// X-Forwarded-For
    XForwardedFor,
    /// Forwarded (RFC 7239)
    Forwarded,
}

impl ProxyHeader {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
        }
    }
}

impl TraceFlags {
    /// The traces, opened.
    pub(super) fn sources(&self) -> Result<Vec<Source>, Failure> {
        self.traces.iter().map(|path| Source::open(path).map_err(Failure::new)).collect()
    }

    /// `options` with the values of the flags.
    pub(super) fn options<'a>(&self, options: Options<'a>) -> Result<Options<'a>, Failure> {
        let client = match (self.trusted_proxy.as_slice(), self.forwarded_field) {
            // Without trusted proxies every caller could write such a field.
            ([], _) => Ok(ClientAddress::peer()),
            (proxies, ProxyHeader::XForwardedFor) => ClientAddress::x_forwarded_for(proxies),
            (proxies, ProxyHeader::Forwarded) => ClientAddress::forwarded(proxies),
        };
        let client = client.map_err(Failure::configuration)?.ipv6_bits(self.ipv6_prefix);
        let mut options = options.client(client);
        if let Some(format) = &self.log_format {
            options = options.log_format(format.clone());
        }
        Ok(options)
    }
}

fn network(text: &str) -> Result<String, String> {
    let read = ClientAddress::x_forwarded_for([text]);
    read.map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn prefix(text: &str) -> Result<u8, String> {
    let bits = text.strip_prefix('/').unwrap_or(text).parse::<u8>().ok();
    bits.filter(|bits| *bits <= 128).ok_or_else(|| "expected a number from 0 to 128".to_owned())
}
