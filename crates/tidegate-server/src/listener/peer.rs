//! The other end of a connection, as it is named in the log of changes.

use std::fmt;
use std::net::SocketAddr;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The identifier of a common name, in DER: 2.5.4.3.
const COMMON_NAME: [u8; 5] = [6, 3, 85, 4, 3];

/// A client: its address, and the name in its certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peer {
    /// `None` if the connection has broken.
    pub(super) address: Option<SocketAddr>,
    /// The common name of its certificate, else the first DNS name; `None` without a certificate.
    pub(super) certificate: Option<String>,
}

impl Peer {
    pub(super) fn of(address: Option<SocketAddr>, chain: Option<&[CertificateDer<'_>]>) -> Self {
        let certificate = chain.and_then(|chain| chain.first()).map(name);
        Self { address, certificate }
    }

    /// Returns whether it is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.address.is_some_and(|address| address.ip().to_canonical().is_loopback())
    }

    /// Returns whether its certificate has this name.
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.certificate.as_deref() == Some(name)
    }

    /// A client with this name in its certificate.
    #[cfg(test)]
    pub(super) fn named(name: Option<&str>) -> Self {
        Self { address: None, certificate: name.map(str::to_owned) }
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
        self.certificate.iter().try_for_each(|name| write!(f, ", certificate of {name}"))
    }
}

fn name(certificate: &CertificateDer<'_>) -> String {
    let unnamed = || "an unnamed client".to_owned();
    let Ok(parsed) = EndEntityCert::try_from(certificate) else { return unnamed() };
    let dns = || parsed.valid_dns_names().next().map(str::to_owned);
    common_name(parsed.subject()).or_else(dns).unwrap_or_else(unnamed)
}

/// The common name of a subject: a text with its kind and its length, shorter than 128 bytes, behind
/// the identifier.
fn common_name(subject: &[u8]) -> Option<String> {
    let at = subject.windows(COMMON_NAME.len()).position(|window| window == COMMON_NAME)?;
    let [_kind, length, text @ ..] = subject.get(at + COMMON_NAME.len()..)? else { return None };
    let text = text.get(..usize::from(*length))?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_common_name_is_found_and_broken_subjects_have_none() {
        let subject = [&[48, 12, 49, 10, 48, 8][..], &COMMON_NAME, &[12, 3], b"ada"].concat();
        assert_eq!(common_name(&subject).as_deref(), Some("ada"));
        for end in 0..subject.len() {
            assert_eq!(common_name(&subject[..end]), None);
        }
    }

    #[test]
    fn only_loopback_is_local() {
        let is_local = |at: &str| Peer::of(at.parse().ok(), None).is_local();
        assert!(is_local("127.0.0.1:1") && is_local("[::1]:1") && is_local("[::ffff:127.0.0.1]:1"));
        assert!(!is_local("10.0.0.1:1") && !Peer::default().is_local());
    }
}
