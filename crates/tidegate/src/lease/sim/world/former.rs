//! A failover from a store that stands still and goes on later, when a replica is in its place.

use std::mem::replace;

use super::super::history::{History, RequestId, Source, What, Why};
use super::super::store::{Question, Reply, Store};
use super::{Next, World};

/// A store that a replica has taken the place of.
#[derive(Debug)]
pub(super) struct Former<'a> {
    store: Store<'a>,
    /// It stands still until then.
    until: u64,
    /// Its actions that its successor does not know.
    history: History,
}

impl World<'_> {
    /// A replica that has all data takes the place of the store. It goes on when no request that was sent to it waits.
    pub(super) fn promote(&mut self) {
        let [from, to] = self.frozen;
        let until = to + (to - from).max(self.plan.deadline) + 1;
        let successor = self.store.successor();
        let store = replace(&mut self.store, successor);
        self.former = Some(Former { store, until, history: History::default() });
        self.server += 1;
    }

    /// Units of a request do not come back: they are lost, unless only a store took them that was replaced.
    pub(super) fn not_undone(&mut self, by: RequestId, key: usize, units: u64) {
        let is_own = |what: &What| matches!(what, What::Taken { by: Some(one), .. } if *one == by);
        let mut events = self.former.iter().flat_map(|former| &former.history.events);
        if !events.any(|event| is_own(&event.what)) {
            self.history.miss(self.time, key, Source::Request(by), units, Why::NotUndone);
        }
    }

    /// A question reaches the store that was replaced. It takes units that no limiter counts any more, and replies late.
    pub(super) fn reach_former(
        &mut self,
        node: usize,
        begun: u64,
        server: usize,
        question: Question,
    ) {
        let time = self.time;
        let Some(Former { store, until, history }) = &mut self.former else { return };
        if time < *until {
            let until = *until;
            return self.at(until, Next::ToStore { node, begun, server, question });
        }
        if let Question::Undo { .. } | Question::Settle { .. } = question {
            // Its successor counts the units it took before.
            return self.not_heard(&question);
        }
        // Units given back to it are not back at its successor.
        let Some(reply) = store.ask(time, &question, history, |_| 0) else { return };
        if !matches!(reply, Reply::Back { .. })
            && let Some(delay) = self.plan.network.delay(&mut self.rng)
        {
            self.at(time + delay, Next::ToNode { node, begun, server, reply });
        }
    }
}
