//! The common parts of commands against a running server: its address, the token, and what its answers mean. Each
//! command is a file of this folder with its arguments and `run`; it asks through a [`ListenerClient`].

pub(super) mod peek;
pub(super) mod recorded;
pub(super) mod reservations;
pub(super) mod reset;
pub(super) mod rules;
pub(super) mod stats;
pub(super) mod tail;
pub(super) mod top;

mod columns;
mod entries;
mod events;
mod http_client;
mod in_force;
mod live;
mod page;
mod rates;
mod server_url;
mod tables;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use serde_json::Value;
use tidegate::printable;
use tokio::runtime::Builder;

use super::guard::{OPERATOR_TOKEN, file, of_variable, read_tokens};
use crate::failure::Failure;
use crate::stdout;
use http_client::HttpClient;
use server_url::ServerUrl;

/// The prefix of the types of Tidegate's problems. It tells its answers from answers of other servers.
const PROBLEM: &str = "urn:problem-type:tidegate:";

/// The admin listener of a server, and how to reach it.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct AdminFlags {
    /// The admin listener of the server
    #[arg(long, value_name = "URL", env = "TIDEGATE_ADMIN_URL", default_value = "http://127.0.0.1:8082", value_parser = server_url::parse)]
    admin: ServerUrl,

    #[command(flatten)]
    access: AccessFlags,
}

/// The token and the authorities with which an admin listener is asked.
#[derive(Debug, clap::Args)]
#[group(skip)]
struct AccessFlags {
    /// A file with a token of the admin listener; or TIDEGATE_OPERATOR_TOKEN, the token itself
    #[arg(long, value_name = "FILE", env = "TIDEGATE_OPERATOR_TOKEN_FILE", value_parser = file())]
    token_file: Option<PathBuf>,

    /// Authorities of an https:// server in place of the system's, PEM
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_ROOTS", value_parser = file())]
    tls_roots: Option<PathBuf>,
}

impl AdminFlags {
    fn listener(&self) -> Result<ListenerClient, Failure> {
        self.access.listener(&self.admin, "--admin URL or TIDEGATE_ADMIN_URL")
    }
}

impl AccessFlags {
    /// The admin listener at `url`, which `flag` names.
    fn listener(&self, url: &ServerUrl, flag: &'static str) -> Result<ListenerClient, Failure> {
        Ok(ListenerClient {
            connection: HttpClient::new(url, self.tls_roots.as_deref())?,
            token: token(self.token_file.as_deref(), OPERATOR_TOKEN)?,
            kind: "the admin listener",
            flag,
            variable: OPERATOR_TOKEN,
        })
    }
}

/// The output of a command that asks a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OutputFormat {
    /// For people
    Text,
    /// The JSON of the server as it is
    Json,
}

/// A listener of a server, as its client sees it.
struct ListenerClient {
    connection: HttpClient,
    token: Option<HeaderValue>,
    /// The expected value.
    kind: &'static str,
    /// The flag or variable that names it.
    flag: &'static str,
    /// The places where its token may be.
    variable: &'static str,
}

/// An answer or an event in JSON.
struct JsonAnswer {
    /// As it is printed.
    text: String,
    json: Value,
    /// True if the status is 503: no store decided, and a rule is closed then.
    is_unavailable: bool,
}

impl JsonAnswer {
    fn read(text: &str) -> Option<Self> {
        let json = serde_json::from_str(text).ok()?;
        Some(Self { text: printable::json(text).into_owned(), json, is_unavailable: false })
    }

    /// The JSON as it is, or the text that a person reads.
    fn shown(&self, format: OutputFormat, text: impl FnOnce(&Value) -> String) -> String {
        match format {
            OutputFormat::Json => format!("{}\n", self.text),
            OutputFormat::Text => text(&self.json),
        }
    }

    fn print(
        &self,
        format: OutputFormat,
        text: impl FnOnce(&Value) -> String,
    ) -> Result<(), Failure> {
        stdout::print(&self.shown(format, text))
    }
}

