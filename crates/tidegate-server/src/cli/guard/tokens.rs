//! Tokens in files and in variables: the tokens of clients, and of operators who change or only read. `guard.rs`
//! reads them at the start, and SIGHUP reads the files again.

use std::env::{self, VarError};
use std::path::{Path, PathBuf};

use tidegate::read_secret_file;

use super::super::sources;
use crate::failure::Failure;
use crate::listener::ListenerSecret;
use crate::private_file;

pub(super) const TOKEN_FILE: &str = "--token-file";
pub(super) const ADMIN_TOKEN_FILE: &str = "--admin-token-file";
const ADMIN_READ_TOKEN_FILE: &str = "--admin-read-token-file";
const TOKEN: &str = "TIDEGATE_TOKEN";
pub(super) const ADMIN_TOKEN: &str = "TIDEGATE_ADMIN_TOKEN";
const ADMIN_READ_TOKEN: &str = "TIDEGATE_ADMIN_READ_TOKEN";

/// The variables with tokens: the tokens that a server accepts, and the token that a command presents.
pub(in crate::cli) const TOKENS: [&str; 5] =
    [TOKEN, ADMIN_TOKEN, ADMIN_READ_TOKEN, CLIENT_TOKEN, OPERATOR_TOKEN];
/// The token of a command that asks as a client. Its name differs from the name of a server's token, so that it can be
/// exported without changing who may ask a server.
pub(in crate::cli) const CLIENT_TOKEN: &str = "TIDEGATE_CLIENT_TOKEN";
/// The token of a command that asks as an operator.
pub(in crate::cli) const OPERATOR_TOKEN: &str = "TIDEGATE_OPERATOR_TOKEN";

/// The flags that a token in a variable replaces.
pub(in crate::cli) const SECRETS: [sources::SecretVariable; 3] = [
    sources::SecretVariable { flag: "admin-read-token-file", variable: ADMIN_READ_TOKEN },
    sources::SecretVariable { flag: "token-file", variable: TOKEN },
    sources::SecretVariable { flag: "admin-token-file", variable: ADMIN_TOKEN },
];

/// A file of tokens, and the secret that was read from it.
#[derive(Clone)]
pub(in crate::cli) struct TokenFile {
    path: PathBuf,
    kind: TokenKind,
    secret: ListenerSecret,
    /// The tokens of other places.
    others: Vec<(TokenKind, ListenerSecret)>,
}

/// Whose tokens a file or a variable has.
#[derive(Clone, Copy)]
pub(super) struct TokenKind {
    flag: &'static str,
    variable: &'static str,
    parse: fn(&str) -> Result<ListenerSecret, String>,
}

pub(super) const CLIENTS: TokenKind =
    TokenKind { flag: TOKEN_FILE, variable: TOKEN, parse: ListenerSecret::of_clients };
pub(super) const CHANGE: TokenKind =
    TokenKind { flag: ADMIN_TOKEN_FILE, variable: ADMIN_TOKEN, parse: ListenerSecret::parse };
pub(super) const READ: TokenKind = TokenKind {
    flag: ADMIN_READ_TOKEN_FILE,
    variable: ADMIN_READ_TOKEN,
    parse: ListenerSecret::parse,
};

impl TokenFile {
    /// Reads the file again: requests from now on need the new tokens. This blocks.
    fn read_again(&self) -> Result<(), Failure> {
        let Self { path, kind, secret, others } = self;
        let new = kind.parsed(path)?;
        // `others` follow their own files, so the comparison is with the tokens in force.
        kind.is_apart(&new, others)?;
        secret.follow(&new);
        tracing::info!(file = %path.display(), "tokens are read again");
        Ok(())
    }
}

/// Reads files again, and logs the outcome. This blocks.
pub(in crate::cli) fn read_again(files: &[TokenFile]) {
    let mut unread: Vec<_> = files.iter().collect();
    loop {
        let before = unread.len();
        let mut failures = Vec::new();
        unread.retain(|file| file.read_again().map_err(|failure| failures.push(failure)).is_err());
        // A token that moves to another file is refused there until its old file is read, so refused files are read again.
        if unread.len() < before && !unread.is_empty() {
            continue;
        }
        for failure in failures {
            let error = failure.message();
            tracing::error!(error, "tokens cannot be used; those read before stay in force");
        }
        return;
    }
}

/// The files of tokens. No token may be in two places, because it would have two roles.
pub(super) fn files(
    places: [(TokenKind, &Option<PathBuf>, &Option<ListenerSecret>); 3],
) -> Result<Vec<TokenFile>, Failure> {
    let all = places.into_iter().filter_map(|(kind, _, secret)| Some((kind, secret.clone()?)));
    let all: Vec<_> = all.collect();
    for (number, (kind, secret)) in all.iter().enumerate() {
        // Each pair is compared once.
        kind.is_apart(secret, all.get(number + 1..).unwrap_or_default())?;
    }
    let mut files = Vec::new();
    for (kind, path, secret) in places {
        let (Some(path), Some(secret)) = (path.clone(), secret.clone()) else { continue };
        let others = all.iter().filter(|(other, _)| other.flag != kind.flag).cloned().collect();
        files.push(TokenFile { path, kind, secret, others });
    }
    Ok(files)
}

impl TokenKind {
    /// The tokens of the file or of the environment, not of both.
    pub(super) fn secret(self, file: &Option<PathBuf>) -> Result<Option<ListenerSecret>, Failure> {
        let Self { flag, variable, .. } = self;
        let said = of_variable(variable)?;
        match (file, said) {
            (None, None) => Ok(None),
            (Some(_), Some(_)) => Err(Failure::usage(format!(
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
                return Err(Failure::usage(format!(
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
        // Before the text is read, so that tokens which another user may have written are never taken.
        private_file::check(file, flag).map_err(Failure::usage)?;
        self.tokens(&read_tokens(file, flag)?, &format!("{} ({flag})", file.display()))
    }

    /// The tokens of a text; short ones are a warning.
    fn tokens(self, text: &str, from: &str) -> Result<ListenerSecret, Failure> {
        let secret = (self.parse)(text).map_err(|why| Failure::usage(format!("{from}: {why}")))?;
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

/// The text of a variable, if it is set.
pub(in crate::cli) fn of_variable(variable: &str) -> Result<Option<String>, Failure> {
    match env::var(variable) {
        Ok(said) => Ok(Some(said)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(Failure::usage(format!("{variable} is no text"))),
    }
}

/// The text of a file of tokens.
pub(in crate::cli) fn read_tokens(file: &Path, flag: &str) -> Result<String, Failure> {
    let why = match read_secret_file(file).map(String::from_utf8) {
        Ok(Ok(text)) => return Ok(text),
        Ok(Err(_)) => "it is not UTF-8: expected tokens".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(Failure::usage(format!("cannot read {} ({flag}): {why}", file.display())))
}
