//! The call that is sent for one step: a script, its keys and its arguments.

use std::sync::Arc;

use tidegate_core::{Micros, Timestamp};

use super::count::Count;
use super::id::{Form, Id, Runner};
use super::known::{Script, script};
use super::limiter::{LOOKS, Limiter};
use super::step::Step;
use super::text;

pub(super) fn decimal(at: Timestamp) -> Vec<u8> {
    at.as_micros().to_string().into_bytes()
}

fn digits(length: Micros) -> Vec<u8> {
    length.as_micros().to_string().into_bytes()
}

/// A script and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The script.
    pub script: Arc<Script>,
    /// Its `KEYS`.
    pub keys: Vec<Vec<u8>>,
    /// Its `ARGV`.
    pub args: Vec<Vec<u8>>,
    pub(super) form: Form,
    pub(super) step: Step,
    /// A bit for each kind of algorithm.
    pub(super) kinds: u32,
    /// An argument for each key.
    pub(super) arguments: Vec<Vec<u8>>,
    /// A flag for each limiter of a call that amends nothing.
    pub(super) enforced: Vec<u8>,
    /// A flag for each limiter of a call that amends.
    flags: Vec<u8>,
    /// The time, if it is given.
    pub(super) at: Option<Timestamp>,
    /// When the units of an undo were taken.
    since: Option<Timestamp>,
    /// How long a lease lasts.
    life: Option<Micros>,
    /// The time that the answer is remembered, if it is.
    pub(super) dedupe: Option<Micros>,
    /// The keys that are counted.
    pub(super) counts: Vec<Count>,
    /// Whether the server has no memory for new limiters.
    pub(super) has_no_memory: bool,
}

