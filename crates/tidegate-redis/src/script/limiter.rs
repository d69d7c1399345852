//! One limiter of a step, and its argument and flag for a script.

use tidegate_core::{KnownUnits, Rule, ScriptInput, Timestamp, Token};

use super::units::Purpose;
use super::{HEAD, Revision, ScriptStep, VERSION, Written};
use crate::step::{BUCKET, Values, ValuesSource};

/// The set of keys that a limiter belongs to, with a bound on their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Among<'a> {
    /// The prefix of the store's keys, and the rest of a name: no limiter has such a key.
    pub name: (&'a str, &'a str),
    /// The bound.
    pub most: usize,
    /// The key of the overflow limiter, for keys without space; `None` if they are refused.
    pub shared: Option<&'a [u8]>,
}

/// A key that is counted, for a rule that keeps a bounded number of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CountedKey {
    /// Its index among the call's keys.
    pub(super) key: usize,
    /// The bound, and the two parts of the name, each after its length.
    pub(super) bound: Vec<u8>,
}

impl CountedKey {
    /// The counted keys of a step; a step that gives back or settles always has space.
    pub(super) fn of(limiters: &[ScriptLimiter<'_>], step: ScriptStep) -> Vec<Self> {
        let settles = step.settles() || step == ScriptStep::Renew;
        let each = limiters.iter().enumerate().filter_map(|(key, one)| Some((key, one.among?)));
        let each = each.map(|(key, Among { name: (prefix, name), most, .. })| {
            let most = if settles { usize::MAX } else { most };
            let mut bound = (most as f64).to_le_bytes().to_vec();
            for text in [prefix, name] {
                // The script reads the length from two bytes.
                let text = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
                bound.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
                bound.extend(text);
            }
            Self { key, bound }
        });
        each.collect()
    }

    /// The last arguments of a script that counts: which keys, and the part of a cluster's node,
    /// filled in when the call is sent there. None if nothing is counted.
    pub(super) fn arguments(counts: &[Self]) -> Vec<Vec<u8>> {
        if counts.is_empty() {
            return Vec::new();
        }
        let mut keys = Vec::new();
        for Self { key, bound } in counts {
            keys.extend(u32::try_from(key + 1).unwrap_or(u32::MAX).to_le_bytes());
            keys.extend(bound);
        }
        vec![keys, Vec::new()]
    }
}

/// One limiter of a step: its key, its rule, and the cost of the request.
#[derive(Clone, Debug)]
pub struct ScriptLimiter<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) rule: &'a Rule,
    pub(crate) cost: u64,
    pub(crate) actual: u64,
    /// The token of the permit to return or to renew.
    pub(crate) token: Option<Token>,
    /// When the units to give back were taken.
    pub(crate) since: Option<Timestamp>,
    /// The purpose for which units are taken, or were.
    pub(crate) purpose: Purpose,
    /// The values under which the units were taken, if they are known.
    pub(crate) taken_under: Option<Values>,
    pub(crate) enforced: bool,
    /// True if it is asked for one unit in place of its cost, and takes nothing.
    pub(crate) looks: bool,
    pub(crate) revision: Revision,
    /// The source of its values, which may differ from the values that it was written under.
    pub(crate) source: ValuesSource,
    pub(crate) among: Option<Among<'a>>,
    /// True if the store must have a state.
    pub(crate) is_known: bool,
    /// The units in use that the store may have lost.
    pub(crate) carried: Option<KnownUnits<'a>>,
    /// True if the server reported them itself.
    pub(crate) is_own: bool,
}

impl<'a> ScriptLimiter<'a> {
    /// The limiter of `key`, asked for `cost` units; `None` when the rule is unlimited and nothing
    /// has to be asked.
    #[must_use]
    pub fn new(key: &'a [u8], rule: &'a Rule, cost: u64) -> Option<Self> {
        let limited = Self {
            key,
            rule,
            cost,
            actual: 0,
            token: None,
            since: None,
            purpose: Purpose::Use,
            taken_under: None,
            enforced: true,
            looks: false,
            revision: Revision::NONE,
            source: ValuesSource::Rule,
            among: None,
            is_known: false,
            carried: None,
            is_own: false,
        };
        Some(limited).filter(|_| !rule.is_unlimited())
    }

