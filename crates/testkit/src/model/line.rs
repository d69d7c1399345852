//! A queue of requests that wait for one limiter, played through naively.
//!
//! The tests of waiting compare it with queues of the library: the requests that run, and their times.

use std::collections::VecDeque;

use super::{Model, Policy};

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It runs at this time.
    Runs(u64),
    /// It is refused, with the wait it would have had; `None` is never.
    Refused(Option<u64>),
    /// It left before it was admitted.
    Left,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    number: usize,
    cost: u64,
}

/// A limiter by its definition, and the requests in front of it in their order; time jumps from one
/// admission to the next.
#[derive(Clone, Debug)]
pub struct Line {
    /// The limiter.
    pub model: Model,
    /// The time.
    pub now_us: u64,
    /// True if the delay of an admitted request counts as part of its wait.
    pub delay_is_waiting: bool,
    line: VecDeque<Waiter>,
    /// When the last request was admitted.
    admitted_us: u64,
    /// The end of each request; `None` while it waits.
    pub ends: Vec<Option<End>>,
}

impl Line {
    /// A fresh limiter.
    pub fn new(policy: Policy, now_us: u64) -> Self {
        let (model, line, ends) = (Model::new(policy), VecDeque::new(), Vec::new());
        Self { model, now_us, delay_is_waiting: true, line, admitted_us: now_us, ends }
    }

    /// The number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.line.len()
    }

    /// When the head is admitted, if ever.
    fn next_us(&mut self) -> Option<u64> {
        let head = self.line.front()?;
        Some(self.now_us + self.model.peek(self.now_us, head.cost).retry_after_us?)
    }

    /// Admits all requests whose time comes up to `until_us`.
    pub fn pass(&mut self, until_us: u64) {
        while let Some(at) = self.next_us().filter(|at| *at <= until_us) {
            self.now_us = at;
            let Some(head) = self.line.pop_front() else { return };
            let answer = self.model.step(at, head.cost);
            assert!(answer.allowed, "the model's own wait suffices");
            self.ends[head.number] = Some(End::Runs(at + answer.delay_us));
            self.admitted_us = at;
        }
        self.now_us = until_us;
    }

    /// Adds a request. It stays in the queue if it could run in time provided that no request leaves.
    pub fn arrive(&mut self, cost: u64, max_wait_us: u64) {
        let waiter = Waiter { number: self.ends.len(), cost };
        self.ends.push(None);
        let mut future = self.clone();
        future.line.push_back(waiter);
        future.pass(u64::MAX >> 12);
        let taken = match future.ends[waiter.number] {
            Some(End::Runs(at)) if self.delay_is_waiting => at - self.now_us,
            // It was the last in the queue.
            Some(End::Runs(_)) => future.admitted_us - self.now_us,
            _ => return self.ends[waiter.number] = Some(End::Refused(None)),
        };
        let may_wait = max_wait_us > 0 || self.line.is_empty() && taken == 0;
        if taken <= max_wait_us && may_wait {
            self.line.push_back(waiter);
            self.pass(self.now_us);
        } else {
            self.ends[waiter.number] = Some(End::Refused(Some(taken)));
        }
    }

    /// Removes a request; later requests move up.
    pub fn leave(&mut self, number: usize) {
        let before = self.line.len();
        self.line.retain(|waiter| waiter.number != number);
        if self.line.len() < before {
            self.ends[number] = Some(End::Left);
            self.pass(self.now_us);
        }
    }
}
