//! The roles of operators at the admin listener: by token, and by the name in a certificate.

use std::fmt;
use std::sync::Arc;

use super::peer::Peer;
use super::secret::Secret;

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

/// The operators: everybody, if there are neither tokens nor readers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// The tokens of who may change.
    pub(crate) change: Option<Secret>,
    /// The tokens of who may only read.
    pub(crate) read: Option<Secret>,
    /// The names in certificates of clients who may only read, whatever their token.
    pub(crate) readers: Arc<[String]>,
}

impl Access {
    pub(crate) const fn needs_token(&self) -> bool {
        self.change.is_some() || self.read.is_some()
    }

    /// The secret that counts refused tokens.
    pub(crate) fn counting(&self) -> Option<Secret> {
        self.change.clone().or_else(|| self.read.clone())
    }

    /// The operator with this token; `None` if a token is needed and this is none, which is counted.
    pub(crate) fn admit(&self, said: Option<&[u8]>, peer: Peer) -> Option<Who> {
        let token = match self.needs_token() {
            true => Some(self.token(said).or_else(|| self.refused())?),
            false => None,
        };
        let is_reader = self.readers.iter().any(|name| peer.is_named(name));
        let role = token.map_or(Role::Change, |(role, _)| role);
        let role = if is_reader { Role::Read } else { role };
        Some(Who { peer, token, role })
    }

    fn token(&self, said: Option<&[u8]>) -> Option<(Role, usize)> {
        let number = |secret: &Option<Secret>| secret.as_ref()?.number(said?);
        let (change, read) = (number(&self.change), number(&self.read));
        let change = change.map(|number| (Role::Change, number));
        change.or(read.map(|number| (Role::Read, number)))
    }

    fn refused<T>(&self) -> Option<T> {
        self.change.iter().chain(&self.read).take(1).for_each(Secret::count_refused);
        None
    }
}

/// An operator: where it asks from, with which certificate and token, and what it may do.
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

    fn access(readers: &[&str]) -> Access {
        let readers = readers.iter().map(|name| (*name).to_owned()).collect();
        let secret = |text| Some(Secret::parse(text).unwrap());
        Access { change: secret("one\ntwo"), read: secret("three\ntwo"), readers }
    }

    fn peer(certificate: Option<&str>) -> Peer {
        Peer { address: "10.0.0.1:9".parse().ok(), certificate: certificate.map(str::to_owned) }
    }

    #[test]
    fn a_token_has_the_role_of_its_file_and_a_reader_only_reads() {
        let shown = |access: &Access, said: &str, name: Option<&str>| {
            access.admit(Some(said.as_bytes()), peer(name)).map(|who| who.to_string())
        };
        let access = access(&["bob"]);
        for (said, name, expected) in [
            ("one", None, Some("10.0.0.1:9, token 1, role change")),
            ("two", None, Some("10.0.0.1:9, token 2, role change")),
            ("three", None, Some("10.0.0.1:9, read token 1, role read")),
            ("one", Some("bob"), Some("10.0.0.1:9, certificate of bob, token 1, role read")),
            ("one", Some("ann"), Some("10.0.0.1:9, certificate of ann, token 1, role change")),
            ("four", Some("ann"), None),
        ] {
            assert_eq!(shown(&access, said, name).as_deref(), expected);
        }
        assert!(access.admit(None, peer(None)).is_none());
        assert_eq!(access.counting().unwrap().refused(), 2);
    }

    #[test]
    fn without_tokens_everybody_may_change_but_readers() {
        let access = Access { readers: Arc::new(["bob".to_owned()]), ..Access::default() };
        let role = |name| access.admit(None, peer(name)).unwrap().role;
        assert_eq!(
            (role(None), role(Some("bob")), role(Some("ann"))),
            (Role::Change, Role::Read, Role::Change)
        );
        let reads = Access { read: Some(Secret::parse("a").unwrap()), ..Access::default() };
        assert!(reads.admit(None, peer(None)).is_none(), "who has no token does not change");
        assert_eq!(reads.admit(Some(b"a"), peer(None)).unwrap().role, Role::Read);
    }
}
