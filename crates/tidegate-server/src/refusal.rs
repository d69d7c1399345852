//! The refusal of a request, as every listener reports it: its kind, the mistake, and the expected text. One table has
//! the status that a kind has over HTTP and over gRPC; `http/problem.rs`, `grpc/reply.rs` and `resp/reply.rs` write
//! refusals. A refusal by a limit is an answer, and not a refusal.

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER};
use serde::Serialize;
use tidegate::config::{ConfigError, ConfigErrors};
use tonic::Code;

/// The kinds of refusals. Over HTTP they are types of problems, and a client may rely on their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(clap::ValueEnum))]
pub(crate) enum RefusalKind {
    InvalidRequest,
    InvalidBody,
    /// A message that is well formed and asks for something impossible.
    InvalidQuestion,
    /// A limit of a descriptor that cannot be.
    InvalidLimit,
    /// A body that broke off.
    BrokenBody,
    /// A body that is not one message of gRPC.
    InvalidFrame,
    UnsupportedMediaType,
    BodyTooLarge,
    HeadTooLarge,
    BodyTimeout,
    Unauthorized,
    Forbidden,
    VerbForbidden,
    RoleForbidden,
    NotFound,
    MethodNotAllowed,
    InvalidQuery,
    InvalidRules,
    Conflict,
    PreconditionFailed,
    PreconditionRequired,
    UnknownCoding,
    TooMuchUnread,
    Internal,
    Unavailable,
    UnknownReservation,
    SettledOtherwise,
    TooManyReservations,
    TooManyResources,
    TooManyStreams,
}

/// The kinds of warnings about requests that are not understood, or find no space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarningKind {
    /// A message or a body that is none of the protocol.
    Message,
    /// A question that no server could answer.
    Question,
    /// A limit of a descriptor that cannot be.
    Limit,
    /// More bytes than are taken, or than there is space for.
    Size,
    /// A message that did not arrive in full.
    Incomplete,
    /// A defect of the server.
    Defect,
}

impl RefusalKind {
    /// The refusal of this kind, with the mistake and the expected text.
    pub(crate) fn because(self, detail: impl Into<String>) -> RequestRefusal {
        let detail = detail.into();
        RequestRefusal { kind: self, detail, position: None, mistakes: None, field: None }
    }

    /// The status over HTTP, and the code over gRPC.
    const fn statuses(self) -> (u16, Code) {
        match self {
            Self::InvalidRequest
            | Self::InvalidBody
            | Self::InvalidQuestion
            | Self::InvalidLimit
            | Self::InvalidQuery
            | Self::InvalidRules => (400, Code::InvalidArgument),
            // A client that leaves has cancelled its call.
            Self::BrokenBody => (400, Code::Cancelled),
            Self::InvalidFrame => (400, Code::Internal),
            Self::Unauthorized => (401, Code::Unauthenticated),
            Self::Forbidden | Self::VerbForbidden | Self::RoleForbidden => {
                (403, Code::PermissionDenied)
            }
            // A path that is not there is a method of gRPC that is not known.
            Self::NotFound => (404, Code::Unimplemented),
            Self::UnknownReservation => (404, Code::NotFound),
            Self::MethodNotAllowed => (405, Code::Unimplemented),
            Self::BodyTimeout => (408, Code::DeadlineExceeded),
            Self::Conflict | Self::SettledOtherwise => (409, Code::Aborted),
            Self::PreconditionFailed => (412, Code::FailedPrecondition),
            Self::BodyTooLarge => (413, Code::ResourceExhausted),
            Self::UnsupportedMediaType => (415, Code::InvalidArgument),
            Self::PreconditionRequired => (428, Code::FailedPrecondition),
            Self::HeadTooLarge => (431, Code::ResourceExhausted),
            Self::Internal => (500, Code::Internal),
            // gRPC defines this code for an encoding that a server does not know.
            Self::UnknownCoding => (501, Code::Unimplemented),
            Self::TooMuchUnread
            | Self::TooManyReservations
            | Self::TooManyResources
            // Space that other clients may free: the same request may be taken later.
            | Self::TooManyStreams => (503, Code::ResourceExhausted),
            Self::Unavailable => (503, Code::Unavailable),
        }
    }

