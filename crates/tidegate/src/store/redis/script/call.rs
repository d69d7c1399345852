//! What is sent for one step.

use std::sync::Arc;

use tidegate_core::{Micros, Question, Rule, Timestamp};

use super::known::{Form, Id, Script, script};
use super::{HEAD, VERSION};

/// What a step does with its limiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Decides and takes; no figures.
    Decide,
    /// Decides and takes, with figures.
    Ask,
    /// Decides only, with figures.
    Peek,
    /// Gives back what the cost, which was taken, is above what each request turned out to cost, or
    /// takes what it is below, even into debt; with figures. A refund is what turned out to cost nothing.
    Settle,
    /// Gives back the cost that an earlier step took, as far as it still counts and nothing else is
    /// given back in its place; with figures. A queue gives nothing back.
    Undo,
}

/// One limiter of a step: its key, its rule, and what the request costs it.
#[derive(Clone, Debug)]
pub struct Limiter<'a> {
    pub(super) key: &'a [u8],
    pub(super) rule: &'a Rule,
    pub(super) cost: u64,
    pub(super) actual: u64,
    pub(super) enforced: bool,
}

impl<'a> Limiter<'a> {
    /// The limiter of `key`, asked for `cost` units; `None` when the rule is unlimited, for then there is
    /// nothing to ask.
    #[must_use]
    pub fn new(key: &'a [u8], rule: &'a Rule, cost: u64) -> Option<Self> {
        let limited = Self { key, rule, cost, actual: 0, enforced: true };
        Some(limited).filter(|_| !rule.is_unlimited())
    }

    /// The same for a rule in shadow mode: it decides and counts, and never refuses.
    #[must_use]
    pub const fn shadow(mut self) -> Self {
        self.enforced = false;
        self
    }

    /// What the request turned out to cost, for [`Step::Settle`]; 0 unless said.
    #[must_use]
    pub const fn turned_out(mut self, actual: u64) -> Self {
        self.actual = actual;
        self
    }

    /// What it is known by where a request is remembered: key, cost, and the figures of its rule.
    pub(crate) fn identity(&self) -> (&'a [u8], u64, Option<[u8; HEAD]>) {
        (self.key, self.cost, self.rule.question(0).map(|question| head(&question)))
    }

    /// Units to take, or, below zero, to give back.
    fn units(&self, step: Step) -> i64 {
        let limited = |units: u64| units.min(Timestamp::MAX.as_micros()).cast_signed();
        match step {
            Step::Settle => limited(self.actual) - limited(self.cost),
            Step::Undo => -limited(self.cost),
            Step::Decide | Step::Ask | Step::Peek => limited(self.cost),
        }
    }

    fn question(&self, step: Step) -> Option<Question> {
        self.rule.question(self.units(step).unsigned_abs())
    }

    /// What the script is told: the head that its state has, then numbers.
    fn argument(&self, step: Step) -> Vec<u8> {
        let Some(question) = self.question(step) else { return Vec::new() };
        let mut told = head(&question).to_vec();
        let window = question.figures[1].cast_signed();
        for number in [self.units(step), window].into_iter().chain(question.words) {
            told.extend((number as f64).to_le_bytes());
        }
        told
    }
}

/// What a state says of itself: version, kind of room, and the four figures of the rule.
fn head(question: &Question) -> [u8; HEAD] {
    let [limit, window, third, fourth] = question.figures.map(u64::to_le_bytes);
    let mut head = [0; HEAD];
    (head[0], head[1]) = (VERSION, question.script.kind);
    head[2..6].copy_from_slice(&limit[..4]);
    head[6..12].copy_from_slice(&window[..6]);
    head[12..18].copy_from_slice(&third[..6]);
    head[18..22].copy_from_slice(&fourth[..4]);
    head
}

fn decimal(at: Timestamp) -> Vec<u8> {
    at.as_micros().to_string().into_bytes()
}

