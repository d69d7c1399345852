//! Calls made of waiting requests, sent together, and their replies.

use std::rc::Rc;
use std::slice::from_ref;

use redis::{Pipeline, Value};
use tidegate_rules::shared::is_of_server;

use super::fair_queue::{KeyHash, KeyMap, TakenTurn};
use super::link::Link;
use super::pending::Pending;
use crate::error::of_script;
use crate::keys::slot_of;
use crate::route::{Delivered, Route, reply_of, with_part};
use crate::script::{CallBatch, Each, Replies};
use crate::store::StoreError;

/// Most requests of one call, so that no call occupies the store for long.
pub(super) const MOST_REQUESTS: usize = 256;

/// Fewer requests of one limiter each cost the store as much in one call as alone.
const LEAST_OF_EACH: usize = 4;

/// A call.
#[derive(Debug)]
pub(super) enum Sent {
    /// One request.
    One(Rc<Pending>),
    /// Requests that are decided in turn, each with its repeats.
    Merged(CallBatch, Vec<Vec<Rc<Pending>>>),
    /// Requests of one limiter each.
    Each(Each, Vec<Rc<Pending>>),
}

/// Calls that are sent in one write.
#[derive(Debug, Default)]
pub(super) struct Flush {
    pub(super) calls: Vec<Sent>,
    /// The number of limiters they decide; a limiter counts once for each call that decides it.
    pub(super) limiters: usize,
    pub(super) taken: Vec<TakenTurn>,
}

/// The keys of requests that can go as one call, up to a few.
#[derive(Debug, Default)]
pub(super) struct CallKeys(Vec<KeyHash>);

impl CallKeys {
    /// Adds the keys of a request, if it fits.
    pub(super) fn fits(&mut self, keys: &[KeyHash]) -> bool {
        let known = self.0.len();
        self.0.extend(keys.iter().filter(|key| !self.0.contains(key)).copied().collect::<Vec<_>>());
        // A request by itself goes with any number of keys.
        let fits = known == 0 || self.0.len() <= CallBatch::MOST_KEYS;
        if !fits {
            self.0.truncate(known);
        }
        fits
    }
}

/// Makes calls of requests that wait for the same key: one call of each row that can be merged, and one call of each
/// other request.
fn calls_of(requests: Vec<Rc<Pending>>) -> Vec<Sent> {
    let mut calls = Vec::new();
    let mut row = Vec::new();
    for request in requests {
        if request.asked.can_merge() && !request.alone.get() {
            row.push(request);
        } else {
            // It ends the row, because requests for one key are decided in the order of arrival.
            calls.extend(merged(std::mem::take(&mut row)));
            calls.push(Sent::One(request));
        }
    }
    calls.extend(merged(row));
    calls
}

/// One call of all these requests; `None` if there is none.
fn merged(mut row: Vec<Rc<Pending>>) -> Option<Sent> {
    if row.len() < 2 {
        return row.pop().map(Sent::One);
    }
    let groups = groups_of(row);
    let asked: Vec<_> =
        groups.iter().filter_map(|all| Some((&*all.first()?.asked, all.len()))).collect();
    Some(Sent::Merged(CallBatch::of(&asked), groups))
}

fn can_be_joined(request: &Pending) -> bool {
    request.asked.can_go_with_others() && !request.alone.get() && !request.asking.get()
}

fn is_same_slot(one: &Pending, other: &Pending) -> bool {
    let [one, other] = [one, other].map(|request| request.asked.keys.first());
    one.map(|key| slot_of(key)) == other.map(|key| slot_of(key))
}

/// One call of all these requests, or one for each if they are too few.
fn joined(row: Vec<Rc<Pending>>) -> Vec<Sent> {
    if row.len() < LEAST_OF_EACH {
        return row.into_iter().map(Sent::One).collect();
    }
    let calls: Vec<_> = row.iter().map(|request| &*request.asked).collect();
    let each = Each::of(&calls);
    vec![Sent::Each(each, row)]
}

/// Requests in the order in which they are decided, each with its repeats. No request is put before
/// an earlier request that names one of its keys.
fn groups_of(requests: Vec<Rc<Pending>>) -> Vec<Vec<Rc<Pending>>> {
    let mut groups: Vec<Vec<Rc<Pending>>> = Vec::new();
    // The last group that names each key.
    let mut last: KeyMap<usize> = KeyMap::default();
    for request in requests {
        // A repeat may join an earlier group only if that group is the last for every key of it. Otherwise it would be
        // decided before a request that came between and names one of its keys.
        let mut latest = request.keys.iter().map(|key| last.get(key).copied());
        let first = latest.next().flatten();
        let group = first.filter(|first| latest.all(|other| other == Some(*first)));
        let group = group.and_then(|number| groups.get_mut(number)).filter(|group| {
            group.first().is_some_and(|known| request.asked.is_repeat_of(&known.asked))
        });
        if let Some(group) = group {
            group.push(request);
        } else {
            last.extend(request.keys.iter().map(|key| (*key, groups.len())));
            groups.push(vec![request]);
        }
    }
    groups
}

impl Sent {
    pub(super) fn requests(&self) -> impl Iterator<Item = &Rc<Pending>> {
        let (each, merged) = match self {
            Self::One(one) => (from_ref(one), [].as_slice()),
            Self::Merged(_, groups) => ([].as_slice(), groups.as_slice()),
            Self::Each(_, requests) => (requests.as_slice(), [].as_slice()),
        };
        each.iter().chain(merged.iter().flatten())
    }

