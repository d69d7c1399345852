//! The call that is sent for one step: a script, its keys and its arguments.

use std::sync::{Arc, LazyLock};

use smallvec::SmallVec;
use tidegate_core::{Micros, Timestamp};

use super::ScriptStep;
use super::joined::{JoinedScript, REMOVE, Runner, ScriptId, script};
use super::limiter::{CountedKey, LOOKS, ScriptLimiter};
use super::units::{LeaseRecord, Surplus};

pub(super) fn decimal(at: Timestamp) -> Vec<u8> {
    at.as_micros().to_string().into_bytes()
}

/// A flag for each limiter.
type Flags = SmallVec<[u8; 8]>;

/// The form of a call, and so of its reply: its verb, and one limiter or several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CallForm {
    One,
    Several,
    /// One limiter or several, and some may have been written under another rule.
    Amending,
    /// Any number of limiters, each under whatever rule it was written.
    GivingBack,
    /// Forgets any number of limiters.
    Resetting,
    /// No step over limiters.
    Other,
}

/// The script of a call that has yet to be composed.
static NOT_COMPOSED: LazyLock<Arc<JoinedScript>> =
    LazyLock::new(|| Arc::new(JoinedScript::new(String::new())));

/// A script and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The script.
    pub script: Arc<JoinedScript>,
    /// Its `KEYS`.
    pub keys: Vec<Vec<u8>>,
    /// Its `ARGV`.
    pub args: Vec<Vec<u8>>,
    pub(super) form: CallForm,
    pub(super) step: ScriptStep,
    /// A bit for each kind of algorithm.
    pub(super) kinds: u32,
    /// A flag for each limiter of a call that amends nothing.
    pub(super) enforced: Flags,
    /// A flag for each limiter of a call that amends.
    flags: Flags,
    /// The time, if it is given.
    pub(super) at: Option<Timestamp>,
    /// The time for which a lease lasts.
    life: Option<Micros>,
    /// The argument of the record of leases, whose key is the last.
    lease: Option<Vec<u8>>,
    /// The argument of the remembered answer, if it is remembered: its time, and the name of the reservation.
    pub(super) dedupe: Option<Vec<u8>>,
    /// The keys that are counted.
    pub(super) counts: Vec<CountedKey>,
    /// True if the server has no memory for new limiters.
    pub(super) has_no_memory: bool,
    /// The units that are carried, for the script.
    pub(super) carried: Vec<u8>,
    /// The server that must run it, if not any server.
    server: Option<u64>,
}

