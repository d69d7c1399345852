//! The operators of the admin listener: which role a client has there, by its token and by the name in its
//! certificate. `http/authorize.rs` asks for each request; a request that changes something needs [`Role::Change`].

use std::fmt;
use std::sync::Arc;

use super::peer::Peer;
use super::secret::ListenerSecret;

/// The rights of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Look at rules, metrics and limiters.
    Read,
    /// Change them, too.
    Change,
}

impl Role {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Change => "change",
        }
    }
}

/// The operators: every client, if neither tokens nor certificates are needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperatorAccess {
    /// The tokens of who may change.
    pub(crate) change: Option<ListenerSecret>,
    /// The tokens of who may only read.
    pub(crate) read: Option<ListenerSecret>,
    /// True if the listener answers only clients with a certificate.
    pub(crate) needs_certificate: bool,
    /// The names in certificates of clients who may change, also with a token that only reads.
    pub(crate) changers: Arc<[String]>,
    /// The names in certificates of clients who may only read, with any token.
    pub(crate) readers: Arc<[String]>,
}

impl OperatorAccess {
    pub(crate) const fn needs_token(&self) -> bool {
        self.change.is_some() || self.read.is_some()
    }

    /// The secret that counts refused tokens.
    pub(crate) fn counting(&self) -> Option<&ListenerSecret> {
        self.change.as_ref().or(self.read.as_ref())
    }

    /// Returns whether neither a token nor a certificate is needed.
    const fn is_open(&self) -> bool {
        !self.needs_token() && !self.needs_certificate
    }

    /// The operator that sent this token; `None`, and counted as refused, if a token is needed and this is not known.
    pub(crate) fn admit(&self, presented: Option<&[u8]>, peer: Peer) -> Option<Who> {
        let token = self.token(presented);
        if token.is_none() && self.needs_token() {
            // One of the secrets counts, so that a token that neither knows counts once.
            if let Some(secret) = self.counting() {
                secret.count_refused();
            }
            return None;
        }
        let role = self.role(token.map(|(role, _)| role), &peer);
        Some(Who { peer, token, role })
    }

    /// The role of an admitted client: one that is not known to change may only read.
    fn role(&self, of_token: Option<Role>, peer: &Peer) -> Role {
        // A certificate that may only read wins over any token, so that a lost token does not make its client a
        // changer.
        if self.readers.iter().any(|name| peer.is_named(name)) {
            return Role::Read;
        }
        let is_changer = self.changers.iter().any(|name| peer.is_named(name));
        let may_change = is_changer || self.is_open() || of_token == Some(Role::Change);
        if may_change { Role::Change } else { Role::Read }
    }

    /// Returns whether some client may change.
    pub(crate) fn has_changers(&self) -> bool {
        self.is_open() || self.change.is_some() || !self.changers.is_empty()
    }

    fn token(&self, presented: Option<&[u8]>) -> Option<(Role, usize)> {
        // Both are looked at, so that the time tells nothing of where a token was found.
        let [change, read] =
            [&self.change, &self.read].map(|secret| secret.as_ref()?.number(presented?));
        // A token that is in both files may change, because the file of changers comes first.
        let change = change.map(|number| (Role::Change, number));
        change.or(read.map(|number| (Role::Read, number)))
    }
}

/// An operator: its address, its certificate and token, and its role.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    peer: Peer,
    /// The number of the token in its file, from 1.
    token: Option<(Role, usize)>,
    pub(crate) role: Role,
}

impl Who {
    /// Returns whether it has shown a token or a certificate, or is on this machine.
    pub(crate) fn is_known(&self) -> bool {
        self.token.is_some() || self.peer.has_certificate() || self.peer.is_local()
    }
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.peer.fmt(f)?;
        match self.token {
            Some((Role::Change, number)) => write!(f, ", token {number}")?,
            Some((Role::Read, number)) => write!(f, ", read token {number}")?,
            None => {}
        }
        write!(f, ", role {}", self.role.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Arc<[String]> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn access(readers: &[&str]) -> OperatorAccess {
        let secret = |text| Some(ListenerSecret::parse(text).unwrap());
        let (change, read) = (secret("one\ntwo"), secret("three\ntwo"));
        let (readers, changers) = (names(readers), names(&["cid"]));
        OperatorAccess { change, read, readers, changers, ..OperatorAccess::default() }
    }

    fn peer(certificate: Option<&str>) -> Peer {
        Peer { address: "10.0.0.1:9".parse().ok(), ..Peer::named(certificate) }
    }

    #[test]
    fn a_token_has_the_role_of_its_file_and_a_reader_only_reads() {
        let shown = |access: &OperatorAccess, said: &str, name: Option<&str>| {
            access.admit(Some(said.as_bytes()), peer(name)).map(|who| who.to_string())
        };
        let access = access(&["bob"]);
        for (said, name, expected) in [
            ("one", None, Some("10.0.0.1:9, token 1, role change")),
            ("two", None, Some("10.0.0.1:9, token 2, role change")),
            ("three", None, Some("10.0.0.1:9, read token 1, role read")),
            ("one", Some("bob"), Some("10.0.0.1:9, certificate of bob, token 1, role read")),
            ("one", Some("ann"), Some("10.0.0.1:9, certificate of ann, token 1, role change")),
            ("three", Some("ann"), Some("10.0.0.1:9, certificate of ann, read token 1, role read")),
            (
                "three",
                Some("cid"),
                Some("10.0.0.1:9, certificate of cid, read token 1, role change"),
            ),
            ("four", Some("ann"), None),
        ] {
            assert_eq!(shown(&access, said, name).as_deref(), expected);
        }
        assert!(access.admit(None, peer(None)).is_none());
        assert_eq!(access.counting().unwrap().refused(), 2);
    }

    #[test]
    fn without_tokens_and_certificates_every_client_changes() {
        let access = OperatorAccess::default();
        assert_eq!(access.admit(None, peer(None)).unwrap().role, Role::Change);
        let reads = OperatorAccess {
            read: Some(ListenerSecret::parse("a").unwrap()),
            ..OperatorAccess::default()
        };
        assert!(reads.admit(None, peer(None)).is_none(), "without a token nothing changes");
        assert_eq!(reads.admit(Some(b"a"), peer(None)).unwrap().role, Role::Read);
        assert!(access.has_changers() && !reads.has_changers());
    }
}
