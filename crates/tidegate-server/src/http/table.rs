//! Every path of both listeners, with its methods, its action, and the clients that may use it. `routes.rs` looks
//! each request up here.
//!
//! A request that is not listed here is not answered, so a new path has to say who may ask it.

use hyper::Method;

use super::paths::{
    CHECK, DECISIONS, DROP, HEALTH, METRICS, PEEK, RECORDED, REFUND, RENEW, REPORT, RESERVATIONS,
    RESERVE, RESET, RULES, SETTLE, STATS, STATS_EVENTS, TOP,
};
use crate::listener::Role;
use crate::verbs::PublicVerb;

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
}

/// One path with one method.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) path: &'static str,
    pub(super) method: Method,
    pub(super) action: Action,
    /// The verb that grants it at the public listener; `None` if it is not answered there.
    pub(super) public: Option<PublicVerb>,
    /// The lowest role that may use it at the admin listener; `None` if it is not answered there.
    pub(super) admin: Option<Role>,
}

impl Row {
    /// Returns whether a request with this method is answered; HEAD is as GET.
    pub(super) fn takes(&self, method: &Method) -> bool {
        self.method == *method || self.method == Method::GET && *method == Method::HEAD
    }
}

/// A row that grants its path at neither listener until [`Row::public()`] or [`Row::admin()`] says so. Health stays such a
/// row: `routes.rs` answers it to every client at both listeners, before it asks for a token.
const fn row(path: &'static str, method: Method, action: Action) -> Row {
    Row { path, method, action, public: None, admin: None }
}

impl Row {
    const fn public(mut self, verb: PublicVerb) -> Self {
        self.public = Some(verb);
        self
    }

    const fn admin(mut self, role: Role) -> Self {
        self.admin = Some(role);
        self
    }
}

/// All rows; rows of one path are next to each other.
pub(super) static ROWS: [Row; 19] = [
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
];