impl Call {
    /// One step over `limiters`, each with a key of its own: all that are enforced must admit, else
    /// none is charged.
    ///
    /// The time is the server's; or `at`, for a replay, in which nothing expires.
    #[must_use]
    pub fn new(limiters: &[ScriptLimiter<'_>], step: ScriptStep, at: Option<Timestamp>) -> Self {
        Self::made(limiters, step, at)
    }

    /// [`ScriptStep::Undo`] of a step that took the cost of each of these limiters at its time in `since`.
    #[must_use]
    pub fn undo(
        limiters: &[ScriptLimiter<'_>],
        since: &[Timestamp],
        at: Option<Timestamp>,
    ) -> Self {
        let dated = limiters.iter().zip(since);
        let limiters: Vec<_> =
            dated.map(|(one, since)| one.clone().taken_at(Some(*since))).collect();
        Self::made(&limiters, ScriptStep::Undo, at)
    }

    /// [`ScriptStep::Lease`]: takes the cost of a limiter ahead, to be spent elsewhere within `life`, and notes it in the
    /// record. Leases of the same node with tickets below `oldest` are dropped from the record. Unspent units are given
    /// back with [`Call::give_back_lease`]. A reply other than [`CallResult::Decided`](super::CallResult::Decided) did nothing.
    #[must_use]
    pub fn lease(
        limiter: &ScriptLimiter<'_>,
        life: Micros,
        (record, oldest): (&LeaseRecord, u64),
        at: Option<Timestamp>,
    ) -> Self {
        let call = Self::made(std::slice::from_ref(limiter), ScriptStep::Lease, at);
        call.changed(|call| {
            call.life = Some(life);
            call.note(record, record.argument([oldest, 0]));
        })
    }

    /// [`ScriptStep::Undo`] of a lease: gives its cost back, as taken `earlier` than the lease was, so that `kept` units of the
    /// lease stay taken. It is safe to send it again: units do not come back twice.
    #[must_use]
    pub fn give_back_lease(
        limiter: &ScriptLimiter<'_>,
        record: &LeaseRecord,
        (kept, earlier): (u64, Micros),
        at: Option<Timestamp>,
    ) -> Self {
        let call = Self::made(std::slice::from_ref(limiter), ScriptStep::Undo, at);
        call.changed(|call| {
            call.form = CallForm::One;
            call.note(record, record.argument([kept, earlier.as_micros()]));
        })
    }

    fn note(&mut self, record: &LeaseRecord, argument: Vec<u8>) {
        self.keys.push(record.key.clone());
        self.lease = Some(argument);
    }

    fn made(limiters: &[ScriptLimiter<'_>], step: ScriptStep, at: Option<Timestamp>) -> Self {
        let mut kinds = 0;
        let mut arguments = Vec::with_capacity(limiters.len());
        for one in limiters {
            let input = one.script_input(step);
            kinds |= input.as_ref().map_or(0, |input| 1 << input.script.kind);
            arguments.push(input.map(|input| one.argument(step, &input)).unwrap_or_default());
        }
        let flags: Flags = limiters.iter().map(|one| one.flag(step)).collect();
        let enforced = flags.iter().map(|flag| flag & (b'0' | LOOKS | 1)).collect();
        let looks = flags.iter().any(|flag| flag & LOOKS > 0);
        let is_one = limiters.len() == 1 && !looks && !step.needs_bounds();
        let form = if is_one { CallForm::One } else { CallForm::Several };
        let keys = limiters.iter().map(|one| one.key.to_vec()).collect();
        // Keys are counted by their expiry, and in a replay none expires.
        let counts = if at.is_some() { Vec::new() } else { CountedKey::of(limiters, step) };
        let plain = Self::plain(form, step, kinds, keys, at);
        let carried = limiters.iter().zip(1..).flat_map(|(one, key)| one.carried_units(key));
        let carried = carried.collect();
        Self { enforced, flags, counts, carried, ..plain }.composed(arguments)
    }

    /// A call that has yet to be composed.
    fn plain(
        form: CallForm,
        step: ScriptStep,
        kinds: u32,
        keys: Vec<Vec<u8>>,
        at: Option<Timestamp>,
    ) -> Self {
        Self {
            script: Arc::clone(&NOT_COMPOSED),
            keys,
            args: Vec::new(),
            form,
            step,
            kinds,
            enforced: Flags::new(),
            flags: Flags::new(),
            at,
            life: None,
            lease: None,
            dedupe: None,
            counts: Vec::new(),
            has_no_memory: false,
            carried: Vec::new(),
            server: None,
        }
    }

    /// The call with its script, and with an argument for each limiter among its arguments, in the order in which
    /// `prelude.lua` lists them.
    fn composed(mut self, arguments: Vec<Vec<u8>>) -> Self {
        let amends =
            matches!(self.form, CallForm::Amending | CallForm::GivingBack | CallForm::Resetting);
        // The state may be of any algorithm, so the script has the files of all.
        let kinds = if amends { u32::MAX } else { self.kinds };
        let has_bounds = self.has_no_memory || !self.counts.is_empty();
        let runner = if self.lease.is_some() { Runner::Lease } else { Runner::Dispatch };
        let settles = self.step.needs_bounds() && self.form != CallForm::Resetting;
        let carries = !self.carried.is_empty();
        self.script = script(ScriptId { kinds, amends, settles, has_bounds, carries, runner });
        let verb = match (self.form, self.step) {
            (CallForm::GivingBack, _) => "give_back",
            (CallForm::Resetting, _) => "reset",
            (_, step) => step.verb(),
        };
        let last = self.last();
        // The form of most requests has as few arguments as possible.
        self.args = if self.is_short() {
            let verb = (self.step != ScriptStep::Ask).then(|| verb.as_bytes().to_vec());
            let mut args = arguments;
            args.extend(verb);
            args
        } else {
            let flags = match self.form {
                CallForm::One => Vec::new(),
                CallForm::Amending => self.flags.to_vec(),
                CallForm::Several
                | CallForm::GivingBack
                | CallForm::Resetting
                | CallForm::Other => self.enforced.to_vec(),
            };
            let other = self.dedupe.clone().or_else(|| self.lease.clone());
            let arguments = arguments.into_iter().chain(other);
            [verb.as_bytes().to_vec(), flags].into_iter().chain(arguments).chain(last).collect()
        };
        self
    }

    /// The call after a change.
    fn changed(mut self, change: impl FnOnce(&mut Self)) -> Self {
        let arguments = self.arguments().to_vec();
        change(&mut self);
        self.composed(arguments)
    }

    /// The argument of each limiter.
    pub(super) fn arguments(&self) -> &[Vec<u8>] {
        let begin = if self.is_short() { 0 } else { 2 };
        self.args.get(begin..begin + self.enforced.len()).unwrap_or_default()
    }

    /// Returns whether it has only the arguments of its limiter, and perhaps a verb.
    fn is_short(&self) -> bool {
        self.form == CallForm::One && !self.has_last()
    }

    fn has_last(&self) -> bool {
        self.at.is_some()
            || self.life.is_some()
            || self.lease.is_some()
            || self.has_no_memory
            || self.carries()
            || self.counts()
    }

    /// The last arguments: the time, a life, a word about memory, the units that are carried, and the keys that are
    /// counted.
    fn last(&self) -> Vec<Vec<u8>> {
        if !self.has_last() {
            return Vec::new();
        }
        let mut last = vec![
            self.at.map(decimal).unwrap_or_default(),
            self.life.map_or_else(Vec::new, |life| life.as_micros().to_string().into_bytes()),
            if self.has_no_memory { b"full".to_vec() } else { Vec::new() },
            self.carried.clone(),
        ];
        last.extend(CountedKey::arguments(&self.counts));
        // Empty arguments at the end are left out. Counted keys have fixed places, so nothing before them is.
        if self.counts.is_empty() {
            last.truncate(last.iter().rposition(|one| !one.is_empty()).map_or(0, |end| end + 1));
        }
        last
    }

    /// Gives units back to each of these limiters, under whatever rule its state was written last: for
    /// a reservation whose key has no limit any more. A key without a state stays so. There is at least one limiter.
    #[must_use]
    pub fn giving_back(all: &[Surplus<'_>], at: Option<Timestamp>) -> Self {
        let keys = all.iter().map(|one| one.key.to_vec()).collect();
        let arguments = all.iter().map(Surplus::argument).collect();
        Self::of_keys(CallForm::GivingBack, (keys, all.len()), arguments, at)
    }

    /// Forgets limiters: nothing counts as used, and units taken before are not given back. A bucket that begins with
    /// fewer tokens becomes full, if it exists. The reply is the number of limiters that existed. The keys of
    /// `records`, of the limiters' leases, are removed with them.
    #[must_use]
    pub fn reset(keys: Vec<Vec<u8>>, records: Vec<Vec<u8>>, at: Option<Timestamp>) -> Self {
        let limiters = keys.len();
        let keys: Vec<_> = keys.into_iter().chain(records).collect();
        let arguments = vec![Vec::new(); keys.len()];
        Self::of_keys(CallForm::Resetting, (keys, limiters), arguments, at)
    }

    /// A call for limiters that were written under any rule: the first `limiters` keys.
    fn of_keys(
        form: CallForm,
        (keys, limiters): (Vec<Vec<u8>>, usize),
        arguments: Vec<Vec<u8>>,
        at: Option<Timestamp>,
    ) -> Self {
        let enforced = Flags::from_elem(b'1', limiters);
        let plain = Self::plain(form, ScriptStep::Settle, u32::MAX, keys, at);
        Self { enforced, ..plain }.composed(arguments)
    }

    /// A script that is no step over limiters.
    pub(crate) fn of_script(
        script: &Arc<JoinedScript>,
        keys: Vec<Vec<u8>>,
        args: Vec<Vec<u8>>,
    ) -> Arc<Self> {
        let plain = Self::plain(CallForm::Other, ScriptStep::Settle, 0, keys, None);
        Arc::new(Self { script: Arc::clone(script), args, ..plain })
    }

    /// A call of a script without keys that only shows if the server replies.
    pub(crate) fn probe(script: &Arc<JoinedScript>) -> Arc<Self> {
        let plain = Self::plain(CallForm::Other, ScriptStep::Undo, 0, Vec::new(), None);
        Arc::new(Self { script: Arc::clone(script), ..plain })
    }

    /// Remembers the answer for `time`, if it admits, under `key`, which lives in the slot of the limiters' keys: the same
    /// request within that time gets the same answer, takes nothing, and [is marked as
    /// repeated](super::DecidedStep::repeated). A look returns the remembered answer; a refusal is not remembered.
    ///
    /// The key stands for everything that makes the request the same: its limiters, rules and costs. A repeated answer has
    /// the name and the rest of the life of the reservation that the first request was to open.
    #[must_use]
    pub fn remembering(
        self,
        key: Vec<u8>,
        time: Micros,
        reservation: Option<(&[u8; 16], Micros)>,
    ) -> Self {
        let time = (time.as_micros() as f64).to_le_bytes();
        let mut remembered = time.to_vec();
        if let Some((name, life)) = reservation {
            remembered.extend(name);
            remembered.extend(life.as_micros().to_le_bytes());
        }
        self.changed(|call| {
            call.keys.push(key);
            call.form = if call.form == CallForm::One { CallForm::Several } else { call.form };
            call.dedupe = Some(remembered);
        })
    }

    /// Returns whether no caller waits for it.
    pub(crate) const fn is_background(&self) -> bool {
        matches!(self.step, ScriptStep::Lease | ScriptStep::Undo)
    }

    /// Makes the step first amend limiters that were written under another rule; usage carries over. It takes longer,
    /// so it is sent only after [`CallResult::Changed`](super::CallResult::Changed).
    #[must_use]
    pub fn amending(self) -> Self {
        self.changed(|call| call.form = CallForm::Amending)
    }

    /// Makes the step fit a server that has no memory: existing limiters go on, and a new limiter gets
    /// [`CallResult::NoSpace`](super::CallResult::NoSpace).
    #[must_use]
    pub fn without_memory(self) -> Self {
        self.changed(|call| call.has_no_memory = true)
    }

    /// Lets only this server run the step. Another server answers [`CallResult::Lost`](super::CallResult::Lost).
    pub(crate) fn expecting(self, server: Option<u64>) -> Self {
        Self { server, ..self }
    }

    /// Returns whether a server with this number may run it.
    pub(crate) fn may_run_at(&self, server: u64) -> bool {
        self.server.is_none_or(|expected| expected == server)
    }

    /// Returns whether units are carried with it.
    pub(super) const fn carries(&self) -> bool {
        !self.carried.is_empty()
    }

    /// Returns whether it counts keys: then its last argument is the part of a cluster's node that runs it.
    pub(crate) const fn counts(&self) -> bool {
        !self.counts.is_empty()
    }

    /// Returns whether it only asks whether a request goes on, and neither gives back nor reports usage.
    pub(crate) const fn only_asks(&self) -> bool {
        matches!(
            self.step,
            ScriptStep::Decide | ScriptStep::Ask | ScriptStep::Peek | ScriptStep::Lease
        )
    }

    /// Removes limiters and all data about them. The reply is the number of limiters that existed.
    #[must_use]
    pub fn remove(keys: Vec<Vec<u8>>) -> (JoinedScript, Vec<Vec<u8>>) {
        (JoinedScript::new(REMOVE.to_owned()), keys)
    }
}
