//! Commands against a running server: its address, the token, and what its answers mean.

pub(super) mod peek;
pub(super) mod recorded;
pub(super) mod reservations;
pub(super) mod reset;
pub(super) mod rules;
pub(super) mod stats;
pub(super) mod tail;
pub(super) mod top;

mod entries;
mod events;
mod http_client;
mod in_force;
mod rates;
mod screen;
mod server_url;
mod tables;

use std::env::{self, VarError};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Method, StatusCode};
use serde_json::Value;
use tidegate::{printable, read_secret_file};
use tokio::runtime::Builder;

use super::guard::{OPERATOR_TOKEN, file};
use crate::failure::Failure;
use events::EventStream;
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

/// An answer in JSON that the command has asked for.
struct JsonAnswer {
    /// As it is printed.
    text: String,
    json: Value,
}

impl ListenerClient {
    /// Asks, and returns the answer if it is one of Tidegate: of a success, or of a decision.
    ///
    /// # Errors
    /// Returns what is there instead, and what was expected.
    async fn ask(&self, method: Method, path: &str, body: &str) -> Result<JsonAnswer, Failure> {
        let (status, text) = self.send(method, path, body).await?;
        let json: Option<Value> = serde_json::from_str(&text).ok();
        let decides = |json: &Value| json.get("allowed").is_some_and(Value::is_boolean);
        match json {
            Some(json) if status.is_success() || decides(&json) => {
                Ok(JsonAnswer { text: printable::json(&text).into_owned(), json })
            }
            json => Err(self.refused(status, json.as_ref())),
        }
    }

    /// Asks for a text that need not be JSON.
    async fn ask_text(&self, path: &str) -> Result<String, Failure> {
        let (status, text) = self.send(Method::GET, path, "").await?;
        match status.is_success() {
            true => Ok(text),
            false => Err(self.refused(status, serde_json::from_str(&text).ok().as_ref())),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: &str,
    ) -> Result<(StatusCode, String), Failure> {
        let asked = self.connection.send(method, path, body, self.token.as_ref()).await;
        asked.map_err(|why| Failure::new(format!("{why}; {}", self.expected())))
    }

    /// Asks for a stream of events.
    ///
    /// # Errors
    /// Returns what is there instead, and what was expected.
    async fn events(&self, path: &str) -> Result<EventStream, Failure> {
        Ok(EventStream::of(self.stream(path).await?, self.connection.url().clone()))
    }

    /// Asks for an answer that is read as it comes.
    ///
    /// # Errors
    /// Returns what is there instead, and what was expected.
    async fn stream(&self, path: &str) -> Result<Incoming, Failure> {
        let failed = |why: String| Failure::new(format!("{why}; {}", self.expected()));
        let response = self.connection.stream(path, self.token.as_ref()).await.map_err(failed)?;
        if response.status().is_success() {
            return Ok(response.into_body());
        }
        let (status, text) = self.connection.whole(response).await.map_err(failed)?;
        Err(self.refused(status, serde_json::from_str(&text).ok().as_ref()))
    }

    /// The reason why an answer is not the expected answer.
    fn refused(&self, status: StatusCode, json: Option<&Value>) -> Failure {
        let (url, field) = (self.connection.url(), |name| json?.get(name)?.as_str());
        let Some(_) = field("type").filter(|kind| kind.starts_with(PROBLEM)) else {
            let expected = self.expected();
            return Failure::new(format!(
                "{url} answers {status}, and is not Tidegate; {expected}"
            ));
        };
        let detail = printable::line(field("detail").unwrap_or("no reason is given"));
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
    let mistake = |why: String| Failure::configuration(format!("tidegate: {why}"));
    let said = match env::var(variable) {
        Ok(said) => Some(said),
        Err(VarError::NotPresent) => None,
        Err(VarError::NotUnicode(_)) => return Err(mistake(format!("{variable} is no text"))),
    };
    let (text, from) = match (file, said) {
        (None, None) => return Ok(None),
        (None, Some(said)) => (said, variable.to_owned()),
        // The flag is nearer than the environment.
        (Some(file), _) => {
            let from = format!("{} (--token-file)", file.display());
            let cannot = |why: String| mistake(format!("can not read {from}: {why}"));
            let bytes = read_secret_file(file).map_err(|error| cannot(error.to_string()))?;
            (String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8".to_owned()))?, from)
        }
    };
    // Verbs may follow a token of clients.
    let first = text.lines().find_map(|line| line.split_whitespace().next());
    let value = first.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
    let mut value = value.ok_or_else(|| {
        mistake(format!("{from} has no token: expected a line of visible ASCII without space"))
    })?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Runs what asks a server.
fn run<T>(asks: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let cannot = |error| Failure::new(format!("can not start a thread for the network: {error}"));
    runtime.map_err(cannot)?.block_on(asks)
}

/// A length of time of an answer: `0.25 s`.
fn seconds(us: u64) -> String {
    format!("{} s", us.div_ceil(1_000) as f64 / 1_000.0)
}