/// A script, and what it is called with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The script.
    pub script: Arc<Script>,
    /// Its `KEYS`.
    pub keys: Vec<Vec<u8>>,
    /// Its `ARGV`.
    pub args: Vec<Vec<u8>>,
    pub(super) id: Id,
    /// A flag for each limiter, which one that is alone does without.
    enforced: Vec<u8>,
}

impl Call {
    /// One step over `limiters`, no key of which is there twice: all that are enforced must admit, else
    /// none is charged.
    ///
    /// The time is the server's; or `at`, for a replay. Then nothing expires.
    #[must_use]
    pub fn new(limiters: &[Limiter<'_>], step: Step, at: Option<Timestamp>) -> Self {
        Self::made(limiters, step, at, None)
    }

    /// [`Step::Undo`] of a step that took the cost of all these limiters when the clock read `since`. Where
    /// a rule has changed meanwhile, nothing is given back.
    #[must_use]
    pub fn undo(limiters: &[Limiter<'_>], since: Timestamp, at: Option<Timestamp>) -> Self {
        Self::made(limiters, Step::Undo, at, Some(since))
    }

    fn made(
        limiters: &[Limiter<'_>],
        step: Step,
        at: Option<Timestamp>,
        since: Option<Timestamp>,
    ) -> Self {
        let kinds = limiters.iter().filter_map(|one| one.question(step));
        let kinds = kinds.fold(0, |kinds, question| kinds | 1 << question.script.kind);
        let form = if limiters.len() == 1 { Form::One } else { Form::Several };
        let id = Id { form, step, kinds, time_given: at.is_some(), remembers: false };
        let flags = limiters.iter().map(|one| if one.enforced { b'1' } else { b'0' });
        let enforced: Vec<u8> = flags.collect();
        let mut args: Vec<_> = limiters.iter().map(|one| one.argument(step)).collect();
        if form == Form::Several {
            args.push(enforced.clone());
        }
        args.extend([since, at].into_iter().flatten().map(decimal));
        let keys = limiters.iter().map(|one| one.key.to_vec()).collect();
        Self { script: script(id), keys, args, id, enforced }
    }

    /// The same step, whose answer is remembered for `time`, if it admits, under `key`, which lives in
    /// the slot of the limiters' keys: asked again by then, it is answered the same, takes nothing, and
    /// says that it [is repeated](super::Decided::repeated). A look tells what is remembered, and a
    /// refusal is not.
    ///
    /// The key stands for all that makes the request the same, its limiters, rules and costs included.
    #[must_use]
    pub fn remembering(mut self, key: Vec<u8>, time: Micros) -> Self {
        self.tell_enforced();
        let behind_enforced = self.keys.len() + 1;
        self.args.insert(behind_enforced, time.as_micros().to_string().into_bytes());
        self.keys.push(key);
        let form = if self.id.form == Form::One { Form::Several } else { self.id.form };
        let id = Id { form, remembers: true, ..self.id };
        Self { script: script(id), id, ..self }
    }

    /// What only scripts over several limiters are told.
    fn tell_enforced(&mut self) {
        if self.id.form == Form::One {
            self.args.insert(1, self.enforced.clone());
        }
    }

    /// The same step, which amends first what was written under another rule: what was used stays used.
    /// Takes longer, so it is asked only after [`Answer::Changed`](super::Answer::Changed).
    #[must_use]
    pub fn amending(mut self) -> Self {
        self.tell_enforced();
        let id = Id { form: Form::Amending, kinds: u32::MAX, ..self.id };
        Self { script: script(id), id, ..self }
    }

    /// Forgets limiters: they begin as new. The answer is a number, of those that there were.
    #[must_use]
    pub fn reset(keys: Vec<Vec<u8>>) -> (Script, Vec<Vec<u8>>) {
        (Script::new("return redis.call('UNLINK', unpack(KEYS))".to_owned()), keys)
    }
}