impl ListenerClient {
    /// Asks, and returns the answer if it is one of Tidegate: of a success, or of a decision.
    ///
    /// # Errors
    /// Returns what is there instead, and what was expected.
    async fn ask(&self, method: Method, path: &str, body: &str) -> Result<JsonAnswer, Failure> {
        let (status, text) = self.send(method, path, body).await?;
        match JsonAnswer::read(&text) {
            // A refusal has the status of an error, and is an answer.
            Some(answer) if status.is_success() || answer.json["allowed"].is_boolean() => {
                let is_unavailable = status == StatusCode::SERVICE_UNAVAILABLE;
                Ok(JsonAnswer { is_unavailable, ..answer })
            }
            _ => Err(self.refused(status, &text)),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: &str,
    ) -> Result<(StatusCode, String), Failure> {
        let asked = self.connection.send(method, path, body, self.token.as_ref()).await;
        asked.map_err(|why| self.away(&why))
    }

    /// The failure of a server that cannot be asked.
    fn away(&self, why: &str) -> Failure {
        Failure::new(format!("{why}; {}", self.expected()))
    }

    /// Asks for an answer that is read as it comes.
    ///
    /// # Errors
    /// Returns what is there instead, and what was expected.
    async fn stream(&self, path: &str) -> Result<Incoming, Failure> {
        let response = self.connection.stream(path, self.token.as_ref()).await;
        let response = response.map_err(|why| self.away(&why))?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        // A stream that is refused has a problem as its whole body.
        let whole = self.connection.whole(response).await;
        let (status, text) = whole.map_err(|why| self.away(&why))?;
        Err(self.refused(status, &text))
    }

    /// The reason why an answer is not the expected answer.
    fn refused(&self, status: StatusCode, text: &str) -> Failure {
        let url = self.connection.url();
        let json: Value = serde_json::from_str(text).unwrap_or_default();
        if !json["type"].as_str().is_some_and(|kind| kind.starts_with(PROBLEM)) {
            let expected = self.expected();
            return Failure::new(format!(
                "{url} answers {status}, and is not Tidegate; {expected}"
            ));
        }
        let detail = printable::line(json["detail"].as_str().unwrap_or("no reason is given"));
        let hint = match status {
            StatusCode::UNAUTHORIZED => {
                format!("; its token is given by --token-file or {}", self.variable)
            }
            StatusCode::NOT_FOUND => format!("; {}", self.expected()),
            _ => String::new(),
        };
        Failure::new(format!("{url} answers {status}: {detail}{hint}"))
    }

    fn expected(&self) -> String {
        format!(
            "expected {} of `tidegate serve`, which {} names; the server prints its address, or that it is off, when it \
             starts",
            self.kind, self.flag
        )
    }
}

/// The first token of the file, or the token of the variable.
fn token(file: Option<&Path>, variable: &str) -> Result<Option<HeaderValue>, Failure> {
    match (file, of_variable(variable)?) {
        (None, None) => Ok(None),
        (None, Some(said)) => bearer(&said, variable).map(Some),
        // The flag is nearer than the environment.
        (Some(file), _) => {
            let from = format!("{} (--token-file)", file.display());
            bearer(&read_tokens(file, "--token-file")?, &from).map(Some)
        }
    }
}

/// The header field with the first token of a text.
fn bearer(text: &str, from: &str) -> Result<HeaderValue, Failure> {
    // Verbs may follow a token of clients.
    let first = text.lines().find_map(|line| line.split_whitespace().next());
    let value = first.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
    let mut value = value.ok_or_else(|| {
        Failure::usage(format!(
            "{from} has no token: expected a line of visible ASCII without space"
        ))
    })?;
    // Not shown where a request is printed for debugging.
    value.set_sensitive(true);
    Ok(value)
}

/// Runs a command that asks a server, and prints the answer itself.
fn run(asks: impl Future<Output = Result<(), Failure>>) -> Result<ExitCode, Failure> {
    wait(asks).map(|()| ExitCode::SUCCESS)
}

/// Waits for what asks a server.
fn wait<T>(asks: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start a thread for the network: {error}")))?;
    runtime.block_on(asks)
}

/// The path with the parameters that are given.
fn with_query(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in parameters {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    format!("{path}?{}", query.finish())
}

/// A number of an answer; 0 if it is absent.
fn number(of: &Value, name: &str) -> u64 {
    of[name].as_u64().unwrap_or_default()
}

/// A text of an answer; empty if it is absent.
fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_default()
}

/// The items of a list of an answer.
fn items<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    of[name].as_array().into_iter().flatten()
}

/// A length of time of an answer: `0.25 s`.
fn seconds(us: u64) -> String {
    format!("{} s", us.div_ceil(1_000) as f64 / 1_000.0)
}
