//! Request traces: callers, keys and times of requests, read from a file and sorted by time.
//!
//! A trace is read by [`read`] from a [`Source`] (a file, standard input or any reader; plain, gzip or zstd), or by
//! [`read_all`] from several, and comes out as [`Sorted`], which returns [`Event`]s in order of time, a [`Batch`] at a
//! time. The format is recognised by its content, never by the name of the file:
//!
//! **NDJSON**, one object per line. `domain` (`"default"`), `cost` (1) and `request_id` (none) may be
//! left out; the order of the descriptor's entries is kept, and its values are strings.
//!
//! ```json
//! {"at_us": 100000, "domain": "shop", "descriptor": {"key": "a"}, "cost": 1, "request_id": "7"}
//! ```
//!
//! A request with several descriptors has a list in place of `descriptor`. An item may have a cost, in place of the
//! cost of the line, and a limit that the request supplied (-1 for none, without a window). `allowed`, which any line may
//! have, is what was decided when it was recorded.
//!
//! ```json
//! {"at_us": 100000, "descriptors": [{"descriptor": {"key": "a"}}, {"descriptor": {"key": "b"}, "cost": 2,
//!  "limit": 30, "window_us": 60000000}], "allowed": true}
//! ```
//!
//! **Access log**, in common, combined or vhost_combined format. The descriptor has the entries `ip`, `method`,
//! `path`, `status` and, in combined format, `user_agent`, in this order.
//!
//! ```text
//! 192.0.2.7 - - [17/May/2015:10:05:03 +0000] "GET /shop?page=2 HTTP/1.1" 200 5120 "-" "curl/8"
//! ```
//!
//! **Other logs** have as many of these entries as the log has: JSON as Caddy, Traefik, Envoy and nginx write it,
//! HAProxy's and Envoy's lines, AWS load balancers' logs, and the logs of IIS and CloudFront, whose columns a line
//! `#Fields` names. For all others a [`LogFormat`] says how a line is read.
//!
//! * The client is an address, the name of a host with a dot, or `localhost`; a line with another client cannot be
//!   read. `ip` is the address as [`ClientAddress`](tidegate::ClientAddress) writes it for the layer: IPv6 by its
//!   network, without a port. It trusts the proxies that [`Options::client`] names. A log without the connection's
//!   peer, such as Envoy's, has it as the last entry of `X-Forwarded-For`.
//! * What container runtimes, syslog, docker compose and kubectl write before a line is dropped, and so is a JSON
//!   object around it, such as Docker's.
//! * `path` is the path of the request target as written, up to the first `?`: a query string would make
//!   nearly every request a path of its own.
//! * A request that is not `METHOD target [protocol]`, such as `-` or the first bytes of a TLS
//!   handshake sent to a plain port, has the method `-` and the text of the request as its path.
//! * `\"` in a quoted field is read as `"`. Every other escape (`\x16`, `\\`) stays as written,
//!   and a byte that is not UTF-8 is written the same way, so that two values which differ in
//!   the log differ in the trace.
//! * A leap second (`:60`) counts as the second before it. A time without a zone is in UTC.
//! * Text after the user agent (a duration) is ignored, but for a field of proxies.
//!
//! The first good line decides the format of the whole source. Blank lines are skipped, lines may
//! end in CRLF, and a byte order mark at the start is ignored. A line that cannot be read is
//! counted and named in [`BadLines`] and costs no other line; a trace in which *no* line can be
//! read is an error, an empty trace is not.
//!
//! Compressed data that ends in the middle or is corrupt is a bad line too, reported with its position:
//! every line before it counts, and the line that was cut in two does not, even if its beginning
//! reads like a shorter line. A source that fails (a disk, a network) is an error instead, which
//! says how many lines had been read: another attempt may give the rest, and half a trace is
//! another trace.
//!
//! # Memory
//!
//! Logs are rarely in exact order, so events are sorted by time, and events of one time keep the
//! order of the input. Beyond [`Options::memory_budget_bytes`] sorted runs go to temporary files,
//! which have no name in the file system and so vanish even if the process is killed.
//!
//! # Example
//!
//! ```
//! use tidegate_lab::trace::{self, Options, Source};
//!
//! let text = "{\"at_us\": 20, \"descriptor\": {\"key\": \"b\"}}\n\
//!             {\"at_us\": 10, \"descriptor\": {\"key\": \"a\"}, \"cost\": 3}\n\
//!             {\"at_us\": -1, \"descriptor\": {}}\n";
//! let mut sorted = trace::read(Source::from_reader("example", text.as_bytes()), Options::new())?;
//! assert_eq!(sorted.events(), 2);
//! assert_eq!(sorted.bad_lines().first[0].line_number, 3);
//! while let Some(batch) = sorted.next_batch()? {
//!     let times: Vec<u64> = batch.events().map(|e| Ok(e?.at_us)).collect::<Result<_, trace::TraceError>>()?;
//!     assert_eq!(times, [10, 20]);
//! }
//! # Ok::<(), trace::TraceError>(())
//! ```

mod access_log;
mod access_time;
mod bad_lines;
mod batch;
mod buffer;
pub mod builtin;
mod clients;
mod columns;
mod damage;
mod error;
mod event;
mod explained;
mod format;
mod gzip;
mod json_descriptor;
mod json_log;
mod known;
mod line_parser;
mod lines;
mod logged;
mod merge;
mod ndjson;
mod notation;
mod options;
mod piece;
mod prefix;
mod read;
mod record;
mod run;
mod sort;
mod sorted;
mod source;
mod template;
mod times;
mod zstd;

pub use bad_lines::{BadLine, BadLines};
pub use batch::Batch;
pub use error::TraceError;
pub use event::{AT_US_MAX, COST_MAX, DEFAULT_DOMAIN, Event, FurtherDescriptor, SuppliedLimit};
pub use explained::Explained;
pub use json_descriptor::JsonDescriptor;
pub use notation::{LogFormat, LogFormatError};
pub use options::{Options, Progress};
pub use read::{explain, read, read_all};
pub use sorted::{Sorted, SourceSummary};
pub use source::Source;
