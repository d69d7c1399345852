//! The secret of a listener: one token, or several while one replaces another. Each protocol asks it whether the
//! token of a client is known and which verbs it grants; a reload of the file replaces the tokens in place
//! ([`ListenerSecret::follow`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use arc_swap::ArcSwap;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::verbs::PublicVerbs;

const SCHEME: &[u8] = b"bearer ";
/// The prefix of a token's verbs in its line.
const VERBS: &str = "verbs=";

/// The fewest characters of a token without a warning, which carry 128 bits in hexadecimal digits.
const ADVISED: usize = 32;

/// The tokens that admit clients. They are never shown. Copies count refusals together, and change together.
#[derive(Clone)]
pub(crate) struct ListenerSecret {
    tokens: Arc<ArcSwap<Vec<SecretToken>>>,
    /// The number of times that they have changed.
    changes: Arc<AtomicU64>,
    refused: Arc<AtomicU64>,
}

/// The token of a connection, as it was when it was last looked up.
pub(crate) struct Given {
    token: Box<[u8]>,
    changes: u64,
}

impl Given {
    pub(crate) fn token(&self) -> &[u8] {
        &self.token
    }
}

/// The grant of a token that was given earlier.
pub(crate) enum Regrant {
    /// The tokens have not changed since then.
    Unchanged,
    /// The token grants these verbs now.
    Grants(PublicVerbs),
    /// The token is not known any more.
    Gone,
}

/// A token, and the verbs that it grants.
struct SecretToken {
    bytes: Box<[u8]>,
    verbs: PublicVerbs,
}

impl SecretToken {
    fn is(&self, presented: &[u8]) -> Choice {
        self.bytes.ct_eq(presented)
    }
}

