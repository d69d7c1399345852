//! A row of the table of paths: a path with its method, its handler, and the clients that may use it. `routes.rs` has
//! all rows, and looks each request up there.

use std::pin::Pin;
use std::sync::Arc;

use hyper::Method;

use super::app::App;
use super::message::{HttpRequest, HttpResponse};
use crate::audit::Changer;
use crate::configuration::Configuration;
use crate::limiters::RequestVerb;
use crate::listener::Role;
use crate::refusal::{RefusalKind, RequestRefusal};
use crate::verbs::{PublicVerb, PublicVerbs};

/// A request that was let in, as its handler gets it.
pub(super) struct AdmittedRequest<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) request: HttpRequest,
    pub(super) by: Changer,
    /// The verbs of a client at the public listener.
    pub(super) verbs: PublicVerbs,
    /// The configuration that the admin listener shows and changes.
    pub(super) configuration: Option<&'a Arc<Configuration>>,
}

impl AdmittedRequest<'_> {
    pub(super) fn query(&self) -> Option<&str> {
        self.request.uri().query()
    }

    pub(super) const fn role(&self) -> Role {
        match &self.by {
            Changer::Operator(who) => who.role,
            Changer::Client { .. } => Role::Read,
        }
    }

    /// The configuration, for a handler that the table has at the admin listener alone.
    pub(super) fn configuration(&self) -> Result<Arc<Configuration>, RequestRefusal> {
        self.configuration
            .cloned()
            .ok_or_else(|| at_other_listener(&self.request, "the admin listener"))
    }
}

/// The future of a handler. It is boxed, because the future of a check would be as large as the largest of them.
pub(super) type Answering<'a> =
    Pin<Box<dyn Future<Output = Result<HttpResponse, RequestRefusal>> + Send + 'a>>;

/// A function that answers the requests of a row.
pub(super) type HandlerFn = fn(AdmittedRequest<'_>) -> Answering<'_>;

/// The handler of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowHandler {
    Decide(RequestVerb),
    Call(HandlerFn),
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
    /// Every client of both listeners, before it is asked for a token.
    Open,
}

impl PublicUse {
    /// Returns whether a client with these verbs may use the row.
    pub(super) fn admits(self, verbs: PublicVerbs) -> bool {
        match self {
            Self::Never => false,
            Self::Granted(verb) => verbs.has(verb),
            Self::Always | Self::Open => true,
        }
    }
}

/// One path with one method.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) path: &'static str,
    pub(super) method: Method,
    pub(super) handler: RowHandler,
    pub(super) public: PublicUse,
    /// The lowest role that may use it at the admin listener; `None` if it is not answered there.
    pub(super) admin: Option<Role>,
}

impl Row {
    /// A row that grants its path at neither listener until [`Self::public`], [`Self::usable`] or [`Self::admin`] says
    /// so.
    pub(super) const fn new(path: &'static str, method: Method, handler: RowHandler) -> Self {
        Self { path, method, handler, public: PublicUse::Never, admin: None }
    }

    pub(super) const fn public(self, verb: PublicVerb) -> Self {
        self.usable(PublicUse::Granted(verb))
    }

    pub(super) const fn usable(mut self, public: PublicUse) -> Self {
        self.public = public;
        self
    }

    pub(super) const fn admin(mut self, role: Role) -> Self {
        self.admin = Some(role);
        self
    }

    /// Returns whether a request with this method is answered; HEAD is as GET.
    pub(super) fn takes(&self, method: &Method) -> bool {
        self.method == *method || self.method == Method::GET && *method == Method::HEAD
    }

    /// Returns whether it is answered to every client of both listeners.
    pub(super) fn is_open(&self) -> bool {
        self.public == PublicUse::Open
    }

    /// Returns whether its verb undoes limits.
    pub(super) const fn undoes(&self) -> bool {
        matches!(self.public, PublicUse::Granted(PublicVerb::Refund | PublicVerb::Reset))
    }
}

/// The problem of a path that only the other listener answers.
pub(super) fn at_other_listener(request: &HttpRequest, listener: &str) -> RequestRefusal {
    let path = request.uri().path();
    RefusalKind::NotFound.because(format!("{path} is answered on {listener}, at its own port"))
}