    /// Marks a rule in shadow mode: it decides and counts, and never refuses.
    #[must_use]
    pub const fn shadow(mut self) -> Self {
        self.enforced = false;
        self
    }

    /// Asks for one unit and takes nothing. A request without cost asks a limiter in this way if its usage is
    /// [reported](ScriptStep::Report).
    #[must_use]
    pub const fn looking(mut self) -> Self {
        (self.cost, self.looks) = (0, true);
        self
    }

    /// Marks a rule that was looked up for the key. A limiter that was written under another is
    /// amended with this step, even when it denies; but not with a look, nor at a cost of 0.
    #[must_use]
    pub const fn looked_up(mut self) -> Self {
        self.source = ValuesSource::Plan;
        self
    }

    /// Marks a rule that the request supplies. A limiter that was written under another is amended only when
    /// units are taken or given back. A denial reports the shortest wait after which the old rule has freed enough
    /// units that this rule, if put in force then, admits the cost. If no wait is long enough, as in a bucket that
    /// begins with fewer tokens than the cost, the limiter is amended nevertheless.
    #[must_use]
    pub const fn from_request(mut self) -> Self {
        self.source = ValuesSource::Request;
        self
    }

    /// Gives the rule a revision. If the limiter was written under other values, the values of the newer revision
    /// decide. Newer values of this rule take effect when units are taken under them; a refusal and a look
    /// leave the limiter unchanged. Values that are not newer are answered
    /// [`CallResult::Superseded`](super::CallResult::Superseded). Without a revision, other values take effect
    /// immediately.
    #[must_use]
    pub const fn of_revision(mut self, revision: Revision) -> Self {
        self.revision = revision;
        self
    }

    /// Bounds the number of keys: a new key without space is answered
    /// [`CallResult::NoSpace`](super::CallResult::NoSpace). The count expires with the keys.
    #[must_use]
    pub const fn among(mut self, among: Among<'a>) -> Self {
        self.among = Some(among);
        self
    }

    /// The overflow limiter, which keys without space share; `None` if they are refused.
    pub(crate) fn shared(&self) -> Option<Self> {
        let key = self.among?.shared?;
        Some(Self { key, among: None, is_known: false, carried: None, ..self.clone() })
    }

