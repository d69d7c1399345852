//! Rules from TOML: a file becomes a [`Policy`](crate::Policy), or a list of every error in it with its position.
//!
//! ```toml
//! revision = 7                      # larger with each change, where nodes share a store
//!
//! [[rule]]
//! name = "pay-channel"              # a-z 0-9 . _ - ; with the domain, the identity of the state
//! domain = "pay"                    # "default" unless said
//! when = { biz_type = "transfer" }  # entries with these values; "api/*" matches a prefix
//! key = ["channel"]                 # one limiter for each value; one for all unless said
//! algorithm = "sliding_log"         # any of `AlgorithmKind::ALL`, or "gcra"
//! limit = 100                       # -1 unlimited, 0 nothing
//! window = "1s"                     # us, ms, s, m, h, d
//! # or both in one: rate = "100/s"
//! # where the algorithm has them:
//! #   buckets, strict, anchor, capacity, initial, resolution, max_debt, max_memory (bytes, or "64MiB"),
//! #   layout (in a store: "string", or "sorted_set")
//! # mode = "enforce" | "shadow" | "off"; match = "subset" | "exact"
//! # max_keys = 1_000_000           # limiters kept at once; and for a key beyond them:
//! # on_full = "share"              # one limiter with all others beyond, or "refuse"
//! # on_excess = "reject"           # or first come, first served, for so long, so many per limiter:
//! # on_excess = { wait = "2s", max_waiters = 100 }
//! # usage = "requested"            # or "reported": taken afterwards, whatever the limiter holds
//! # on_store_error = "local"        # while a shared store is unavailable: or "open", or "closed"
//! # dedupe = "10s"                  # for so long a request is answered the same again under its id
//! # max_life = "10m"                # the longest life of a reservation over the network
//! # hash_tag = "channel"            # the entry that alone chooses the slot of a cluster
//! # across_slots = true             # or: taken slot by slot, and given back when one refuses
//! # limit_from_request = true       # a limit that a request brings holds in place of these
//! # near = 0.8                      # marks answers from this part of the limit on
//! # hide_keys = true                # reports for operators show fingerprints of keys
//!
//! [[rule.override]]                 # the first that matches holds
//! match = { channel = "alipay" }    # entries of `key` with these very values
//! limit = 500                       # and window, capacity or rate
//!
//! # before all: reset = "seconds"    # what X-RateLimit-Reset contains, or "unix"
//! # on_no_rule = "admit"            # a request that no rule matches, or "refuse"; or by domain:
//! # on_no_rule = { pay = "refuse", "*" = "admit" }
//!
//! [memory]
//! max_keys = 2_000_000              # limiters of all rules together, besides the cap of each
//!
//! # Limiters that many nodes share; without it, and in a replay, they live in the process:
//! # [store]
//! # url = "redis://10.0.0.7:6379"   # rediss:// with TLS, redis+sentinel://, redis+cluster://, unix://
//! # username = "tidegate"           # or in the URL; the password by the name of an environment
//! # password_env = "REDIS_PASSWORD" # variable, or of a file: password_file = "/run/secrets/redis"
//! # sentinel_username = "watcher"   # Sentinel's own; sentinel_password_env, sentinel_password_file
//! # tls_roots = "/etc/ssl/own.pem"  # to trust in place of the system's
//! # tls_cert = "/etc/ssl/node.pem"  # shown to the servers, with tls_key = "/etc/ssl/node.key"
//! # timeout = "10ms"                # for one decision; then on_store_error decides
//! # key_prefix = "tidegate:"
//! # max_in_flight = 4096
//! # nodes = 3                       # without it each decides by a third; else by those seen there
//! # denial_memory = false           # true: what the store denied is denied here again, up to 50 ms
//! ```
//!
//! A rule needs `name`, and either `rate` or `limit` with `window` (a `limit` of -1 or 0 needs no window); without
//! `algorithm` it is a token bucket. A [`Gate`](crate::Gate) ignores `[store]`, which [`Policy::store`](crate::Policy::store) returns for a
//! `SharedGate`. Nothing is guessed: a field that is unknown, given twice, of the wrong kind
//! or out of range is refused, and so is a file without a rule, because it would silently admit
//! everything.
//!
//! ```
//! let policy = tidegate::config::parse(
//!     "rules.toml",
//!     r#"
//!     [[rule]]
//!     name = "per-user"
//!     key = ["user"]
//!     algorithm = "token_bucket"
//!     rate = "200/60s"
//!     "#,
//! )?;
//! assert_eq!(policy.rules()[0].name(), "per-user");
//!
//! let mistakes = tidegate::config::parse("rules.toml", "[[rule]]\nlimt = 100\n").unwrap_err();
//! let first = mistakes.iter().last().map(ToString::to_string).unwrap_or_default();
//! assert_eq!(
//!     first,
//!     "rules.toml:2:1: unknown field `limt`: did you mean `limit`?\n  2 | limt = 100\n    | ^^^^"
//! );
//! # Ok::<(), tidegate::config::ConfigErrors>(())
//! ```

#[doc(inline)]
pub use tidegate_config::{
    ConfigError, ConfigErrors, Section, SectionKind, SectionValues, ValueError, load, load_with,
    parse, parse_duration, parse_rate, parse_size, parse_with, read_text,
};
#[doc(hidden)]
pub use tidegate_config::{
    FieldKinds, HIDDEN, ValueKind, kinds, nearest_word, shown, without_credentials,
};
