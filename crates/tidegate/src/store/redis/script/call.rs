//! What is sent for one step.

use std::sync::Arc;

use tidegate_core::{Micros, Question, Rule, Timestamp};

use super::count::{Among, Count};
use super::known::{Form, Id, Script, script};
use super::revision::{Revision, Written};
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
    /// Takes the cost of each, even into debt, and tells how it then stands: whether one unit more would be
    /// admitted, or else when. None is refused. Those without a cost are decided as by [`Step::Ask`].
    Report,
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
    pub(crate) key: &'a [u8],
    pub(crate) rule: &'a Rule,
    pub(super) cost: u64,
    pub(super) actual: u64,
    pub(super) enforced: bool,
    /// Whether it is asked for one unit in place of its cost, and takes none.
    pub(super) looks: bool,
    pub(super) revision: Revision,
    figures: Figures,
    pub(super) among: Option<Among<'a>>,
}

/// Where the figures of a limiter come from, which may not be those that it was written under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figures {
    /// They are the rule's own.
    Own,
    /// They are a plan's.
    LookedUp,
    /// They came with the request.
    Brought,
}

impl<'a> Limiter<'a> {
    /// The limiter of `key`, asked for `cost` units; `None` when the rule is unlimited, for then there is
    /// nothing to ask.
    #[must_use]
    pub fn new(key: &'a [u8], rule: &'a Rule, cost: u64) -> Option<Self> {
        let (enforced, looks, revision, figures) = (true, false, Revision::NONE, Figures::Own);
        let (actual, among) = (0, None);
        let limited = Self { key, rule, cost, actual, enforced, looks, revision, figures, among };
        Some(limited).filter(|_| !rule.is_unlimited())
    }

    /// The same for a rule in shadow mode: it decides and counts, and never refuses.
    #[must_use]
    pub const fn shadow(mut self) -> Self {
        self.enforced = false;
        self
    }

    /// The same, asked for one unit, of which nothing is taken: how a request of no cost asks a limiter whose
    /// usage is [reported](Step::Report).
    #[must_use]
    pub const fn looking(mut self) -> Self {
        (self.cost, self.looks) = (0, true);
        self
    }

    /// The same under a rule that was looked up for the key. Where the limiter was written under another, it
    /// follows with this step, also when it is denied; but not with a look, nor at no cost.
    #[must_use]
    pub const fn looked_up(mut self) -> Self {
        self.figures = Figures::LookedUp;
        self
    }

    /// The same under a rule that the request brings. Where the limiter was written under another, it follows
    /// only when something is taken or given back. One that denies is told the least wait after which the old
    /// rule has let go of so much that this one, put in force then, admits the cost; where no wait would do,
    /// as in a bucket that begins with fewer tokens than the cost, it follows all the same.
    #[must_use]
    pub const fn brought(mut self) -> Self {
        self.figures = Figures::Brought;
        self
    }

    /// The same under a rule of this revision. Where the limiter was written under other values, those of the newer
    /// revision decide: a newer one's come in force with what is taken under them, a refusal and a look leave the
    /// limiter as it is; and one that is not newer is answered [`Answer::Superseded`](super::Answer::Superseded).
    /// Without a revision, other values come in force at once.
    #[must_use]
    pub const fn of_revision(mut self, revision: Revision) -> Self {
        self.revision = revision;
        self
    }

    /// The same, of whose keys there are so many at most: one that is new and for which there is no room is answered
    /// [`Answer::NoRoom`](super::Answer::NoRoom). What was counted expires with the keys.
    #[must_use]
    pub const fn among(mut self, among: Among<'a>) -> Self {
        self.among = Some(among);
        self
    }

    /// The limiter that keys without room share in place of this one; `None` where they are refused.
    pub(crate) fn shared(&self) -> Option<Self> {
        let key = self.among?.shared?;
        Some(Self { key, among: None, ..self.clone() })
    }

