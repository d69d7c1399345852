//! The other end of a connection: its address and the name in its certificate. The listener makes it; roles and verbs
//! are granted by it ([`access`](super::access), [`clients`](super::clients)), and the log of changes names it.

use std::fmt;
use std::net::SocketAddr;

use rustls::pki_types::CertificateDer;

use super::certificate_name::CertificateName;

/// A client: its address, and the name in its certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    /// `None` if the connection has broken.
    pub(super) address: Option<SocketAddr>,
    /// The name in its certificate; `None` without a certificate.
    pub(super) certificate: Option<CertificateName>,
}

impl Peer {
    pub(super) fn of(address: Option<SocketAddr>, chain: Option<&[CertificateDer<'_>]>) -> Self {
        let certificate = chain.and_then(|chain| chain.first()).map(CertificateName::of);
        Self { address, certificate }
    }

    /// A client at this address, which has shown no certificate that is asked for.
    pub(crate) const fn at(address: Option<SocketAddr>) -> Self {
        Self { address, certificate: None }
    }

    /// Returns whether it is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        // A socket for both families shows 127.0.0.1 as `::ffff:127.0.0.1`.
        self.address.is_some_and(|address| address.ip().to_canonical().is_loopback())
    }

    /// Returns whether its certificate has this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.certificate.as_ref().is_some_and(|certificate| certificate.is(name))
    }

    /// Returns whether it has shown a certificate, which the listener has verified.
    pub(crate) const fn has_certificate(&self) -> bool {
        self.certificate.is_some()
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Some(address) => write!(f, "{address}")?,
            None => f.write_str("a client that has left")?,
        }
        self.certificate.iter().try_for_each(|name| write!(f, ", {name}"))
    }
}

#[cfg(test)]
impl Peer {
    /// A client with this name in its certificate.
    pub(super) fn named(name: Option<&str>) -> Self {
        Self { address: None, certificate: name.map(CertificateName::named) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_local() {
        let is_local = |at: &str| Peer::of(at.parse().ok(), None).is_local();
        assert!(is_local("127.0.0.1:1") && is_local("[::1]:1") && is_local("[::ffff:127.0.0.1]:1"));
        assert!(!is_local("10.0.0.1:1") && !Peer::default().is_local());
    }
}
