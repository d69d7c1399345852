//! The protection of the listeners, by flags or environment: TLS, client certificates, tokens.
//!
//! A secret is in a file or in the environment, never on the command line, which every user of the machine
//! can read.

use std::env::{self, VarError};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};

use tidegate::read_secret_file;

use super::sources;
use crate::failure::Failure;
use crate::listener::{
    AcceptOptions, Bounds, CertificateVerb, Clients, ListenerSecret, OperatorAccess, Tls, TlsFiles,
};
use crate::private_file;
use crate::verbs::{self, PublicVerbs};

const TOKEN_FILE: &str = "--token-file";
const ADMIN_TOKEN_FILE: &str = "--admin-token-file";
const ADMIN_READ_TOKEN_FILE: &str = "--admin-read-token-file";
const TOKEN: &str = "TIDEGATE_TOKEN";
const ADMIN_TOKEN: &str = "TIDEGATE_ADMIN_TOKEN";
const ADMIN_READ_TOKEN: &str = "TIDEGATE_ADMIN_READ_TOKEN";

/// The variables with tokens: the tokens that a server accepts, and the token that a command presents.
pub(super) const TOKENS: [&str; 5] =
    [TOKEN, ADMIN_TOKEN, ADMIN_READ_TOKEN, CLIENT_TOKEN, OPERATOR_TOKEN];
/// The token of a command that asks as a client. Its name differs from the name of a server's token, so that it can be
/// exported without changing who may ask a server.
pub(super) const CLIENT_TOKEN: &str = "TIDEGATE_CLIENT_TOKEN";
/// The token of a command that asks as an operator.
pub(super) const OPERATOR_TOKEN: &str = "TIDEGATE_OPERATOR_TOKEN";

/// The flags that a token in a variable replaces.
pub(super) const SECRETS: [sources::SecretVariable; 3] = [
    sources::SecretVariable { flag: "admin-read-token-file", variable: ADMIN_READ_TOKEN },
    sources::SecretVariable { flag: "token-file", variable: TOKEN },
    sources::SecretVariable { flag: "admin-token-file", variable: ADMIN_TOKEN },
];

/// The options of `serve`. Every listener is protected alike, except for the token of the admin
/// listener.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Access")]
#[group(skip)]
pub(super) struct GuardArgs {
    /// Encrypt every listener with this certificate
    ///
    /// PEM, with the server's own certificate first and the certificates of its issuers after it
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_CERT", value_parser = file())]
    tls_cert: Option<PathBuf>,

    /// The private key of that certificate, PEM
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_KEY", value_parser = file())]
    tls_key: Option<PathBuf>,

    /// Accept only clients with a certificate of these authorities, PEM
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_CLIENT_CA", value_parser = file(), hide_short_help = true)]
    tls_client_ca: Option<PathBuf>,

    /// Answer only clients with a token of this file
    ///
    /// One token per line; `verbs=reserve,settle` after a token grants it more than --public-verbs. Or set
    /// TIDEGATE_TOKEN to the token itself
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TOKEN_FILE", value_parser = file())]
    token_file: Option<PathBuf>,

    /// Verbs for clients with a certificate of this name, NAME=VERB, separated by commas
    #[arg(
        long,
        value_name = "NAME=VERB",
        env = "TIDEGATE_CERTIFICATE_VERBS",
        value_delimiter = ',',
        value_parser = certificate_verb,
        hide_short_help = true
    )]
    certificate_verbs: Vec<CertificateVerb>,

    /// Tokens of the admin listener, by default the tokens of the other listeners; or TIDEGATE_ADMIN_TOKEN
    #[arg(long, value_name = "FILE", env = "TIDEGATE_ADMIN_TOKEN_FILE", value_parser = file(), hide_short_help = true)]
    admin_token_file: Option<PathBuf>,

    /// Tokens of operators who only read: rules, metrics and peeks; or TIDEGATE_ADMIN_READ_TOKEN
    #[arg(long, value_name = "FILE", env = "TIDEGATE_ADMIN_READ_TOKEN_FILE", value_parser = file(), hide_short_help = true)]
    admin_read_token_file: Option<PathBuf>,

    /// Names in client certificates of operators who may change everything, separated by commas
    ///
    /// With --tls-client-ca, operators with neither such a name nor a token of --admin-token-file only read
    #[arg(
        long,
        value_name = "NAME",
        env = "TIDEGATE_ADMIN_CHANGERS",
        value_delimiter = ',',
        hide_short_help = true
    )]
    admin_changers: Vec<String>,

    /// Names in client certificates of operators who only read, with any token, separated by commas
    #[arg(
        long,
        value_name = "NAME",
        env = "TIDEGATE_ADMIN_READERS",
        value_delimiter = ',',
        hide_short_help = true
    )]
    admin_readers: Vec<String>,
}