    /// The first word of an error over RESP.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::VerbForbidden => "NOPERM",
            Self::Unauthorized => "NOAUTH",
            _ => "ERR",
        }
    }

    /// The kind of the warning if a request for a decision is refused; `None` if its sender has made no mistake.
    pub(crate) const fn warning(self) -> Option<WarningKind> {
        Some(match self {
            Self::InvalidBody | Self::UnsupportedMediaType => WarningKind::Message,
            Self::InvalidQuestion => WarningKind::Question,
            Self::InvalidLimit => WarningKind::Limit,
            // Clients that read too slowly look alike to an operator as clients that send too much.
            Self::BodyTooLarge | Self::TooMuchUnread => WarningKind::Size,
            Self::BrokenBody | Self::BodyTimeout | Self::InvalidFrame | Self::UnknownCoding => {
                WarningKind::Incomplete
            }
            Self::Internal => WarningKind::Defect,
            // The store, a right or the state of the server is at fault.
            _ => return None,
        })
    }

    /// The end of the type, and the title.
    pub(crate) const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::InvalidRequest => ("invalid-request", "The head of the request is not clear"),
            Self::InvalidBody
            | Self::InvalidQuestion
            | Self::InvalidLimit
            | Self::BrokenBody
            | Self::InvalidFrame => ("invalid-body", "The body is not what is expected"),
            Self::UnsupportedMediaType => {
                ("unsupported-media-type", "The body is not declared as what is expected")
            }
            Self::BodyTooLarge => ("body-too-large", "The body is too large"),
            Self::HeadTooLarge => ("head-too-large", "The head of the request is too large"),
            Self::BodyTimeout => ("body-timeout", "The body did not come in time"),
            Self::Unauthorized => ("unauthorized", "The request does not show that it may ask"),
            Self::Forbidden => ("forbidden", "This may not be asked from there"),
            Self::VerbForbidden => ("verb-forbidden", "The listener does not take this verb"),
            Self::RoleForbidden => ("role-forbidden", "The operator may only read"),
            Self::NotFound => ("not-found", "There is nothing at this path"),
            Self::MethodNotAllowed => ("method-not-allowed", "The path does not take this method"),
            Self::InvalidQuery => {
                ("invalid-query", "The query of the path is not what is expected")
            }
            Self::InvalidRules => ("invalid-rules", "The configuration cannot be put in force"),
            Self::Conflict => ("conflict", "The file of the configuration cannot be changed"),
            Self::PreconditionFailed => ("stale", "Another configuration is in force"),
            Self::PreconditionRequired => {
                ("precondition-required", "The change does not say what it changes")
            }
            Self::UnknownCoding => ("unknown-coding", "The body is in a coding that is not known"),
            Self::TooMuchUnread => {
                ("too-much-unread", "Too much is asked or answered and not read")
            }
            Self::Internal => ("internal", "The server failed"),
            Self::Unavailable => ("unavailable", "No decision can be taken"),
            Self::UnknownReservation => ("unknown-reservation", "The reservation is not known"),
            Self::SettledOtherwise => {
                ("settled-otherwise", "The reservation was settled for another cost")
            }
            Self::TooManyReservations => {
                ("too-many-reservations", "There is no room for one more reservation")
            }
            Self::TooManyResources => ("too-many-resources", "There is no room for this report"),
            Self::TooManyStreams => ("too-many-streams", "There is no room for one more stream"),
        }
    }
}

/// A refusal, with the details of this occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestRefusal {
    pub(crate) kind: RefusalKind,
    /// The mistake, and what was expected.
    pub(crate) detail: String,
    pub(crate) position: Option<Position>,
    /// Every mistake in a configuration.
    pub(crate) mistakes: Option<Box<[PlacedMistake]>>,
    /// A header field over HTTP. Rarely present, and boxed to keep a refusal small.
    pub(crate) field: Option<Box<(HeaderName, HeaderValue)>>,
}

/// The position in a body, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Position {
    line: usize,
    column: usize,
}

/// One mistake in a configuration; without a position it is about the whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PlacedMistake {
    #[serde(flatten)]
    position: Option<Position>,
    message: String,
}

impl PlacedMistake {
    fn of(error: &ConfigError) -> Self {
        let ConfigError { line, column, .. } = *error;
        let position = (line > 0).then_some(Position { line, column });
        Self { position, message: error.message.clone() }
    }
}

/// The largest number of mistakes that a problem lists.
const MOST_MISTAKES: usize = 100;

impl RequestRefusal {
    /// No decision can be taken, or no change be made.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Self {
        RefusalKind::Unavailable.because(detail)
    }

    pub(crate) fn status(&self) -> StatusCode {
        // Each number of the table is a status.
        StatusCode::from_u16(self.kind.statuses().0).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(crate) const fn code(&self) -> Code {
        self.kind.statuses().1
    }

    /// Adds a header field.
    pub(crate) fn with(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { field: Some(Box::new((name, value))), ..self }
    }

    /// Tells the client that it may repeat the request soon.
    pub(crate) fn repeatable(self) -> Self {
        self.with(RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// The same refusal with a hint after its detail.
    pub(crate) fn with_hint(mut self, hint: &str) -> Self {
        self.detail = format!("{}; {hint}", self.detail);
        self
    }

    /// A body that is not the expected JSON; the text of `error` has the position.
    pub(crate) fn of_json(detail: String, error: &serde_json::Error) -> Self {
        let position = Position { line: error.line(), column: error.column() };
        Self {
            position: (position.line > 0).then_some(position),
            ..RefusalKind::InvalidBody.because(detail)
        }
    }

    /// A configuration with these errors, at the place of the first.
    pub(crate) fn of_configuration(errors: &ConfigErrors) -> Self {
        let mistakes: Box<[_]> = errors.iter().take(MOST_MISTAKES).map(PlacedMistake::of).collect();
        let first = mistakes.first();
        let detail = match errors.iter().count() {
            1 => first.map_or_else(String::new, |first| first.message.clone()),
            all => format!("{all} mistakes; `mistakes` lists the first {MOST_MISTAKES} of them"),
        };
        Self {
            position: first.and_then(|first| first.position),
            mistakes: Some(mistakes),
            ..RefusalKind::InvalidRules.because(detail)
        }
    }

    /// A request whose handler panicked; the panic itself has been logged.
    pub(crate) fn panicked() -> Self {
        let detail = "the request met a defect of the server, which has logged it; others go on";
        RefusalKind::Internal.because(detail)
    }
}
