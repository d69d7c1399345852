//! Every path of both listeners, with its methods, its action, and the clients that may use it. `routes.rs` looks
//! each request up here.
//!
//! A request that is not listed here is not answered, so a new path has to say who may ask it.

use hyper::Method;

use super::paths::{
    CHECK, DECISIONS, DROP, HEALTH, METRICS, OPENAPI, PEEK, RECORDED, REFUND, RENEW, REPORT,
    RESERVATIONS, RESERVE, RESET, RULES, SETTLE, STATS, STATS_EVENTS, TOP,
};
use crate::listener::Role;
use crate::verbs::{PublicVerb, PublicVerbs};

/// The action for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Health,
    Check,
    Peek,
    Reserve,
    Settle,
    Renew,
    Reservations,
    Drop,
    Refund,
    Reset,
    Rules,
    PutRules,
    Report,
    Metrics,
    Stats,
    StatsEvents,
    Top,
    Decisions,
    Recorded,
    OpenApi,
}

/// The clients of the public listener that may use a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PublicUse {
    /// None: it is not answered there.
    Never,
    /// The clients that are granted the verb.
    Granted(PublicVerb),
    /// Every client that may ask for anything.
    Always,
}

impl PublicUse {
    /// Returns whether a client with these verbs may use the row.
    pub(super) fn admits(self, verbs: PublicVerbs) -> bool {
        match self {
            Self::Never => false,
            Self::Granted(verb) => verbs.has(verb),
            Self::Always => true,
        }
    }
}

/// One path with one method.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) path: &'static str,
    pub(super) method: Method,
    pub(super) action: Action,
    pub(super) public: PublicUse,
    /// The lowest role that may use it at the admin listener; `None` if it is not answered there.
    pub(super) admin: Option<Role>,
}

impl Row {
    /// Returns whether a request with this method is answered; HEAD is as GET.
    pub(super) fn takes(&self, method: &Method) -> bool {
        self.method == *method || self.method == Method::GET && *method == Method::HEAD
    }
}

/// A row that grants its path at neither listener until [`Row::public()`], [`Row::always()`] or [`Row::admin()`] says so. Health stays such a
/// row: `routes.rs` answers it to every client at both listeners, before it asks for a token.
const fn row(path: &'static str, method: Method, action: Action) -> Row {
    Row { path, method, action, public: PublicUse::Never, admin: None }
}

impl Row {
    const fn public(mut self, verb: PublicVerb) -> Self {
        self.public = PublicUse::Granted(verb);
        self
    }

    const fn always(mut self) -> Self {
        self.public = PublicUse::Always;
        self
    }

    const fn admin(mut self, role: Role) -> Self {
        self.admin = Some(role);
        self
    }
}

/// All rows; rows of one path are next to each other.
pub(super) static ROWS: [Row; 20] = [
    row(CHECK, Method::POST, Action::Check).public(PublicVerb::Check),
    row(PEEK, Method::POST, Action::Peek).public(PublicVerb::Peek).admin(Role::Read),
    row(RESERVE, Method::POST, Action::Reserve).public(PublicVerb::Reserve),
    row(SETTLE, Method::POST, Action::Settle).public(PublicVerb::Settle).admin(Role::Change),
    // A client that may settle a reservation may renew it.
    row(RENEW, Method::POST, Action::Renew).public(PublicVerb::Settle).admin(Role::Change),
    row(RESERVATIONS, Method::GET, Action::Reservations).admin(Role::Read),
    row(DROP, Method::POST, Action::Drop).admin(Role::Change),
    row(REFUND, Method::POST, Action::Refund).public(PublicVerb::Refund).admin(Role::Change),
    row(RESET, Method::POST, Action::Reset).public(PublicVerb::Reset).admin(Role::Change),
    row(REPORT, Method::POST, Action::Report).public(PublicVerb::Report).admin(Role::Change),
    row(RULES, Method::GET, Action::Rules).admin(Role::Read),
    row(RULES, Method::PUT, Action::PutRules).admin(Role::Change),
    row(METRICS, Method::GET, Action::Metrics).admin(Role::Read),
    row(STATS, Method::GET, Action::Stats).admin(Role::Read),
    row(STATS_EVENTS, Method::GET, Action::StatsEvents).admin(Role::Read),
    row(TOP, Method::GET, Action::Top).admin(Role::Read),
    row(DECISIONS, Method::GET, Action::Decisions).admin(Role::Read),
    row(RECORDED, Method::GET, Action::Recorded).admin(Role::Read),
    row(HEALTH, Method::GET, Action::Health),
    // Not before the token, as health is: a stranger learns of no path. It needs no verb, because it has only the paths
    // that its reader may use.
    row(OPENAPI, Method::GET, Action::OpenApi).always().admin(Role::Read),
];
