//! A failover from a store that stands still and goes on later, when a replica is in its place.

use std::mem::replace;

use super::super::history::{LeasesEventKind, LeasesHistory, LeasesLossCause, RequestId, TakenFor};
use super::super::store::{LeasesQuestion, LeasesReply, LeasesStore};
use super::{LeasesNext, LeasesWorld};

/// A store that a replica has taken the place of.
#[derive(Debug)]
pub(super) struct FormerStore<'a> {
    store: LeasesStore<'a>,
    /// It stands still until then.
    until: u64,
    /// Its actions that its successor does not know.
    history: LeasesHistory,
}

impl LeasesWorld<'_> {
    /// A replica that has all data takes the place of the store. It goes on when no request that was sent to it waits.
    pub(super) fn promote(&mut self) {
        let [from, to] = self.frozen;
        let until = to + (to - from).max(self.plan.deadline) + 1;
        let successor = self.store.successor();
        let store = replace(&mut self.store, successor);
        self.former = Some(FormerStore { store, until, history: LeasesHistory::default() });
        self.server += 1;
    }

    /// Units of a request do not come back: they are lost, unless only a store took them that was replaced.
    pub(super) fn not_undone(&mut self, by: RequestId, key: usize, units: u64) {
        let is_own = |what: &LeasesEventKind| matches!(what, LeasesEventKind::Taken { by: Some(one), .. } if *one == by);
        let mut events = self.former.iter().flat_map(|former| &former.history.events);
        if !events.any(|event| is_own(&event.what)) {
            self.history.miss(
                self.time,
                key,
                TakenFor::Request(by),
                units,
                LeasesLossCause::NotUndone,
            );
        }
    }

    /// A question reaches the store that was replaced. It takes units that no limiter counts any more, and replies late.
    pub(super) fn reach_former(
        &mut self,
        node: usize,
        begun: u64,
        server: usize,
        question: LeasesQuestion,
    ) {
        let time = self.time;
        let Some(FormerStore { store, until, history }) = &mut self.former else { return };
        if time < *until {
            let until = *until;
            return self.at(until, LeasesNext::ToStore { node, begun, server, question });
        }
        if let LeasesQuestion::Undo { .. } = question {
            // Its successor counts the units it took before.
            return self.not_heard(&question);
        }
        // Units given back to it are not back at its successor.
        let Some(reply) = store.ask(time, &question, history, |_| 0) else { return };
        if !matches!(reply, LeasesReply::Back { .. })
            && let Some(delay) = self.plan.network.delay(&mut self.rng)
        {
            self.at(time + delay, LeasesNext::ToNode { node, begun, server, reply });
        }
    }
}