/// The path of a file, which is not empty.
pub(super) fn file() -> impl TypedValueParser<Value = PathBuf> {
    let given = |path: OsString| match path.is_empty() {
        false => Ok(PathBuf::from(path)),
        true => Err("expected the path of a file"),
    };
    OsStringValueParser::new().try_map(given)
}

fn certificate_verb(text: &str) -> Result<CertificateVerb, String> {
    let (name, verb) = text
        .rsplit_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("expected the name of a certificate and a verb, such as \"billing=settle\"")?;
    Ok(CertificateVerb::new(name.to_owned(), verbs::verb(verb)?))
}

/// The options of the listeners for clients, cloned for each protocol, and of the listener for operators.
pub(super) struct ListenerOptions {
    pub(super) public: AcceptOptions,
    pub(super) admin: AcceptOptions,
    /// The clients of the public listeners.
    pub(super) clients: Clients,
    /// The roles of operators at the admin listener.
    pub(super) access: OperatorAccess,
    /// The files of tokens, which may get other contents.
    pub(super) token_files: Vec<TokenFile>,
}

/// A file of tokens, and the secret that was read from it.
#[derive(Clone)]
pub(super) struct TokenFile {
    path: PathBuf,
    kind: TokenKind,
    secret: ListenerSecret,
    /// The tokens of other places.
    others: Vec<(TokenKind, ListenerSecret)>,
}

/// Whose tokens a file or a variable has.
#[derive(Clone, Copy)]
struct TokenKind {
    flag: &'static str,
    variable: &'static str,
    parse: fn(&str) -> Result<ListenerSecret, String>,
}

const CLIENTS: TokenKind =
    TokenKind { flag: TOKEN_FILE, variable: TOKEN, parse: ListenerSecret::of_clients };
const CHANGE: TokenKind =
    TokenKind { flag: ADMIN_TOKEN_FILE, variable: ADMIN_TOKEN, parse: ListenerSecret::parse };
const READ: TokenKind = TokenKind {
    flag: ADMIN_READ_TOKEN_FILE,
    variable: ADMIN_READ_TOKEN,
    parse: ListenerSecret::parse,
};

impl TokenFile {
    /// Reads the file again, and logs the outcome: requests from now on need the new tokens. This
    /// blocks.
    pub(super) fn read_again(&self) {
        let Self { path, kind, secret, others } = self;
        let new = kind.parsed(path);
        match new.and_then(|new| kind.is_apart(&new, others).map(|()| new)) {
            Ok(new) => {
                secret.follow(&new);
                tracing::info!(file = %path.display(), "tokens are read again");
            }
            Err(failure) => {
                let error = failure.message();
                tracing::error!(error, "tokens can not be used; those read before stay in force");
            }
        }
    }
}

