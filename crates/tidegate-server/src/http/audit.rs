//! The audit lines of operators' changes: the operator, the change, and the state before and after. The handlers of
//! `admin.rs`, `reserve.rs` and `reservations.rs` write them.
//!
//! A line names rules and numbers, and never the entries of a request, which may name a caller.

use tidegate::{Answer, Descriptor, Request, StoreError};

use super::app::App;
use crate::limiters::{SettleResult, was_not_sent};
use crate::listener::Who;
use crate::logging::AUDIT;

/// The state of a request that no rule with a limiter matches.
const NO_LIMITER: &str = "no limiter";

/// A change of limiters that is under way; nothing if no operator asks.
pub(super) struct Audit<'a>(Option<Begun<'a>>);

/// The operator and the change, with the limiters before it.
struct Begun<'a> {
    who: &'a Who,
    verb: &'static str,
    before: String,
}

impl<'a> Audit<'a> {
    /// Looks at the limiters before the change.
    pub(super) async fn begin(
        app: &App,
        who: Option<&'a Who>,
        verb: &'static str,
        request: &Request<'_>,
    ) -> Self {
        match who {
            Some(_) => Self::after_look(who, verb, &app.limiters.peek(request).await),
            None => Self(None),
        }
    }

    /// Begins with a look that the request needs anyway.
    pub(super) fn after_look(
        who: Option<&'a Who>,
        verb: &'static str,
        looked: &Answer<'_>,
    ) -> Self {
        // Other requests may come between the looks and the change, so the difference is not the change alone.
        Self(who.map(|who| Begun { who, verb, before: standing(looked) }))
    }

    /// Logs the change, and how the limiters stand after it. `changed` is the number of limiters if the verb knows it.
    pub(super) async fn end(
        self,
        app: &App,
        request: &Request<'_>,
        changed: Result<Option<usize>, &StoreError>,
    ) {
        let Some(Begun { who, verb, before }) = self.0 else { return };
        // After an error too: the second look may show whether the change took place.
        let after = standing(&app.limiters.peek(request).await);
        let units = request.descriptors().iter().map(Descriptor::units);
        // A reset forgets all used units, so the costs of its descriptors say nothing.
        let units = (verb != "reset").then(|| units.fold(0, u64::saturating_add));
        let domain = request.domain();
        let descriptors = request.descriptors().len();
        // Two looks that find none: a misspelt entry or domain, for example. They do not see limiters that are unlimited.
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
pub(super) fn settled(who: Option<&Who>, done: Option<&SettleResult>) {
    let (Some(who), Some(done)) = (who, done) else { return };
    let (before, after) = done.costs();
    tracing::info!(
        target: AUDIT, %who, verb = "settle", domain = done.domain, before, after,
        "limiters were changed by an operator"
    );
}

/// Logs that an operator settled a reservation, which waits for the store.
pub(super) fn waits(who: Option<&Who>, actual: &[u64]) {
    if let Some(who) = who {
        let after = format!("settled for {actual:?}");
        tracing::info!(
            target: AUDIT, %who, verb = "settle", after,
            "limiters are changed by an operator as soon as the store answers"
        );
    }
}

/// Logs that an operator dropped a reservation, whose units stay taken.
pub(super) fn dropped(who: Option<&Who>) {
    if let Some(who) = who {
        tracing::info!(
            target: AUDIT, %who, verb = "drop",
            "a reservation was dropped by an operator, and its units stay taken"
        );
    }
}

/// Logs that an operator renewed the permits of a reservation.
pub(super) fn renewed(who: Option<&Who>, renewed: bool) {
    if let Some(who) = who {
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
