//! The clients of the public listeners, and the verbs that each is granted: by the settings for all clients, by its
//! token, and by its certificate. HTTP and gRPC look up the token of each request, RESP the token that a connection
//! gave.

use std::sync::Arc;

use super::{ListenerSecret, Peer};
use crate::verbs::{PublicVerb, PublicVerbs};

/// A verb that is granted to the clients whose certificate has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateVerb {
    name: String,
    verb: PublicVerb,
}

impl CertificateVerb {
    pub(crate) const fn new(name: String, verb: PublicVerb) -> Self {
        Self { name, verb }
    }
}

/// The clients that the public listeners answer, and their verbs. A client has the verbs of all clients, the verbs of
/// its token, and the verbs of its certificate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    /// Without a secret every client is answered.
    pub(crate) secret: Option<ListenerSecret>,
    /// The verbs of all clients.
    pub(crate) verbs: PublicVerbs,
    /// The verbs of names in certificates.
    pub(crate) certificates: Arc<[CertificateVerb]>,
}

impl Clients {
    /// The verbs of every client of a connection, with any token.
    pub(crate) fn of_connection(&self, peer: impl FnOnce() -> Peer) -> PublicVerbs {
        if self.certificates.is_empty() {
            return self.verbs;
        }
        let peer = peer();
        let of_peer = self.certificates.iter().filter(|one| peer.is_named(&one.name));
        self.verbs.and(of_peer.map(|one| one.verb).collect())
    }
}
