//! The protection of the listeners, by flags or environment: TLS, client certificates, tokens. `serve` reads the files once
//! at the start, and makes of them the options of each listener ([`ListenerOptions`]).
//!
//! A secret is in a file or in the environment, never on the command line, which every user of the machine
//! can read.

mod tokens;

pub(super) use tokens::{
    CLIENT_TOKEN, OPERATOR_TOKEN, SECRETS, TOKENS, TokenFile, of_variable, read_again, read_tokens,
};

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{OsStringValueParser, TypedValueParser};

use super::listeners::Listener;
use tokens::{ADMIN_TOKEN, ADMIN_TOKEN_FILE, CHANGE, CLIENTS, READ, TOKEN_FILE};

use crate::failure::Failure;
use crate::listener::{
    AcceptOptions, Bounds, CertificateVerb, Clients, ListenerSecret, OperatorAccess, Tls, TlsFiles,
};
use crate::verbs::{self, PublicVerbs};

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
    pub(super) tls_cert: Option<PathBuf>,

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
    pub(super) token_file: Option<PathBuf>,

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
    OsStringValueParser::new().try_map(|path: OsString| {
        if path.is_empty() { Err("expected the path of a file") } else { Ok(PathBuf::from(path)) }
    })
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
        // Without tokens of its own the admin listener takes the tokens of clients, and counts its refusals by itself.
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
        self.check_names()?;
        let token_files = tokens::files([
            (CLIENTS, &self.token_file, &secret),
            // Not `change`, which may be the tokens of clients: these are meant to be in both places.
            (CHANGE, &self.admin_token_file, &own),
            (READ, &self.admin_read_token_file, &read),
        ])?;
        let access = OperatorAccess {
            change,
            read,
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
        let certificates = self.certificate_verbs.iter().cloned().collect();
        let clients = Clients { secret: secret.clone(), verbs, certificates };
        let public = AcceptOptions { tls, secret, bounds, ..AcceptOptions::default() };
        // This secret only counts refusals and shows that a token is needed: `access` decides about roles.
        let admin = AcceptOptions { secret: access.counting().cloned(), ..public.clone() };
        Ok(ListenerOptions { public, admin, clients, access, token_files })
    }

    /// Refuses names of certificates that no authority signs, and a name with two roles.
    fn check_names(&self) -> Result<(), Failure> {
        for (flag, is_empty) in [
            ("--admin-changers", self.admin_changers.is_empty()),
            ("--admin-readers", self.admin_readers.is_empty()),
            ("--certificate-verbs", self.certificate_verbs.is_empty()),
        ] {
            if !is_empty && self.tls_client_ca.is_none() {
                return Err(Failure::usage(format!(
                    "{flag} names clients by their certificates: expected --tls-client-ca, whose authorities sign \
                     these"
                )));
            }
        }
        let both = self.admin_changers.iter().find(|name| self.admin_readers.contains(name));
        both.map_or(Ok(()), |name| {
            Err(Failure::usage(format!(
                "--admin-changers and --admin-readers both name {name:?}: expected one role for it"
            )))
        })
    }

    /// The encryption of all listeners; a certificate and its key need each other.
    fn tls(&self) -> Result<Option<Tls>, Failure> {
        let client_ca = self.tls_client_ca.clone();
        let (needed, by) = match (self.tls_cert.clone(), self.tls_key.clone()) {
            (Some(cert), Some(key)) => {
                let files = TlsFiles { cert, key, client_ca };
                return Tls::load(&files).map(Some).map_err(Failure::usage);
            }
            (Some(_), None) => ("--tls-key", "--tls-cert"),
            (None, Some(_)) => ("--tls-cert", "--tls-key"),
            (None, None) if client_ca.is_some() => ("--tls-cert", "--tls-client-ca"),
            (None, None) => return Ok(None),
        };
        Err(Failure::usage(format!(
            "{needed} is missing, which {by} needs: expected both, as flags, as variables or in [server]"
        )))
    }
}

/// Logs a warning if a listener for clients answers anybody who reaches it, and these may be many.
pub(super) fn warn_if_open(on: &Listener, options: &AcceptOptions) {
    let Listener { option, at, .. } = on;
    if !at.ip().is_loopback() && !options.knows_its_clients() {
        tracing::warn!(
            %at,
            "{option} is not on loopback and asks for neither a token nor a certificate: anyone who reaches it \
             can spend every caller's limit; see --token-file and --tls-client-ca"
        );
    }
}

/// Logs a warning if a listener reads tokens that a network may have seen.
pub(super) fn warn_if_unencrypted(on: &Listener, options: &AcceptOptions) {
    let Listener { option, at, .. } = on;
    if !at.ip().is_loopback() && options.knows_its_clients() && options.tls.is_none() {
        tracing::warn!(
            %at,
            "{option} is not on loopback, and its tokens travel unencrypted: expected --tls-cert and --tls-key, or \
             TLS between the clients and this server by other means"
        );
    }
}

/// Refuses a listener beyond this machine that lets anybody change limits or rules, or read them.
///
/// # Errors
/// Returns the expected setting.
pub(super) fn check_open(on: &Listener, options: &AcceptOptions, why: &str) -> Result<(), Failure> {
    let Listener { option, at, .. } = on;
    if at.ip().is_loopback() || options.knows_its_clients() {
        return Ok(());
    }
    // Tokens of operators do not protect a listener for clients.
    let operators =
        if *option == "--admin" { format!("{ADMIN_TOKEN_FILE}, ") } else { String::new() };
    Err(Failure::usage(format!(
        "{option} {at} is not on loopback, and asks for neither a token nor a certificate, but {why}: expected \
         {operators}{TOKEN_FILE} or --tls-client-ca, or an address such as 127.0.0.1:{}",
        at.port()
    )))
}