    /// The same limiter asked under the values that it was written under.
    pub(crate) fn under<'b>(&self, written: &'b Written) -> Limiter<'b>
    where
        'a: 'b,
    {
        let revision = written.revision;
        Limiter { rule: &written.rule, revision, figures: Figures::Own, ..self.clone() }
    }

    /// What the request turned out to cost, for [`Step::Settle`]; 0 unless said.
    #[must_use]
    pub const fn turned_out(mut self, actual: u64) -> Self {
        self.actual = actual;
        self
    }

    /// What it is known by where a request is remembered: key, cost, and the figures of its rule.
    pub(crate) fn identity(&self) -> (&'a [u8], u64, Option<[u8; HEAD]>) {
        let mut head = self.rule.question(0).map(|question| head(&question));
        // Whatever the version of what is stored, an answer stays known.
        head.iter_mut().for_each(|head| head[0] = 1);
        (self.key, self.cost, head)
    }

    /// Whether it may refuse.
    pub(crate) const fn is_enforced(&self) -> bool {
        self.enforced
    }

    /// What it is asked for.
    pub(crate) fn asks(&self, step: Step) -> u64 {
        self.units(step).unsigned_abs()
    }

    /// Units to take, or, below zero, to give back.
    fn units(&self, step: Step) -> i64 {
        let limited = |units: u64| units.min(Timestamp::MAX.as_micros()).cast_signed();
        match step {
            Step::Settle => limited(self.actual) - limited(self.cost),
            Step::Undo => -limited(self.cost),
            _ if self.looks => 1,
            Step::Decide | Step::Ask | Step::Peek | Step::Report => limited(self.cost),
        }
    }

    /// Whether it may refuse; whether it stays as it was under other figures where nothing is taken; whether it
    /// is told then when it would be admitted; whether its figures are of a revision; and whether it is asked for
    /// what it does not take.
    fn flag(&self, step: Step) -> u8 {
        let decides = match step {
            Step::Decide | Step::Ask | Step::Peek => true,
            Step::Report => self.cost == 0,
            Step::Settle | Step::Undo => false,
        };
        let looks = self.cost == 0 && !self.looks || step == Step::Peek;
        let stays = match self.figures {
            Figures::Own if decides && self.revision.is_some() => 6,
            Figures::Brought if decides => 4,
            Figures::LookedUp if decides && looks => 2,
            _ => 0,
        };
        let asks = self.looks && matches!(step, Step::Decide | Step::Ask | Step::Report);
        b'0' + LOOKS * u8::from(asks) + stays + u8::from(self.enforced)
    }

    fn question(&self, step: Step) -> Option<Question> {
        self.rule.question(self.units(step).unsigned_abs())
    }

    /// What the script is told: the head that its state has, the revision, then numbers.
    fn argument(&self, step: Step) -> Vec<u8> {
        let Some(question) = self.question(step) else { return Vec::new() };
        let mut told = head(&question).to_vec();
        told.extend(self.revision.stamp());
        let window = question.figures[1].cast_signed();
        for number in [self.units(step), window].into_iter().chain(question.words) {
            told.extend((number as f64).to_le_bytes());
        }
        // No argument of a request that takes is the same.
        told.extend(self.looks.then_some(b'?'));
        told
    }
}

/// The bit of a limiter's flag that says that it is asked for what it does not take.
const LOOKS: u8 = 8;

/// What a state says of itself: version, kind of room, and the four figures of the rule. Its revision follows.
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
    pub(super) enforced: Vec<u8>,
    /// The same with more to be known of those that are amended.
    flags: Vec<u8>,
    /// Whether figures may come in force only with what is taken under them.
    tries: bool,
    /// How long the answer is remembered; nothing where it is not.
    pub(super) dedupe: Micros,
    /// The keys that are counted.
    pub(super) counts: Vec<Count>,
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

    /// Gives so many units back to each of these keys, under whatever rule it was written last: that of a
    /// reservation whose key has no limit by now. One that is not there stays so.
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
        Self { script: script(id), id, dedupe: time, ..self }
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
        let tries = self.tries;
        if tries && let Some(flags) = self.args.get_mut(self.enforced.len()) {
            flags.clone_from(&self.flags);
        }
        let id = Id { form: Form::Amending, kinds: u32::MAX, tries, ..self.id };
        Self { script: script(id), id, ..self }
    }

    /// The same step, for a server that has no memory left: limiters that are there go on, and one that is new is
    /// answered [`Answer::NoRoom`](super::Answer::NoRoom).
    #[must_use]
    pub fn without_memory(self) -> Self {
        let id = Id { no_memory: true, ..self.id };
        Self { script: script(id), id, ..self }
    }

    /// Whether it was made so.
    #[must_use]
    pub const fn is_without_memory(&self) -> bool {
        self.id.no_memory
    }

    /// Whether it counts keys: then its last argument is the part of a cluster's node that runs it.
    pub(crate) const fn counts(&self) -> bool {
        self.id.counts
    }

    /// Forgets limiters: they begin as new. The answer is a number, of those that there were.
    #[must_use]
    pub fn reset(keys: Vec<Vec<u8>>) -> (Script, Vec<Vec<u8>>) {
        (Script::new("return redis.call('UNLINK', unpack(KEYS))".to_owned()), keys)
    }
}
