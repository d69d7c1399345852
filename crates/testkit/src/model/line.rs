//! A limiter that is waited for in turn: a queue of requests that is played out.

use std::collections::VecDeque;

use super::{Model, Policy};

/// How a request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It runs at this time.
    Runs(u64),
    /// It is refused, with the time it would have taken; none is never.
    Refused(Option<u64>),
    /// It left before.
    Left,
}

#[derive(Clone, Copy, Debug)]
struct Waiter {
    number: usize,
    cost: u64,
}

/// A limiter as its definition has it, and those before it in their order; time jumps from one admission to the next.
#[derive(Clone, Debug)]
pub struct Line {
    /// What is waited for.
    pub model: Model,
    /// The time.
    pub now_us: u64,
    /// Whether the time for which a queue holds what it admitted is part of the wait.
    pub delay_is_waiting: bool,
    line: VecDeque<Waiter>,
    /// When the last one was admitted.
    admitted_us: u64,
    /// What came of each request; none for one that waits.
    pub ends: Vec<Option<End>>,
}

impl Line {
    /// A limiter that nobody has asked yet.
    pub fn new(policy: Policy, now_us: u64) -> Self {
        let (model, line, ends) = (Model::new(policy), VecDeque::new(), Vec::new());
        Self { model, now_us, delay_is_waiting: true, line, admitted_us: now_us, ends }
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.line.len()
    }

    /// When the head goes, if it ever does.
    fn next_us(&mut self) -> Option<u64> {
        let head = self.line.front()?;
        Some(self.now_us + self.model.peek(self.now_us, head.cost).retry_after_us?)
    }

    /// Lets all go whose time comes up to `until_us`.
    pub fn pass(&mut self, until_us: u64) {
        while let Some(at) = self.next_us().filter(|at| *at <= until_us) {
            self.now_us = at;
            let Some(head) = self.line.pop_front() else { return };
            let told = self.model.step(at, head.cost);
            assert!(told.allowed, "the model's own wait suffices");
            self.ends[head.number] = Some(End::Runs(at + told.delay_us));
            self.admitted_us = at;
        }
        self.now_us = until_us;
    }

    /// One arrives; it stays in the line if it could run in time should nobody leave.
    pub fn arrive(&mut self, cost: u64, max_wait_us: u64) {
        let waiter = Waiter { number: self.ends.len(), cost };
        self.ends.push(None);
        let mut future = self.clone();
        future.line.push_back(waiter);
        future.pass(u64::MAX >> 12);
        let taken = match future.ends[waiter.number] {
            Some(End::Runs(at)) if self.delay_is_waiting => at - self.now_us,
            // It stood last in the line.
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

    /// One leaves; those behind it move up.
    pub fn leave(&mut self, number: usize) {
        let before = self.line.len();
        self.line.retain(|waiter| waiter.number != number);
        if self.line.len() < before {
            self.ends[number] = Some(End::Left);
            self.pass(self.now_us);
        }
    }
}
