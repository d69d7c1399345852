//! One limiter of a step, and its argument and flag for a script.

use tidegate_core::{Question, Rule, Timestamp};

use super::revision::{Revision, Written};
use super::step::Step;
use super::{HEAD, VERSION};

/// The keys that a limiter's is one of, of which there are so many at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Among<'a> {
    /// What the keys of the store begin with, and what a name of theirs goes on with: no limiter has such a key.
    pub name: (&'a str, &'a str),
    /// Most of them at once.
    pub most: usize,
    /// The key of the limiter that those without room share; `None` where they are refused.
    pub shared: Option<&'a [u8]>,
}

/// One limiter of a step: its key, its rule, and what the request costs it.
#[derive(Clone, Debug)]
pub struct Limiter<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) rule: &'a Rule,
    pub(super) cost: u64,
    actual: u64,
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
    pub(super) fn flag(&self, step: Step) -> u8 {
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

    pub(super) fn question(&self, step: Step) -> Option<Question> {
        self.rule.question(self.units(step).unsigned_abs())
    }

    /// Its argument to a script: the head of its state, the revision, then numbers.
    pub(super) fn argument(&self, step: Step) -> Vec<u8> {
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

/// The bit in the flag of a limiter that is asked for a unit which it does not take.
pub(super) const LOOKS: u8 = 8;

/// The head of a state: version, kind of algorithm, and the four figures of the rule. The revision follows it.
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
