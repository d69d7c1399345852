//! The paths of requests over HTTP. `table.rs` gives each its methods, its verb or role, and its handler.

pub(super) const CHECK: &str = "/v1/check";
pub(super) const PEEK: &str = "/v1/peek";
pub(super) const RESERVE: &str = "/v1/reserve";
pub(super) const SETTLE: &str = "/v1/settle";
pub(super) const RENEW: &str = "/v1/renew";
pub(super) const RESERVATIONS: &str = "/v1/reservations";
pub(super) const DROP: &str = "/v1/drop";
pub(super) const RESET: &str = "/v1/reset";
pub(super) const REFUND: &str = "/v1/refund";
pub(super) const RULES: &str = "/v1/rules";
pub(super) const REPORT: &str = "/v1/report";
pub(super) const STATS: &str = "/v1/stats";
pub(super) const STATS_EVENTS: &str = "/v1/stats/events";
pub(super) const DECISIONS: &str = "/v1/decisions";
pub(super) const TOP: &str = "/v1/top";
pub(super) const RECORDED: &str = "/v1/recorded";
pub(super) const METRICS: &str = "/metrics";
pub(super) const HEALTH: &str = "/healthz";
pub(super) const OPENAPI: &str = "/openapi.json";