impl GuardArgs {
    /// Reads the files; every listener has these bounds, and all clients may use `verbs`.
    ///
    /// # Errors
    /// Returns the first error of a file.
    pub(super) fn listener_options(
        &self,
        bounds: Bounds,
        verbs: PublicVerbs,
    ) -> Result<ListenerOptions, Failure> {
        let tls = self.tls()?;
        let secret = CLIENTS.secret(&self.token_file)?;
        let own = CHANGE.secret(&self.admin_token_file)?;
        let change = own.clone().or_else(|| secret.as_ref().map(ListenerSecret::counted_apart));
        let read = READ.secret(&self.admin_read_token_file)?;
        let is_shared = self.admin_token_file.is_none() && env::var_os(ADMIN_TOKEN).is_none();
        if is_shared
            && secret.as_ref().is_some_and(|secret| secret.verbs() != PublicVerbs::default())
        {
            tracing::warn!(
                "tokens of clients grant verbs, and each of them may change everything at the admin listener: expected \
                 {ADMIN_TOKEN_FILE}, so that operators have tokens of their own"
            );
        }
        let named = [
            ("--admin-changers", self.admin_changers.is_empty()),
            ("--admin-readers", self.admin_readers.is_empty()),
            ("--certificate-verbs", self.certificate_verbs.is_empty()),
        ];
        for (flag, is_empty) in named {
            if !is_empty && self.tls_client_ca.is_none() {
                return Err(mistake(format!(
                    "{flag} names clients by their certificates: expected --tls-client-ca, whose authorities sign \
                     these"
                )));
            }
        }
        if let Some(name) =
            self.admin_changers.iter().find(|name| self.admin_readers.contains(name))
        {
            return Err(mistake(format!(
                "--admin-changers and --admin-readers both name {name:?}: expected one role for it"
            )));
        }
        let options =
            |secret| AcceptOptions { tls: tls.clone(), secret, bounds, ..AcceptOptions::default() };
        let access = OperatorAccess {
            change,
            read: read.clone(),
            needs_certificate: self.tls_client_ca.is_some(),
            changers: self.admin_changers.iter().cloned().collect(),
            readers: self.admin_readers.iter().cloned().collect(),
        };
        if !access.has_changers() {
            tracing::warn!(
                "no operator may change anything: expected {ADMIN_TOKEN_FILE}, or --admin-changers with the names of \
                 certificates"
            );
        }
        let token_files = self.token_files([(CLIENTS, &secret), (CHANGE, &own), (READ, &read)])?;
        let admin = options(access.counting());
        let certificates = self.certificate_verbs.iter().cloned().collect();
        let clients = Clients { secret: secret.clone(), verbs, certificates };
        Ok(ListenerOptions { public: options(secret), admin, clients, access, token_files })
    }

    /// The files of tokens. No token may be in two of them, because it would have two roles.
    fn token_files(
        &self,
        secrets: [(TokenKind, &Option<ListenerSecret>); 3],
    ) -> Result<Vec<TokenFile>, Failure> {
        let all = secrets.into_iter().filter_map(|(kind, secret)| Some((kind, secret.clone()?)));
        let all: Vec<_> = all.collect();
        for (number, (kind, secret)) in all.iter().enumerate() {
            kind.is_apart(secret, all.get(number + 1..).unwrap_or_default())?;
        }
        let paths = [&self.token_file, &self.admin_token_file, &self.admin_read_token_file];
        let files = paths.into_iter().zip(secrets).filter_map(|(path, (kind, secret))| {
            let others = all.iter().filter(|(other, _)| other.flag != kind.flag).cloned();
            let others = others.collect();
            Some(TokenFile { path: path.clone()?, kind, secret: secret.clone()?, others })
        });
        Ok(files.collect())
    }

    /// The file of the clients' tokens, if there is one.
    pub(super) fn token_file(&self) -> Option<&Path> {
        self.token_file.as_deref()
    }

    /// The path of the server's certificate.
    pub(super) fn certificate(&self) -> Option<&Path> {
        self.tls_cert.as_deref()
    }

    fn tls(&self) -> Result<Option<Tls>, Failure> {
        let missing = |needed: &str, for_what: &str| {
            let why = format!(
                "{needed} is missing, which {for_what} needs: expected both, as flags, as variables or in [server]"
            );
            Err(mistake(why))
        };
        let client_ca = self.tls_client_ca.clone();
        match (self.tls_cert.clone(), self.tls_key.clone()) {
            (Some(cert), Some(key)) => {
                let files = TlsFiles { cert, key, client_ca };
                Tls::load(&files).map(Some).map_err(mistake)
            }
            (Some(_), None) => missing("--tls-key", "--tls-cert"),
            (None, Some(_)) => missing("--tls-cert", "--tls-key"),
            (None, None) if client_ca.is_some() => missing("--tls-cert", "--tls-client-ca"),
            (None, None) => Ok(None),
        }
    }
}

