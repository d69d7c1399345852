//! Errors of requests: `application/problem+json` (RFC 9457) with the expected text. Every handler over HTTP returns
//! an [`HttpProblem`] for a request that it cannot answer, and `routes.rs` turns it into a response. A refusal by a
//! limit is an answer and not a problem.

use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use serde::Serialize;
use tidegate::config::{ConfigError, ConfigErrors};
use tidegate::printable;

use super::message::HttpResponse;

/// The types of problems; a client may rely on their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(clap::ValueEnum))]
pub(super) enum ProblemKind {
    InvalidRequest,
    InvalidBody,
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

impl ProblemKind {
    const fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest | Self::InvalidBody | Self::InvalidQuery | Self::InvalidRules => {
                StatusCode::BAD_REQUEST
            }
            Self::Conflict | Self::SettledOtherwise => StatusCode::CONFLICT,
            Self::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
            Self::PreconditionRequired => StatusCode::PRECONDITION_REQUIRED,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden | Self::VerbForbidden | Self::RoleForbidden => StatusCode::FORBIDDEN,
            Self::NotFound | Self::UnknownReservation => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::UnknownCoding => StatusCode::NOT_IMPLEMENTED,
            Self::TooMuchUnread
            | Self::Unavailable
            | Self::TooManyReservations
            | Self::TooManyResources
            | Self::TooManyStreams => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The end of the type, and the title.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::InvalidRequest => ("invalid-request", "The head of the request is not clear"),
            Self::InvalidBody => ("invalid-body", "The body is not what is expected"),
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

/// A problem and the details of this occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HttpProblem {
    kind: ProblemKind,
    detail: String,
    position: Option<Position>,
    /// Every mistake in a configuration.
    mistakes: Option<Box<[MistakeJson]>>,
    /// Rarely present, and boxed to keep a problem small.
    field: Option<Box<(HeaderName, HeaderValue)>>,
}

/// The position in a body, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Position {
    line: usize,
    column: usize,
}

/// One mistake in a configuration; without a position it is about the whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct MistakeJson {
    #[serde(flatten)]
    position: Option<Position>,
    message: String,
}

impl MistakeJson {
    fn of(error: &ConfigError) -> Self {
        let ConfigError { line, column, .. } = *error;
        let position = (line > 0).then_some(Position { line, column });
        Self { position, message: error.message.clone() }
    }
}

/// The largest number of mistakes that a problem lists.
const MOST_MISTAKES: usize = 100;

impl HttpProblem {
    /// The header fields of every problem.
    const FIELDS: [(HeaderName, &'static str); 2] =
        [(CONTENT_TYPE, "application/problem+json"), (CACHE_CONTROL, "no-store")];

    pub(super) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into(), position: None, mistakes: None, field: None }
    }

    pub(super) const fn kind(&self) -> ProblemKind {
        self.kind
    }

    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    pub(super) const fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// Adds a header field of this kind of problem.
    pub(super) fn with(self, name: HeaderName, value: HeaderValue) -> Self {
        Self { field: Some(Box::new((name, value))), ..self }
    }

    /// The same problem with a hint after its detail.
    pub(super) fn with_hint(mut self, hint: &str) -> Self {
        self.detail = format!("{}; {hint}", self.detail);
        self
    }

    /// A body that is not the expected JSON; the text of `error` has the position.
    pub(super) fn of_json(detail: String, error: &serde_json::Error) -> Self {
        let position = Position { line: error.line(), column: error.column() };
        Self {
            position: (position.line > 0).then_some(position),
            ..Self::new(ProblemKind::InvalidBody, detail)
        }
    }

    /// A configuration with these errors, at the place of the first.
    pub(super) fn of_configuration(errors: &ConfigErrors) -> Self {
        let mistakes: Box<[_]> = errors.iter().take(MOST_MISTAKES).map(MistakeJson::of).collect();
        let first = mistakes.first();
        let detail = match errors.iter().count() {
            1 => first.map_or_else(String::new, |first| first.message.clone()),
            all => format!("{all} mistakes; `mistakes` lists the first {MOST_MISTAKES} of them"),
        };
        Self {
            position: first.and_then(|first| first.position),
            mistakes: Some(mistakes),
            ..Self::new(ProblemKind::InvalidRules, detail)
        }
    }

    /// A request whose handler panicked; the panic itself has been logged.
    pub(super) fn panicked() -> Self {
        let detail = "the request met a defect of the server, which has logged it; others go on";
        Self::new(ProblemKind::Internal, detail)
    }

    /// The response with this problem.
    pub(super) fn into_response(self) -> HttpResponse {
        let mut response = HttpResponse::new(self.document().into());
        *response.status_mut() = self.status();
        let fields = Self::FIELDS.map(|(name, value)| (name, HeaderValue::from_static(value)));
        response.headers_mut().extend(fields.into_iter().chain(self.field.map(|field| *field)));
        response
    }

    /// The body of that response.
    pub(super) fn document(&self) -> Vec<u8> {
        let (name, title) = self.kind.names();
        let document = ProblemJson {
            r#type: format!("urn:problem-type:tidegate:{name}"),
            title,
            status: self.status().as_u16(),
            detail: &self.detail,
            position: self.position,
            mistakes: self.mistakes.as_deref(),
        };
        // Texts and numbers always serialize. A detail may repeat bytes of a caller, so `printable` escapes control
        // characters.
        let text = serde_json::to_string(&document).unwrap_or_default();
        printable::json(&text).into_owned().into_bytes()
    }
}

/// The document of a problem.
#[derive(Serialize)]
struct ProblemJson<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(flatten)]
    position: Option<Position>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mistakes: Option<&'a [MistakeJson]>,
}