    /// The limiter under the values that it was written under.
    pub(crate) fn under<'b>(&self, written: &'b Written) -> ScriptLimiter<'b>
    where
        'a: 'b,
    {
        let revision = written.revision;
        ScriptLimiter { rule: &written.rule, revision, source: ValuesSource::Rule, ..self.clone() }
    }

    /// Sets the actual cost of the request, for [`ScriptStep::Settle`]; 0 by default.
    #[must_use]
    pub const fn turned_out(mut self, actual: u64) -> Self {
        self.actual = actual;
        self
    }

    /// Names the permit that [`ScriptStep::Settle`], [`ScriptStep::Undo`] or [`ScriptStep::Renew`] is about.
    #[must_use]
    pub const fn of_permit(mut self, token: Option<Token>) -> Self {
        self.token = token;
        self
    }

    /// Says when the units were taken that [`ScriptStep::Settle`] or [`ScriptStep::Undo`] gives back: the time that
    /// counted for the limiter then.
    #[must_use]
    pub const fn taken_at(mut self, since: Option<Timestamp>) -> Self {
        self.since = since;
        self
    }

    /// Says under which values the units were taken: nothing comes back under another meaning, or of a level that began
    /// since with another limit.
    #[must_use]
    pub const fn taken_under(mut self, values: &Values) -> Self {
        self.taken_under = Some(*values);
        self
    }

    /// The values under which the units were taken, and the values that decide now, which may be newer than its own.
    fn both_values(&self) -> Option<(Values, Values)> {
        self.taken_under.zip(Values::of(self.rule))
    }

    fn is_of_other_rule(&self) -> bool {
        self.both_values().is_some_and(|(taken, own)| !own.counts_as(&taken))
    }

    /// Takes the cost for a reservation, or settles it: a bucket then knows how low it was since.
    #[must_use]
    pub const fn reserving(mut self) -> Self {
        self.purpose = Purpose::Reservation;
        self
    }

    /// Marks a limiter with leases: units given back to it count less as time passes, because leases rely on the level.
    #[must_use]
    pub const fn leased(mut self) -> Self {
        self.purpose = Purpose::Lease;
        self
    }

    /// Its part in the identity of a remembered request: key, cost, and the values of its rule.
    pub(crate) fn identity(&self) -> (&'a [u8], u64, Option<[u8; HEAD]>) {
        (self.key, self.cost, self.rule.script_input(0).map(|input| head(&input)))
    }

    /// The units that were taken at a known time and are to come back; none of a permit, which is free when it has
    /// ended.
    pub(super) fn surplus(&self, step: ScriptStep) -> u64 {
        match self.units(step) {
            units @ ..0 if self.since.is_some() && !self.holds_permits() => units.unsigned_abs(),
            _ => 0,
        }
    }

    /// The units that it is asked for.
    pub(crate) fn asks(&self, step: ScriptStep) -> u64 {
        self.units(step).unsigned_abs()
    }

    /// Units to take; below zero, units to give back.
    fn units(&self, step: ScriptStep) -> i64 {
        let cost = in_script(self.cost);
        match step {
            // A permit comes back as a whole, for any actual cost.
            ScriptStep::Settle if self.holds_permits() => -cost,
            ScriptStep::Renew => 0,
            ScriptStep::Settle => in_script(self.actual) - cost,
            ScriptStep::Undo => -cost,
            _ if self.looks => 1,
            ScriptStep::Decide
            | ScriptStep::Ask
            | ScriptStep::Peek
            | ScriptStep::Report
            | ScriptStep::ReportWithin
            | ScriptStep::Lease => cost,
        }
    }

    /// Flags: it may refuse; it keeps its other values if nothing is taken; it then returns when it would be admitted;
    /// its values have a revision; and it is asked for a unit that it does not take.
    pub(super) fn flag(&self, step: ScriptStep) -> u8 {
        let decides = match step {
            ScriptStep::Decide | ScriptStep::Ask | ScriptStep::Peek => true,
            ScriptStep::Report | ScriptStep::ReportWithin => self.cost == 0,
            ScriptStep::Settle | ScriptStep::Undo | ScriptStep::Lease | ScriptStep::Renew => false,
        };
        let looks = self.cost == 0 && !self.looks || step == ScriptStep::Peek;
        let stays = match self.source {
            ValuesSource::Rule if decides && self.revision.is_some() => 6,
            ValuesSource::Request if decides => 4,
            ValuesSource::NoPlan | ValuesSource::Plan if decides && looks => 2,
            _ => 0,
        };
        let asks = self.looks
            && (matches!(step, ScriptStep::Decide | ScriptStep::Ask) || step.is_report());
        // `0` is 48, a multiple of 8. So scripts read the flags from the remainder, and `LOOKS` from 56 on.
        b'0' + LOOKS * u8::from(asks) + stays + u8::from(self.enforced)
    }

    /// The end of an argument that settles: the time, the purpose and the limit that the units were taken with, and the
    /// maximum units that may be in use.
    fn of_take(&self, step: ScriptStep) -> Vec<u8> {
        let since = self.since.map_or(-1.0, |since| since.as_micros() as f64);
        let under = self.taken_under.map_or(-1.0, |values| values.limit as f64);
        let purpose = match self.purpose {
            _ if self.is_of_other_rule() => Purpose::OfOtherRule,
            // A cost of 0 opened no reservation.
            Purpose::Reservation if self.cost == 0 => Purpose::Use,
            purpose => purpose,
        };
        [since, f64::from(purpose as u8), under, self.most(step)]
            .into_iter()
            .flat_map(f64::to_le_bytes)
            .collect()
    }

    /// The maximum number of units that may be in use after more is taken; below zero for any number.
    fn most(&self, step: ScriptStep) -> f64 {
        let bounds = match step {
            ScriptStep::Settle => true,
            ScriptStep::ReportWithin => self.rule.spec().max_debt.is_some(),
            _ => false,
        };
        let most = self.rule.most_in_use().filter(|most| bounds && *most < 1 << 53);
        most.map_or(-1.0, |most| most as f64)
    }

    /// Returns whether a permit is returned as a whole. There is none under a limit of 0 without a window.
    fn holds_permits(&self) -> bool {
        let spec = self.rule.spec();
        spec.algorithm.holds_permits() && spec.window.is_some()
    }

    pub(super) fn script_input(&self, step: ScriptStep) -> Option<ScriptInput> {
        let mut input = self.rule.script_input(self.units(step).unsigned_abs())?;
        let names_one = step.settles() || step == ScriptStep::Renew;
        // No permit has the last token.
        let no_token = Token::from_micros(LAST_TOKEN).filter(|_| self.is_of_other_rule());
        let token = no_token.or(self.token);
        // Algorithms with permits leave the place of a token last.
        if let Some(token) = token.filter(|_| names_one && self.holds_permits())
            && let Some(place) = input.args.last_mut()
        {
            *place = token.as_micros().cast_signed();
        }
        Some(input)
    }

    /// Its argument to a script, of `input`: the head of its state, the revision, then integers.
    pub(super) fn argument(&self, step: ScriptStep, input: &ScriptInput) -> Vec<u8> {
        let head = head(input);
        let stamp = self.revision.stamp();
        let numbers = [self.units(step), input.parameters[1].cast_signed()];
        let length = head.len() + stamp.len() + 8 * (numbers.len() + input.args.len());
        let mut arg = Vec::with_capacity(length + usize::from(self.looks));
        arg.extend(head);
        arg.extend(stamp);
        for number in numbers.iter().chain(&input.args) {
            arg.extend((*number as f64).to_le_bytes());
        }
        if step.needs_bounds() {
            arg.extend(self.is_known.then_some(KNOWN).into_iter().flatten());
            arg.extend(self.of_take(step));
            return arg;
        }
        // Differs from every argument of a request that takes.
        arg.extend(self.looks.then_some(b'?'));
        // Differs from every argument that opens no reservation. Only a bucket keeps a mark of them.
        let takes = step == ScriptStep::Ask && self.units(step) > 0 && !self.looks;
        let opens = takes && self.purpose == Purpose::Reservation;
        arg.extend((opens && input.script.kind == BUCKET).then_some(b'!'));
        arg.extend(self.is_known.then_some(KNOWN).into_iter().flatten());
        arg
    }
}

const LAST_TOKEN: u64 = (1 << 53) - 1;

/// The end of the argument of a known limiter. A script knows it by the length: a limiter that looks, or opens a
/// reservation, has one byte more.
const KNOWN: [u8; 2] = *b"LL";

/// Units as a script can count them: a double holds no larger whole number exactly.
fn in_script(units: u64) -> i64 {
    units.min(Timestamp::MAX.as_micros()).cast_signed()
}

/// The flag of a limiter that is asked for a unit which it does not take.
pub(super) const LOOKS: u8 = 8;

/// The head of a state: version, kind of algorithm, and the four parameters of the rule. The
/// revision follows it.
fn head(input: &ScriptInput) -> [u8; HEAD] {
    let [limit, window, third, fourth] = input.parameters.map(u64::to_le_bytes);
    let mut head = [0; HEAD];
    (head[0], head[1]) = (VERSION, input.script.kind);
    head[2..6].copy_from_slice(&limit[..4]);
    head[6..12].copy_from_slice(&window[..6]);
    head[12..18].copy_from_slice(&third[..6]);
    head[18..22].copy_from_slice(&fourth[..4]);
    head
}