impl ListenerSecret {
    /// Parses tokens of operators, one per line; surrounding space and empty lines are ignored.
    ///
    /// # Errors
    /// Returns an error without the text, which is meant to be secret. A token consists of visible
    /// ASCII, so that a header field can carry it, and at least one is needed.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Self::read(text, |line, text| {
            let bytes = token(line, text)?;
            Ok(SecretToken { bytes, verbs: PublicVerbs::default() })
        })
    }

    /// Parses tokens of clients, as [`Self::parse`] parses tokens of operators. The verbs that a token grants may
    /// follow it, as in `TOKEN verbs=reserve,settle`.
    ///
    /// # Errors
    /// Returns an error as [`Self::parse`] does, and for an unknown verb.
    pub(crate) fn of_clients(text: &str) -> Result<Self, String> {
        Self::read(text, |line, text| {
            let mut verbs = PublicVerbs::default();
            let (text, more) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            if !more.is_empty() {
                // Anything else may be a part of a token, and is not shown.
                let names = more.trim_start().strip_prefix(VERBS).ok_or_else(|| no_token(line))?;
                verbs = PublicVerbs::parse(names)
                    .map_err(|why| format!("line {line}: `verbs`: {why}"))?;
            }
            Ok(SecretToken { bytes: token(line, text)?, verbs })
        })
    }

    /// Reads a token of each line by `token`.
    fn read(
        text: &str,
        token: impl Fn(usize, &str) -> Result<SecretToken, String>,
    ) -> Result<Self, String> {
        let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
        let tokens = lines.map(|(index, line)| token(index + 1, line));
        let tokens: Vec<_> = tokens.collect::<Result<_, _>>()?;
        if tokens.is_empty() {
            return Err("there is no token: expected one a line, such as `openssl rand -hex 32` \
                        prints"
                .to_owned());
        }
        let tokens = Arc::new(ArcSwap::from_pointee(tokens));
        Ok(Self { tokens, changes: Arc::default(), refused: Arc::default() })
    }

    /// Takes the tokens of another secret, for every copy and from now on.
    pub(crate) fn follow(&self, other: &Self) {
        // Stored before the count: a reader that sees the new count also sees the new tokens.
        self.tokens.store(other.tokens.load_full());
        self.changes.fetch_add(1, Release);
    }

    /// The token that a client gives for its connection.
    pub(crate) fn given(&self, token: &[u8]) -> Given {
        Given { token: token.into(), changes: self.changes.load(Acquire) }
    }

    /// The grant of the token that a connection gave earlier.
    pub(crate) fn granted_since(&self, given: &mut Given) -> Regrant {
        // Loaded before the tokens: a change in between is noticed by the next call, and never missed.
        let changes = self.changes.load(Acquire);
        if std::mem::replace(&mut given.changes, changes) == changes {
            return Regrant::Unchanged;
        }
        self.granted(&given.token).map_or(Regrant::Gone, Regrant::Grants)
    }

    /// Returns whether the client's token is one of these. The time that this takes reveals at most the
    /// length of a token, but nothing of its contents.
    pub(crate) fn opens(&self, presented: &[u8]) -> bool {
        self.granted(presented).is_some()
    }

    /// The verbs that the client's token grants; `None` if it is none of these. Like [`Self::opens`], it reveals nothing of
    /// their contents.
    fn granted(&self, presented: &[u8]) -> Option<PublicVerbs> {
        let mut opened = Choice::from(0);
        let mut verbs = PublicVerbs::default();
        // All tokens are compared, and verbs selected without a branch, so that the time does not tell which token
        // matched.
        for token in &**self.tokens.load() {
            let is_same = token.is(presented);
            opened |= is_same;
            verbs = PublicVerbs::conditional_select(&verbs, &token.verbs, is_same);
        }
        bool::from(opened).then_some(verbs)
    }

    /// The verbs that any of the tokens grants.
    pub(crate) fn verbs(&self) -> PublicVerbs {
        self.tokens.load().iter().fold(PublicVerbs::default(), |all, token| all.and(token.verbs))
    }

    /// The number of a token in its file, counted from 1.
    pub(crate) fn number(&self, presented: &[u8]) -> Option<usize> {
        let tokens = self.tokens.load();
        // All are compared, as by `opens`.
        let same: Vec<bool> = tokens.iter().map(|token| token.is(presented).into()).collect();
        same.iter().position(|same| *same).map(|index| index + 1)
    }

    /// The numbers of the first token that is also one of `others`, here and there.
    pub(crate) fn shared_with(&self, others: &Self) -> Option<(usize, usize)> {
        let tokens = self.tokens.load();
        let mut tokens = tokens.iter().enumerate();
        tokens.find_map(|(index, token)| Some((index + 1, others.number(&token.bytes)?)))
    }

    /// The verbs that the client's token grants; `None` without a token, or with a wrong one, which is counted.
    pub(crate) fn admits(&self, presented: Option<&[u8]>) -> Option<PublicVerbs> {
        let admits = presented.and_then(|presented| self.granted(presented));
        if admits.is_none() {
            self.count_refused();
        }
        admits
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// The number of refusals since the last call.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.swap(0, Relaxed)
    }

    /// A copy that changes together with this secret, and counts its own refusals.
    pub(crate) fn counted_apart(&self) -> Self {
        let tokens = Arc::clone(&self.tokens);
        let changes = Arc::clone(&self.changes);
        Self { tokens, changes, refused: Arc::default() }
    }

    /// The number of tokens that are short enough to be guessed, and the advised length.
    pub(crate) fn short(&self) -> Option<(usize, usize)> {
        let short = self.tokens.load().iter().filter(|token| token.bytes.len() < ADVISED).count();
        (short > 0).then_some((short, ADVISED))
    }
}

/// The token of `Bearer TOKEN` (RFC 6750), as in `authorization` over HTTP and gRPC; the scheme is
/// not case-sensitive.
pub(crate) fn bearer(field: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = field.split_at_checked(SCHEME.len())?;
    scheme.eq_ignore_ascii_case(SCHEME).then(|| token.trim_ascii())
}

fn token(line: usize, text: &str) -> Result<Box<[u8]>, String> {
    if text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.as_bytes().into());
    }
    Err(no_token(line))
}

fn no_token(line: usize) -> String {
    format!(
        "line {line} is no token: expected visible ASCII without space, such as `openssl rand -hex \
         32` prints; `verbs=` with the verbs that it grants may follow in a file of clients"
    )
}

impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Given")
    }
}

impl fmt::Debug for ListenerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_opens_and_nothing_else_does() {
        let secret = ListenerSecret::parse("  one\r\n\n two\n").unwrap();
        assert!(["one", "two"].into_iter().all(|said| secret.opens(said.as_bytes())));
        let wrong = ["", "on", "onf", "onee", "ONE", "one\ntwo", " one"];
        assert!(!wrong.into_iter().any(|said| secret.opens(said.as_bytes())));
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    #[test]
    fn who_is_refused_is_counted_and_short_tokens_are_too() {
        let long = "a".repeat(ADVISED);
        let secret = ListenerSecret::parse(&format!("{long}\nshort\nshorter")).unwrap();
        assert_eq!(
            (secret.short(), ListenerSecret::parse(&long).unwrap().short()),
            (Some((2, 32)), None)
        );
        let apart = secret.counted_apart();
        let admitted = [Some("short"), None, Some("wrong"), Some(&*long), Some("")]
            .map(|said| secret.clone().admits(said.map(str::as_bytes)).is_some());
        assert_eq!(admitted, [true, false, false, true, false]);
        assert_eq!((secret.refused(), secret.refused(), apart.refused()), (3, 0, 0));
        assert!(apart.admits(None).is_none());
        assert_eq!((secret.refused(), apart.refused()), (0, 1));
    }

    #[test]
    fn a_token_grants_the_verbs_of_its_line_and_no_others() {
        let secret =
            ListenerSecret::of_clients("one\n two \t verbs=reserve,settle\nthree verbs=report");
        let secret = secret.unwrap();
        let of = |said: &str| secret.admits(Some(said.as_bytes()));
        let verbs = |names: &str| PublicVerbs::parse(names).ok();
        assert_eq!(of("one"), Some(PublicVerbs::default()));
        assert_eq!((of("two"), of("three")), (verbs("reserve,settle"), verbs("report")));
        assert_eq!((of("four"), of("two verbs=reserve,settle")), (None, None));
        assert_eq!(secret.verbs(), verbs("reserve,settle,report").unwrap());
        for (text, expected) in [
            (
                "a\nb verbs=refunds",
                "line 2: `verbs`: \"refunds\" is no verb: expected one of check",
            ),
            ("a verbs=", "line 1: `verbs`: \"\" is no verb"),
            ("a verb=reset", "line 1 is no token"),
            ("a verbs=reset more", "line 1: `verbs`: \"reset more\" is no verb"),
        ] {
            let error = ListenerSecret::of_clients(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        let of_operators = ListenerSecret::parse("one verbs=reset").unwrap_err();
        assert!(of_operators.starts_with("line 1 is no token"), "{of_operators}");
    }

    #[test]
    fn copies_take_other_tokens_together() {
        let secret = ListenerSecret::parse("old").unwrap();
        let copies = [secret.clone(), secret.counted_apart()];
        secret.follow(&ListenerSecret::parse("new").unwrap());
        assert!(copies.iter().all(|copy| copy.opens(b"new") && !copy.opens(b"old")));
    }

    #[test]
    fn a_bearer_says_its_token_behind_the_scheme() {
        for said in [&b"Bearer a"[..], b"bearer  a ", b"BEARER a"] {
            assert_eq!(bearer(said), Some(&b"a"[..]));
        }
        for said in [&b""[..], b"Bearer", b"Basic a", b"a"] {
            assert_eq!(bearer(said), None);
        }
    }

    #[test]
    fn an_invalid_token_is_reported_by_its_line_and_not_shown() {
        assert!(ListenerSecret::parse(" \n\n").unwrap_err().contains("there is no token"));
        for wrong in ["a\n\nb c", "a\n\nb\u{7}", "a\n\nsch\u{fc}"] {
            let error = ListenerSecret::parse(wrong).unwrap_err();
            assert!(error.starts_with("line 3 is no token: expected visible ASCII"), "{error}");
        }
    }
}
