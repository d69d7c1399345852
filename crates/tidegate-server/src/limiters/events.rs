//! Events of the store: log lines that name it, and its standing by them, for health and metrics. The layers over the
//! store report the events.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use tidegate::{Clock, Micros, StoreError, StoreEvent, StoreUrl, SystemClock, Timestamp};

/// The standing of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoreStanding {
    Available,
    /// Some of the nodes of a cluster are unavailable.
    PartlyUnavailable,
    Unavailable,
}

/// The first and the last slot of a part of a cluster; `None` for the whole store.
type SlotRange = Option<(u16, u16)>;

/// Logs the events of one store.
#[derive(Debug)]
pub(super) struct StoreEvents {
    /// Its address, without a password.
    store: String,
    clock: SystemClock,
    /// The parts of the store that are unavailable, and since when.
    lost: Mutex<BTreeMap<SlotRange, Timestamp>>,
}

impl StoreEvents {
    pub(super) fn of(url: &StoreUrl) -> Self {
        Self { store: url.to_string(), clock: SystemClock::new(), lost: Mutex::default() }
    }

    pub(super) fn standing(&self) -> StoreStanding {
        let lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        // `None`, the whole store, is ordered before every part.
        match lost.keys().next() {
            None => StoreStanding::Available,
            Some(None) => StoreStanding::Unavailable,
            Some(Some(_)) => StoreStanding::PartlyUnavailable,
        }
    }

    /// Notes the beginning or the end of an outage; returns how long one lasted that ends.
    fn noted(&self, event: &StoreEvent<'_>) -> Option<String> {
        let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let began = match event {
            StoreEvent::Lost(_) => {
                // An outage began with the first event, however often it is reported.
                lost.entry(None).or_insert_with(|| self.clock.now());
                None
            }
            StoreEvent::PartLost { first_slot, last_slot, .. } => {
                let part = Some((*first_slot, *last_slot));
                lost.entry(part).or_insert_with(|| self.clock.now());
                None
            }
            // Parts that are unavailable still are reported after it.
            StoreEvent::Back => std::mem::take(&mut *lost).remove(&None),
            StoreEvent::PartBack { first_slot, last_slot } => {
                lost.remove(&Some((*first_slot, *last_slot)))
            }
            _ => None,
        }?;
        let lasted = self.clock.now().as_micros().saturating_sub(began.as_micros());
        Some(Micros::from_micros(lasted / 1_000 * 1_000).to_string())
    }

    /// Returns whether an outage has taken the place of an overload that ends. The end of the outage is logged instead.
    fn is_superseded(&self, event: &StoreEvent<'_>) -> bool {
        matches!(event, StoreEvent::OverloadEnded { .. })
            && self.standing() == StoreStanding::Unavailable
    }