impl Call {
    /// One step over `limiters`, each with a key of its own: all that are enforced must admit, else
    /// none is charged.
    ///
    /// The time is the server's; or `at`, for a replay, in which nothing expires.
    #[must_use]
    pub fn new(limiters: &[Limiter<'_>], step: Step, at: Option<Timestamp>) -> Self {
        Self::made(limiters, step, at, None)
    }

    /// [`Step::Undo`] of a step that took the cost of all these limiters when the clock read
    /// `since`. A limiter whose rule has changed since gets nothing back.
    #[must_use]
    pub fn undo(limiters: &[Limiter<'_>], since: Timestamp, at: Option<Timestamp>) -> Self {
        Self::made(limiters, Step::Undo, at, Some(since))
    }

    /// [`Step::Lease`]: takes the cost of a limiter ahead, to be spent elsewhere within `life`. What is not spent is
    /// given back with [`Call::undo`]. A reply other than [`Answer::Decided`](super::Answer::Decided) did nothing.
    #[must_use]
    pub fn lease(limiter: &Limiter<'_>, life: Micros, at: Option<Timestamp>) -> Self {
        let call = Self::made(std::slice::from_ref(limiter), Step::Lease, at, None);
        Self { life: Some(life), ..call }.composed()
    }

    fn made(
        limiters: &[Limiter<'_>],
        step: Step,
        at: Option<Timestamp>,
        since: Option<Timestamp>,
    ) -> Self {
        let kinds = limiters.iter().filter_map(|one| one.script_input(step));
        let kinds = kinds.fold(0, |kinds, input| kinds | 1 << input.script.kind);
        let flags: Vec<u8> = limiters.iter().map(|one| one.flag(step)).collect();
        let enforced: Vec<u8> = flags.iter().map(|flag| flag & (b'0' | LOOKS | 1)).collect();
        let looks = flags.iter().any(|flag| flag & LOOKS > 0);
        let is_one = limiters.len() == 1 && !looks;
        let form = if is_one { Form::One } else { Form::Several };
        let keys = limiters.iter().map(|one| one.key.to_vec()).collect();
        let arguments = limiters.iter().map(|one| one.argument(step)).collect();
        let counts = if at.is_some() { Vec::new() } else { Count::of(limiters, step) };
        Self {
            enforced,
            flags,
            since,
            counts,
            ..Self::plain(form, step, kinds, keys, arguments, at)
        }
        .composed()
    }

    /// A call that has yet to be composed.
    fn plain(
        form: Form,
        step: Step,
        kinds: u32,
        keys: Vec<Vec<u8>>,
        arguments: Vec<Vec<u8>>,
        at: Option<Timestamp>,
    ) -> Self {
        let id = Id { kinds, amends: false, has_bounds: false, runner: Runner::Dispatch };
        Self {
            script: script(id),
            keys,
            args: Vec::new(),
            form,
            step,
            kinds,
            arguments,
            enforced: Vec::new(),
            flags: Vec::new(),
            at,
            since: None,
            life: None,
            dedupe: None,
            counts: Vec::new(),
            has_no_memory: false,
        }
    }

    /// The call with its script and its arguments, in the order in which `prelude.lua` lists them.
    fn composed(mut self) -> Self {
        let amends = matches!(self.form, Form::Amending | Form::GivingBack);
        let kinds = if amends { u32::MAX } else { self.kinds };
        let has_bounds = self.has_no_memory || !self.counts.is_empty();
        let leases = self.step == Step::Lease;
        let runner = if leases { Runner::Lease } else { Runner::Dispatch };
        self.script = script(Id { kinds, amends, has_bounds, runner });
        let verb = match (self.form, self.step) {
            (Form::GivingBack, _) => "give_back",
            (_, step) => step.verb(),
        };
        let mut last = vec![
            self.at.map(decimal).unwrap_or_default(),
            self.since.map(decimal).or_else(|| self.life.map(digits)).unwrap_or_default(),
            if self.has_no_memory { b"full".to_vec() } else { Vec::new() },
        ];
        last.extend(Count::arguments(&self.counts));
        if self.counts.is_empty() {
            last.truncate(last.iter().rposition(|one| !one.is_empty()).map_or(0, |end| end + 1));
        }
        let flags = match self.form {
            Form::One => Vec::new(),
            Form::Amending => self.flags.clone(),
            Form::Several | Form::GivingBack => self.enforced.clone(),
        };
        self.args = if self.form == Form::One && last.is_empty() {
            let verb = (self.step != Step::Ask).then(|| verb.as_bytes().to_vec());
            self.arguments.iter().cloned().chain(verb).collect()
        } else {
            let dedupe = self.dedupe.map(digits);
            let arguments = self.arguments.iter().cloned().chain(dedupe);
            [verb.as_bytes().to_vec(), flags].into_iter().chain(arguments).chain(last).collect()
        };
        self
    }

    /// Gives units back to each of these keys, under whatever rule its state was written last: for
    /// a reservation whose key has no limit any more. A key without a state stays so. There is at least one key.
    #[must_use]
    pub fn giving_back(keys: &[(&[u8], u64)], at: Option<Timestamp>) -> Self {
        let units = keys.iter().map(|(_, units)| (*units).min(Timestamp::MAX.as_micros()));
        let arguments = units.map(|units| units.to_string().into_bytes()).collect();
        let enforced = vec![b'1'; keys.len()];
        let keys = keys.iter().map(|(key, _)| key.to_vec()).collect();
        let plain = Self::plain(Form::GivingBack, Step::Settle, u32::MAX, keys, arguments, at);
        Self { enforced, ..plain }.composed()
    }

    /// Remembers the answer for `time`, if it admits, under `key`, which lives in the slot of the
    /// limiters' keys: the same request within that time gets the same answer, takes nothing, and [is marked as repeated](super::Decided::repeated). A look returns the
    /// remembered answer; a refusal is not remembered.
    ///
    /// The key stands for everything that makes the request the same: its limiters, rules and
    /// costs.
    #[must_use]
    pub fn remembering(mut self, key: Vec<u8>, time: Micros) -> Self {
        self.keys.push(key);
        let form = if self.form == Form::One { Form::Several } else { self.form };
        Self { form, dedupe: Some(time), ..self }.composed()
    }

    /// Returns whether no caller waits for it.
    pub(crate) const fn is_background(&self) -> bool {
        matches!(self.step, Step::Lease | Step::Undo)
    }

    /// Makes the step amend first what was written under another rule: what was used stays used. It
    /// takes longer, so it is sent only after [`Answer::Changed`](super::Answer::Changed).
    #[must_use]
    pub fn amending(self) -> Self {
        Self { form: Form::Amending, ..self }.composed()
    }

    /// Makes the step fit a server that has no memory: existing limiters go on, and a new one is
    /// answered [`Answer::NoRoom`](super::Answer::NoRoom).
    #[must_use]
    pub fn without_memory(self) -> Self {
        Self { has_no_memory: true, ..self }.composed()
    }

    /// Returns whether it was made by [`Call::without_memory`].
    #[must_use]
    pub const fn is_without_memory(&self) -> bool {
        self.has_no_memory
    }

    /// Returns whether it counts keys: then its last argument is the part of a cluster's node that runs it.
    pub(crate) const fn counts(&self) -> bool {
        !self.counts.is_empty()
    }

    /// Returns whether it only asks whether a request goes on, and neither gives back nor reports usage.
    pub(crate) const fn only_asks(&self) -> bool {
        matches!(self.step, Step::Decide | Step::Ask | Step::Peek | Step::Lease)
    }

    /// Forgets limiters: they start fresh. The reply is the number of those that existed.
    #[must_use]
    pub fn reset(keys: Vec<Vec<u8>>) -> (Script, Vec<Vec<u8>>) {
        (Script::new(text::RESET.to_owned()), keys)
    }
}
