//! The audit lines of changes: the change, its author, and the state before and after.
//! [`RequestDecider`](crate::decide::RequestDecider) writes them for every protocol.
//!
//! A line names rules and numbers, and never the entries of a request, which may name a caller. The line of a client
//! has no state before and after: clients may give back often, and each look asks the store.

use std::fmt;

use tidegate::{Answer, Descriptor, Request, StoreError};

use crate::limiters::{Limiters, SettleResult, was_not_sent};
use crate::listener::{Clients, Peer, Who, source};
use crate::logging::AUDIT;

/// The state of a request that no rule with a limiter matches.
const NO_LIMITER: &str = "no limiter";

/// The operator or the client that asks for a change.
#[derive(Clone, Debug)]
pub(crate) enum Changer {
    Operator(Who),
    /// A client of a public listener, with the number of its token in its file.
    Client {
        peer: Peer,
        token: Option<usize>,
    },
}

impl Changer {
    /// A client of these, at the other end of the current connection, by the token that it has shown.
    pub(crate) fn client(clients: &Clients, peer: Option<Peer>, token: Option<&[u8]>) -> Self {
        let peer = peer.unwrap_or_else(|| Peer::at(source::peer()));
        let secret = clients.secret.as_ref();
        Self::Client {
            peer,
            token: secret.zip(token).and_then(|(secret, token)| secret.number(token)),
        }
    }

    /// A client whose request changes nothing that an audit has.
    pub(crate) fn unnamed() -> Self {
        Self::Client { peer: Peer::default(), token: None }
    }

    /// Returns whether it is an operator that has shown a token or a certificate, or is on this machine.
    pub(crate) fn is_known_operator(&self) -> bool {
        self.operator().is_some_and(Who::is_known)
    }

    const fn operator(&self) -> Option<&Who> {
        match self {
            Self::Operator(who) => Some(who),
            Self::Client { .. } => None,
        }
    }
}

impl fmt::Display for Changer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator(who) => who.fmt(f),
            Self::Client { peer, token } => {
                peer.fmt(f)?;
                token.iter().try_for_each(|number| write!(f, ", token {number}"))
            }
        }
    }
}

/// A change of limiters that is under way.
pub(crate) struct Audit<'a> {
    limiters: &'a Limiters,
    by: &'a Changer,
    verb: &'static str,
    /// The limiters before the change, if an operator asks.
    before: String,
}

impl<'a> Audit<'a> {
    /// Looks at the limiters before the change of an operator, unless the request has `looked` anyway.
    pub(crate) async fn begin(
        limiters: &'a Limiters,
        by: &'a Changer,
        verb: &'static str,
        request: &Request<'_>,
        looked: Option<&Answer<'_>>,
    ) -> Self {
        // Other requests may come between the looks and the change, so the difference is not the change alone.
        let before = match (by, looked) {
            (Changer::Client { .. }, _) => String::new(),
            (Changer::Operator(_), Some(looked)) => standing(looked),
            (Changer::Operator(_), None) => standing(&limiters.peek(request).await),
        };
        Self { limiters, by, verb, before }
    }

    /// Logs the change, and how the limiters stand after it. `changed` is the number of limiters if the verb knows it.
    pub(crate) async fn end(
        self,
        request: &Request<'_>,
        changed: Result<Option<usize>, &StoreError>,
    ) {
        let Self { limiters, by: who, verb, before } = self;
        // Named by their numbers alone, because entries may name a caller.
        let units = request.descriptors().iter().map(Descriptor::units);
        // A reset forgets all used units, so the costs of its descriptors say nothing.
        let units = (verb != "reset").then(|| units.fold(0, u64::saturating_add));
        let domain = request.domain();
        let descriptors = request.descriptors().len();
        if let Changer::Client { .. } = who {
            let listener = source::listener();
            match changed {
                Ok(limiters) => tracing::info!(
                    target: AUDIT, %who, listener, verb, domain, descriptors, units, limiters,
                    "limiters were changed by a client"
                ),
                // Nothing was changed.
                Err(error) if was_not_sent(error) => {}
                Err(error) => tracing::warn!(
                    target: AUDIT, %who, listener, verb, domain, descriptors, units, %error,
                    "it is unknown whether a client changed limiters"
                ),
            }
            return;
        }
        // After an error too: the second look may show whether the change took place.
        let after = standing(&limiters.peek(request).await);
        // Two looks that find none: a misspelt entry or domain, for example. They do not see limiters that are
        // unlimited.
        let is_seen = before != NO_LIMITER || after != NO_LIMITER;
        match changed {
            Ok(changed) if changed.map_or(!is_seen, |changed| changed == 0) => tracing::info!(
                target: AUDIT, %who, verb, domain, descriptors, units,
                "a change of an operator matched no limiter"
            ),
            Ok(_) => tracing::info!(
                target: AUDIT, %who, verb, domain, descriptors, units, before, after,
                "limiters were changed by an operator"
            ),
            Err(error) if was_not_sent(error) => tracing::warn!(
                target: AUDIT, %who, verb, domain, descriptors, units, %error,
                "an operator changed no limiter, because the store was not asked"
            ),
            Err(error) => tracing::warn!(
                target: AUDIT, %who, verb, domain, descriptors, units, before, after, %error,
                "it is unknown whether an operator changed limiters"
            ),
        }
    }
}

/// Logs that an operator settled a reservation, unless it was settled before.
pub(crate) fn settled(by: &Changer, done: Option<&SettleResult>) {
    let (Some(who), Some(done)) = (by.operator(), done) else { return };
    let (before, after) = done.costs();
    tracing::info!(
        target: AUDIT, %who, verb = "settle", domain = done.domain, before, after,
        "limiters were changed by an operator"
    );
}

/// Logs that an operator settled a reservation, which waits for the store.
pub(crate) fn waits(by: &Changer, actual: &[u64]) {
    if let Some(who) = by.operator() {
        let after = format!("settled for {actual:?}");
        tracing::info!(
            target: AUDIT, %who, verb = "settle", after,
            "limiters are changed by an operator as soon as the store answers"
        );
    }
}

/// Logs that an operator dropped a reservation, whose units stay taken.
pub(crate) fn dropped(by: &Changer) {
    if let Some(who) = by.operator() {
        tracing::info!(
            target: AUDIT, %who, verb = "drop",
            "a reservation was dropped by an operator, and its units stay taken"
        );
    }
}

/// Logs that an operator renewed the permits of a reservation.
pub(crate) fn renewed(by: &Changer, renewed: bool) {
    if let Some(who) = by.operator() {
        tracing::info!(
            target: AUDIT, %who, verb = "renew", renewed,
            "limiters were changed by an operator"
        );
    }
}

/// Each rule with what its limiter has left: `per-user: 3 of 5, all: 97 of 100`.
fn standing(answer: &Answer<'_>) -> String {
    let matched = answer.matched();
    if matched.is_empty() {
        return NO_LIMITER.to_owned();
    }
    let each = matched.iter().map(|one| {
        let decision = one.decision();
        format!("{}: {} of {}", one.rule().name(), decision.remaining, decision.limit)
    });
    each.collect::<Vec<_>>().join(", ")
}
