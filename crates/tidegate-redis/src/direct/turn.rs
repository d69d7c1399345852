//! Turns on the connection of a runtime: opened for the calls that follow, or with a call under way.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use redis::Value;
use tidegate_core::Micros;
use tokio::runtime::Id;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use super::call::{
    CallRun, DirectCount, SentQuestion, by_deadline, failed, ran_nothing, run, until_late,
    value_or_error,
};
use super::{AGAIN, DirectLinks, LOADED, LinkState, MOST_SLOW, OpenLink, SLOW};
use crate::counts::RequestCounts;
use crate::dispatch::{LOOK, Link, run_id};
use crate::inbox::{NoReply, Question};
use crate::link::connect_plain;
use crate::route::{Delivered, reply_of};
use crate::store::StoreError;

/// The right to use the connection of a runtime. It ends when this is dropped: a connection without a fault is in
/// `link` then.
pub(super) struct LinkTurn {
    links: Arc<DirectLinks>,
    runtime: Id,
    link: Option<OpenLink>,
    /// A question that was not run, and goes by the store's thread.
    back: Option<Question>,
}

/// The right to send a call, and the end of its time.
pub(super) struct CallTurn {
    turn: LinkTurn,
    question: Question,
    over: oneshot::Receiver<bool>,
}

impl Drop for LinkTurn {
    fn drop(&mut self) {
        let mut links = self.links.lock();
        let Some(link) = links.get_mut(&self.runtime) else { return };
        let has_load = matches!(&link.state, LinkState::UnderWay(call) if call.others > 1);
        let now = Instant::now();
        let state = match self.link.take() {
            Some(open) if link.slow >= MOST_SLOW => LinkState::Idle(open, now + AGAIN),
            Some(open) if has_load => LinkState::Idle(open, now + LOADED),
            Some(open) => LinkState::Idle(open, now),
            None => LinkState::Closed(now + AGAIN),
        };
        let was = mem::replace(&mut link.state, state);
        // Under the lock, so that no later question overtakes them.
        for question in self.back.take().into_iter().chain(mem::take(&mut link.waiting)) {
            self.links.shared.inbox.push(question);
        }
        if matches!(was, LinkState::UnderWay(..)) {
            // Last: without a call under way, questions are pushed without the lock.
            self.links.under_way.fetch_sub(1, Release);
        }
    }
}

impl LinkTurn {
    pub(super) fn new(links: &Arc<DirectLinks>, runtime: Id, link: Option<OpenLink>) -> Self {
        Self { links: Arc::clone(links), runtime, link, back: None }
    }

    /// Opens the connection, to the server that the store's thread has found fit.
    pub(super) async fn open(mut self) {
        let shared = Arc::clone(&self.links.shared);
        let Some(address) = self.links.address.clone() else { return };
        let open = async {
            let (mut connection, socket) = connect_plain(&shared.settings, &address).await?;
            // A server that does not tell its id may be another server.
            let run_id = run_id(&mut connection).await?;
            Ok::<_, StoreError>(run_id.map(|run_id| (connection, socket, run_id)))
        };
        let Ok(Ok(Some((connection, socket, run_id)))) = timeout(LOOK, open).await else { return };
        let server = shared.server_of(Some(run_id));
        if server == shared.fit_server.load(Relaxed) {
            self.link = Some(OpenLink { link: Link::new(connection, 0, server), socket });
        }
    }

    /// Notes that the call was sent: the thread asks no question before it from now on.
    fn sent(&self, at: Instant) {
        if let Some(link) = self.links.lock().get_mut(&self.runtime)
            && let LinkState::UnderWay(call) = &mut link.state
        {
            call.sent_at = Some(at);
        }
    }

    /// Answers a question with a reply in time. Returns the turn of the next call.
    fn answer(
        mut self,
        link: OpenLink,
        value: Value,
        mut caller: SentQuestion,
        took: Duration,
    ) -> Option<CallTurn> {
        let shared = Arc::clone(&self.links.shared);
        shared.counts.calls.add(Micros::from(took).as_micros(), 1);
        let route = link.link.route.clone();
        let reply = match value_or_error(value) {
            // It ran nothing. The store's thread asks it as well, and judges.
            Err(error) if ran_nothing(&error) => {
                self.back = caller.0.take();
                return None;
            }
            Err(error) => {
                RequestCounts::add(&shared.counts.failed, 1);
                Err(error)
            }
            Ok(value) => reply_of(value).map(|reply| Delivered { reply, route }),
        };
        // Before the answer, after which the caller may ask again.
        let next = self.next(link, took);
        caller.answer(reply.map_err(|error| NoReply { error, late: None }));
        next
    }

    /// Ends a call. Returns the turn of the next call if a single question has waited for it.
    fn next(mut self, open: OpenLink, took: Duration) -> Option<CallTurn> {
        let next = self.next_question(&open, took);
        self.link = Some(open);
        let (question, over) = next?;
        Some(CallTurn::new(self, question, over))
    }

    fn next_question(
        &self,
        open: &OpenLink,
        took: Duration,
    ) -> Option<(Question, oneshot::Receiver<bool>)> {
        let mut links = self.links.lock();
        let link = links.get_mut(&self.runtime)?;
        link.slow = if took > SLOW { link.slow.saturating_add(1) } else { 0 };
        if link.waiting.len() > 1 || link.slow >= MOST_SLOW {
            return None;
        }
        let question = link.waiting.pop().filter(|question| !question.caller.is_gone())?;
        let server = self.links.may_be_alone(link, &question);
        if !server.is_some_and(|server| open.serves(server)) {
            link.waiting.push(question);
            return None;
        }
        let over = link.begin(&self.links, self.runtime, &question);
        Some((question, over))
    }
}

impl CallTurn {
    pub(super) const fn new(
        turn: LinkTurn,
        question: Question,
        over: oneshot::Receiver<bool>,
    ) -> Self {
        Self { turn, question, over }
    }

    /// Sends calls, as long as a single question waits at the end of each.
    pub(super) async fn run(self) {
        let mut next = Some(self);
        while let Some(turn) = next {
            next = turn.ask().await;
        }
    }

    /// Sends a call, and answers the question with the reply. If the server has not run the call, it goes by the store's
    /// thread. Returns the turn of the next call.
    async fn ask(self) -> Option<Self> {
        let Self { mut turn, question, over } = self;
        let shared = Arc::clone(&turn.links.shared);
        // A runtime that has stood still leaves the store no time.
        let left = question.deadline.saturating_duration_since(Instant::now());
        let Some(link) = turn.link.take_if(|_| left >= shared.deadline / 4) else {
            turn.back = Some(question);
            return None;
        };
        let route = link.link.route.clone();
        let call = Arc::clone(&question.asked);
        let deadline = question.deadline;
        let caller = SentQuestion(Some(question));
        let under_way = DirectCount::new(&shared.counts);
        let sent_at = Instant::now();
        turn.sent(sent_at);
        let mut running: CallRun = Box::pin(run(link, Arc::clone(&call), deadline));
        match by_deadline(&mut running, over).await {
            Ok(Ok((link, value))) => turn.answer(link, value, caller, sent_at.elapsed()),
            Ok(Err(error)) => {
                drop(turn);
                failed(&shared, error, deadline, caller).await;
                None
            }
            // This runtime may have stood still, so no limit opens: the silence says nothing about the store.
            Err(together) => {
                drop(turn);
                if !call.is_background() {
                    shared.note_overloaded();
                }
                let late = caller.give_up(StoreError::Overloaded { together });
                drop(under_way);
                until_late(&shared, running, route, &call, late).await;
                None
            }
        }
    }
}