impl TokenKind {
    /// The tokens of the file or of the environment, not of both.
    fn secret(self, file: &Option<PathBuf>) -> Result<Option<ListenerSecret>, Failure> {
        let Self { flag, variable, .. } = self;
        let said = match env::var(variable) {
            Ok(said) => Some(said),
            Err(VarError::NotPresent) => None,
            Err(VarError::NotUnicode(_)) => return Err(mistake(format!("{variable} is no text"))),
        };
        match (file, said) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(mistake(format!(
                "tokens are given by {flag} and by {variable}: expected one of them"
            ))),
            (Some(file), None) => self.parsed(file).map(Some),
            (None, Some(said)) => self.tokens(&said, variable).map(Some),
        }
    }

    /// Refuses a token that is in two places.
    fn is_apart(
        &self,
        secret: &ListenerSecret,
        others: &[(Self, ListenerSecret)],
    ) -> Result<(), Failure> {
        for (other, others) in others {
            if let Some((number, same)) = secret.shared_with(others) {
                return Err(mistake(format!(
                    "token {number} of {} or {} is also token {same} of {} or {}: expected each token in one of them, \
                     because they give different rights",
                    self.flag, self.variable, other.flag, other.variable
                )));
            }
        }
        Ok(())
    }

    /// The tokens of a file.
    fn parsed(self, file: &Path) -> Result<ListenerSecret, Failure> {
        let flag = self.flag;
        private_file::check(file, flag).map_err(mistake)?;
        self.tokens(&read(file, flag)?, &format!("{} ({flag})", file.display()))
    }

    /// The tokens of a text; short ones are a warning.
    fn tokens(self, text: &str, from: &str) -> Result<ListenerSecret, Failure> {
        let secret = (self.parse)(text).map_err(|why| mistake(format!("{from}: {why}")))?;
        if let Some((tokens, advised)) = secret.short() {
            tracing::warn!(
                %from,
                tokens,
                "tokens of fewer than {advised} characters may be guessed: take what `openssl rand -hex 32` prints"
            );
        }
        Ok(secret)
    }
}

fn read(file: &Path, flag: &str) -> Result<String, Failure> {
    let cannot = |why: String| mistake(format!("can not read {} ({flag}): {why}", file.display()));
    let bytes = read_secret_file(file).map_err(|error| cannot(error.to_string()))?;
    String::from_utf8(bytes).map_err(|_| cannot("it is not UTF-8: expected tokens".to_owned()))
}

pub(super) fn mistake(said: String) -> Failure {
    Failure::configuration(format!("tidegate: {said}"))
}

/// Logs a warning if a listener for clients answers anybody who reaches it, and these may be many.
pub(super) fn warn_if_open(option: &str, at: SocketAddr, options: &AcceptOptions) {
    if !at.ip().is_loopback() && !options.knows_its_clients() {
        tracing::warn!(
            %at,
            "{option} is not on loopback and asks for neither a token nor a certificate: anyone who reaches it \
             can spend every caller's limit; see --token-file and --tls-client-ca"
        );
    }
}

/// Refuses a listener beyond this machine that lets anybody change limits or rules, or read them.
///
/// # Errors
/// Returns the expected setting.
pub(super) fn check_open(
    option: &str,
    at: SocketAddr,
    options: &AcceptOptions,
    why: &str,
) -> Result<(), Failure> {
    if at.ip().is_loopback() || options.knows_its_clients() {
        return Ok(());
    }
    Err(mistake(format!(
        "{option} {at} is not on loopback, and asks for neither a token nor a certificate, but {why}: expected \
         {ADMIN_TOKEN_FILE}, {TOKEN_FILE} or --tls-client-ca, or an address such as 127.0.0.1:{}",
        at.port()
    )))
}
