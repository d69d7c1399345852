//! The call that is sent for one step: a script, its keys and its arguments.

use std::sync::Arc;

use tidegate_core::{Micros, Timestamp};

use super::VERSION;
use super::count::Count;
use super::id::{Form, Id};
use super::known::{Script, script};
use super::limiter::{LOOKS, Limiter};
use super::step::Step;

fn decimal(at: Timestamp) -> Vec<u8> {
    at.as_micros().to_string().into_bytes()
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
    pub(super) id: Id,
    /// A flag for each limiter; a single limiter needs none.
    pub(super) enforced: Vec<u8>,
    /// A flag for each limiter of a call that amends.
    flags: Vec<u8>,
    /// Whether a limiter's values may come in force only with units taken under them.
    tries: bool,
    /// The time that the answer is remembered; zero if it is not.
    pub(super) dedupe: Micros,
    /// The keys that are counted.
    pub(super) counts: Vec<Count>,
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

    fn made(
        limiters: &[Limiter<'_>],
        step: Step,
        at: Option<Timestamp>,
        since: Option<Timestamp>,
    ) -> Self {
        let kinds = limiters.iter().filter_map(|one| one.script_input(step));
        let kinds = kinds.fold(0, |kinds, input| kinds | 1 << input.script.kind);
        let form = if limiters.len() == 1 { Form::One } else { Form::Several };
        let time_given = at.is_some();
        let flags: Vec<u8> = limiters.iter().map(|one| one.flag(step)).collect();
        let enforced: Vec<u8> = flags.iter().map(|flag| flag & (b'0' | LOOKS | 1)).collect();
        let looks = flags.iter().any(|flag| flag & LOOKS > 0);
        let counts = if time_given { Vec::new() } else { Count::of(limiters, step) };
        let id = Id {
            form,
            step,
            kinds,
            time_given,
            remembers: false,
            tries: false,
            looks,
            counts: !counts.is_empty(),
            no_memory: false,
        };
        let mut args: Vec<_> = limiters.iter().map(|one| one.argument(step)).collect();
        if form == Form::Several {
            args.push(enforced.clone());
        }
        args.extend([since, at].into_iter().flatten().map(decimal));
        args.extend(Count::arguments(&counts));
        let keys = limiters.iter().map(|one| one.key.to_vec()).collect();
        let decides = !matches!(step, Step::Settle | Step::Undo);
        let tries =
            flags != enforced || decides && limiters.iter().any(|one| one.revision.is_some());
        let dedupe = Micros::ZERO;
        Self { script: script(id), keys, args, id, enforced, flags, tries, dedupe, counts }
    }

    /// Gives units back to each of these keys, under whatever rule its state was written last: for
    /// a reservation whose key has no limit any more. A key without a state stays so.
    #[must_use]
    pub fn giving_back(keys: &[(&[u8], u64)], at: Option<Timestamp>) -> Self {
        let id = Id {
            form: Form::GivingBack,
            step: Step::Settle,
            kinds: u32::MAX,
            time_given: at.is_some(),
            remembers: false,
            tries: false,
            looks: false,
            counts: false,
            no_memory: false,
        };
        let units = keys.iter().map(|(_, units)| (*units).min(Timestamp::MAX.as_micros()));
        let mut args = vec![VERSION.to_string().into_bytes()];
        args.extend(units.map(|units| units.to_string().into_bytes()));
        args.extend(at.map(decimal));
        let keys = keys.iter().map(|(key, _)| key.to_vec()).collect();
        let (enforced, flags, counts) = (Vec::new(), Vec::new(), Vec::new());
        let (tries, dedupe) = (false, Micros::ZERO);
        Self { script: script(id), keys, args, id, enforced, flags, tries, dedupe, counts }
    }

    /// Remembers the answer for `time`, if it admits, under `key`, which lives in the slot of the
    /// limiters' keys: the same request within that time gets the same answer, takes nothing, and [is marked as repeated](super::Decided::repeated). A look returns the
    /// remembered answer; a refusal is not remembered.
    ///
    /// The key stands for everything that makes the request the same: its limiters, rules and
    /// costs.
    #[must_use]
    pub fn remembering(mut self, key: Vec<u8>, time: Micros) -> Self {
        self.tell_enforced();
        let behind_enforced = self.keys.len() + 1;
        self.args.insert(behind_enforced, time.as_micros().to_string().into_bytes());
        self.keys.push(key);
        let form = if self.id.form == Form::One { Form::Several } else { self.id.form };
        let id = Id { form, remembers: true, ..self.id };
        Self { script: script(id), id, dedupe: time, ..self }
    }

    /// Adds the argument that only scripts over several limiters have.
    fn tell_enforced(&mut self) {
        if self.id.form == Form::One {
            self.args.insert(1, self.enforced.clone());
        }
    }

    /// Makes the step amend first what was written under another rule: what was used stays used. It
    /// takes longer, so it is sent only after [`Answer::Changed`](super::Answer::Changed).
    #[must_use]
    pub fn amending(mut self) -> Self {
        self.tell_enforced();
        let tries = self.tries;
        if tries && let Some(flags) = self.args.get_mut(self.enforced.len()) {
            flags.clone_from(&self.flags);
        }
        let id = Id { form: Form::Amending, kinds: u32::MAX, tries, ..self.id };
        Self { script: script(id), id, ..self }
    }

    /// Makes the step fit a server that has no memory: existing limiters go on, and a new one is
    /// answered [`Answer::NoRoom`](super::Answer::NoRoom).
    #[must_use]
    pub fn without_memory(self) -> Self {
        let id = Id { no_memory: true, ..self.id };
        Self { script: script(id), id, ..self }
    }

    /// Whether it was made by [`Call::without_memory`].
    #[must_use]
    pub const fn is_without_memory(&self) -> bool {
        self.id.no_memory
    }

    /// Whether it counts keys: then its last argument is the part of a cluster's node that runs it.
    pub(crate) const fn counts(&self) -> bool {
        self.id.counts
    }

    /// Whether it only asks whether a request goes on, and neither gives back nor reports usage.
    pub(crate) const fn only_asks(&self) -> bool {
        matches!(self.id.step, Step::Decide | Step::Ask | Step::Peek)
    }

    /// Forgets limiters: they start fresh. The reply is the number of those that existed.
    #[must_use]
    pub fn reset(keys: Vec<Vec<u8>>) -> (Script, Vec<Vec<u8>>) {
        (Script::new("return redis.call('UNLINK', unpack(KEYS))".to_owned()), keys)
    }
}