    /// The number of limiters it decides, which is its cost to the store.
    fn limiters(&self) -> usize {
        let keys = match self {
            Self::One(request) => &request.asked.keys,
            Self::Merged(batch, _) => &batch.keys,
            Self::Each(each, _) => &each.keys,
        };
        keys.len().max(1)
    }

    /// Hands the reply, which came over `route`, to the requests that wait for it.
    pub(super) fn reply(&self, value: Value, route: &Route) -> Handed {
        let mut handed = Handed::default();
        let failed = match (self, reply_of(value)) {
            (Self::One(request), replied) => {
                let replied = replied.map(|reply| Delivered { reply, route: route.clone() });
                handed.late = usize::from(request.reply(replied));
                return handed;
            }
            (_, Err(error)) => error,
            (Self::Merged(batch, groups), Ok(reply)) => match batch.replies(reply) {
                Ok(replies) => {
                    let each = groups.iter().zip(replies);
                    each.for_each(|(all, replies)| handed.hand(all, replies, route));
                    return handed;
                }
                Err(error) => error.into(),
            },
            (Self::Each(each, requests), Ok(reply)) => match each.replies(reply) {
                Ok(replies) => {
                    for (request, reply) in requests.iter().zip(replies) {
                        let replies = vec![Replies { reply, times: 1 }];
                        handed.hand(from_ref(request), replies, route);
                    }
                    return handed;
                }
                Err(error) => error.into(),
            },
        };
        handed.late = self.fail(&failed);
        handed
    }

    /// Hands the same error to all requests; returns how many were late.
    pub(super) fn fail(&self, error: &StoreError) -> usize {
        self.requests().filter(|request| request.reply(Err(error.clone()))).count()
    }
}

/// The result of handing replies out.
#[derive(Default)]
pub(super) struct Handed {
    /// The number of late replies.
    pub(super) late: usize,
    /// An error of one request that would befall others as well.
    pub(super) gone: Option<StoreError>,
}

impl Handed {
    /// Hands each repeat of a request its reply.
    fn hand(&mut self, all: &[Rc<Pending>], replies: Vec<Replies>, route: &Route) {
        let mut repeats = all.iter();
        for Replies { reply, times } in replies {
            let reply = reply.map_err(|error| of_script(&error));
            if let Err(error) = &reply
                && is_of_server(error)
            {
                self.gone = Some(error.clone());
            }
            let reply = reply.map(|reply| Delivered { reply, route: route.clone() });
            let late = repeats.by_ref().take(times).filter(|one| one.reply(reply.clone())).count();
            self.late += late;
        }
    }
}

impl Flush {
    /// Adds calls made of requests that wait for the same key.
    pub(super) fn add(&mut self, requests: Vec<Rc<Pending>>, taken: TakenTurn) {
        let calls = calls_of(requests);
        self.limiters += calls.iter().map(Sent::limiters).sum::<usize>();
        self.calls.extend(calls);
        self.taken.push(taken);
    }

    /// Makes one call of requests that follow each other and have one limiter each. In a cluster they must be in the
    /// same slot.
    pub(super) fn join(&mut self, is_cluster: bool) {
        if self.calls.len() < LEAST_OF_EACH {
            return;
        }
        let mut calls = Vec::with_capacity(self.calls.len());
        let mut row: Vec<Rc<Pending>> = Vec::new();
        for call in std::mem::take(&mut self.calls) {
            match call {
                Sent::One(request) if can_be_joined(&request) => {
                    let has_other_slot = is_cluster
                        && row.first().is_some_and(|first| !is_same_slot(first, &request));
                    if row.len() >= Each::MOST || has_other_slot {
                        calls.extend(joined(std::mem::take(&mut row)));
                    }
                    row.push(request);
                }
                other => {
                    calls.extend(joined(std::mem::take(&mut row)));
                    calls.push(other);
                }
            }
        }
        calls.extend(joined(row));
        self.calls = calls;
    }

    /// All calls as one write; `part` names the slots of the node.
    pub(super) fn pipeline(&self, link: &mut Link, part: &[u8]) -> Pipeline {
        let mut pipeline = Pipeline::with_capacity(self.calls.len());
        for call in &self.calls {
            match call {
                Sent::One(request) => {
                    if request.asking.get() {
                        // It holds for the next command alone.
                        pipeline.add_command(redis::cmd("ASKING"));
                    }
                    let asked = &request.asked;
                    let args = with_part(&asked.args, asked.counts(), part);
                    pipeline.add_command(link.command(&asked.script, &asked.keys, &args));
                }
                Sent::Each(each, _) => {
                    pipeline.add_command(link.command(&each.script, &each.keys, &each.args));
                }
                Sent::Merged(batch, _) => {
                    let args = with_part(&batch.args, batch.counts, part);
                    pipeline.add_command(link.command(&batch.script, &batch.keys, &args));
                }
            }
        }
        pipeline
    }

    /// Its calls, each with its reply; replies to `ASKING` are left out.
    pub(super) fn with_replies(self, values: Vec<Value>) -> impl Iterator<Item = (Sent, Value)> {
        let mut values = values.into_iter();
        self.calls.into_iter().map(move |call| {
            if matches!(&call, Sent::One(request) if request.asking.get()) {
                values.next();
            }
            // A reply that is missing becomes a reply that no script gives, and counts as a failure.
            let value = values.next().unwrap_or(Value::Okay);
            (call, value)
        })
    }
}