    /// Logs one line for an event of the store, however many requests noticed it.
    pub(super) fn log(&self, event: StoreEvent<'_>) {
        let store = &*self.store;
        let outage = self.noted(&event);
        match event {
            StoreEvent::Lost(error) => tracing::error!(
                store,
                %error,
                "the store is unavailable; rules decide by their own `on_store_error` until it is back"
            ),
            StoreEvent::StillLost(error) => {
                tracing::error!(store, %error, "the store is unavailable still, by now for another reason");
            }
            StoreEvent::Undecided { error: StoreError::OutOfMemory, .. } => tracing::warn!(
                store,
                "the store has no memory left: limiters that are there go on, and keys that are new are refused, or \
                 admitted by rules with `on_store_error = \"open\"`; expected a `maxmemory` that holds all limiters, or rules with `max_keys` (told once a minute, however often)"
            ),
            StoreEvent::Undecided { key, error } => {
                tracing::warn!(
                store,
                    %error,
                    "the store is there and did not decide; the rules did by their own `on_store_error` (told once a \
                     minute, however often; the level debug names the key)"
                );
                // It contains values that callers choose.
                tracing::debug!(key = %String::from_utf8_lossy(key), "a key that the store did not decide about");
            }
            StoreEvent::Back => {
                tracing::info!(store, outage, "the store is back; decisions are exact again")
            }
            StoreEvent::PartLost { first_slot, last_slot, error } => tracing::error!(
                store,
                %error,
                first_slot,
                last_slot,
                "a node of the store's cluster is unavailable; rules decide about its keys by their own \
                 `on_store_error` until it is back"
            ),
            StoreEvent::PartBack { first_slot, last_slot } => tracing::info!(
                store,
                outage,
                first_slot,
                last_slot,
                "a node of the store's cluster is back; decisions about its keys are exact again"
            ),
            StoreEvent::Nodes(nodes) => {
                tracing::info!(
                    store,
                    nodes,
                    "servers share the store: each has its share of a limit without it"
                );
            }
            StoreEvent::NoShare { rules, nodes } => tracing::warn!(
                store,
                nodes,
                rules = some_of(rules),
                "rules have fewer units than servers share the store: some servers have no share of these limits, \
                 and deny what they decide without the store"
            ),
            StoreEvent::Overloaded => tracing::warn!(
                store,
                "the store does not decide every request in time (a slow store, a busy machine, or too much load): the \
                 rest is decided in process by rules that are `local` or `open`, and refused by rules that are `closed`"
            ),
            _ if self.is_superseded(&event) => {}
            StoreEvent::OverloadEnded { undecided } => {
                tracing::info!(store, undecided, "the store decides every request in time again");
            }
            StoreEvent::LeasesLate { rule } => tracing::warn!(
                store,
                rule,
                "leases are granted too late to be spent, or not at all: the store decides each request; expected a \
                 store that replies sooner, or a longer `life` of the rule's `lease`"
            ),
            StoreEvent::LeasesInTime => tracing::info!(store, "leases are granted in time again"),
            StoreEvent::DataLost { limiters } => tracing::warn!(
                store,
                limiters,
                "the store lost data: this server carried the units in use of these limiters to it; expected data on \
                 disk, and a replica that is not behind"
            ),
            StoreEvent::Finding(finding) => tracing::warn!(store, "{finding}"),
            _ => {}
        }
    }
}

/// The first few names.
fn some_of(names: &[&str]) -> String {
    const MOST: usize = 8;
    let first = names.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{first} and {} more", names.len() - MOST) } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_one_short_line() {
        let names: Vec<_> = (0..10).map(|number| format!("r{number}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(some_of(&names), "r0, r1, r2, r3, r4, r5, r6, r7 and 2 more");
        assert_eq!(some_of(&names[..8]), "r0, r1, r2, r3, r4, r5, r6, r7");
    }

    #[test]
    fn a_store_stands_by_what_was_reported_last() {
        let events = StoreEvents::of(&"redis://:sesame@127.0.0.1".parse().unwrap());
        assert!(!events.store.contains("sesame") && events.store.contains("127.0.0.1"));
        let error = StoreError::Timeout;
        let part = |first_slot| StoreEvent::PartLost { first_slot, last_slot: 9, error: &error };
        for (event, standing, ends) in [
            (StoreEvent::Nodes(2), StoreStanding::Available, false),
            (part(5), StoreStanding::PartlyUnavailable, false),
            (StoreEvent::Lost(&error), StoreStanding::Unavailable, false),
            (StoreEvent::StillLost(&error), StoreStanding::Unavailable, false),
            (StoreEvent::Back, StoreStanding::Available, true),
            (part(0), StoreStanding::PartlyUnavailable, false),
            (StoreEvent::PartBack { first_slot: 0, last_slot: 9 }, StoreStanding::Available, true),
            (StoreEvent::Back, StoreStanding::Available, false),
        ] {
            assert_eq!(
                (events.noted(&event).is_some(), events.standing()),
                (ends, standing),
                "{event:?}"
            );
            // An overload does not end well while the store is silent.
            let ended = StoreEvent::OverloadEnded { undecided: 1 };
            assert_eq!(events.is_superseded(&ended), standing == StoreStanding::Unavailable);
            assert!(!events.is_superseded(&event), "{event:?}");
        }
    }
}
