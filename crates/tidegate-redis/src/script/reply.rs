//! The reply of a server to a script, and the answer that is read from it.

use std::fmt;

use tidegate_core::{Decision, Micros, Outcome, Script, ScriptReply, Timestamp, Verdict};

use super::ScriptStep;
use super::VERSION;
use super::call::{Call, CallForm};
use super::call_result::{CallResult, DecidedStep, Lacks, NewerValues};
use super::limiter::ScriptLimiter;
use super::units::SettledUnits;
use crate::step::{Decided, FirstReservation, TakenUnits};
use crate::store::{LimiterPlaces, LimiterReply};

/// A server's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisReply {
    /// Nothing.
    Nil,
    /// A whole number.
    Int(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Several replies.
    Array(Vec<RedisReply>),
}

/// A reply that is not a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAnAnswer {
    reply: RedisReply,
    other_version: Option<u8>,
}

impl NotAnAnswer {
    pub(super) const fn of(reply: RedisReply) -> Self {
        Self { reply, other_version: None }
    }

    /// Such a reply, with the version of a stored state that it names, if any.
    pub(super) const fn of_version(reply: RedisReply, other_version: Option<u8>) -> Self {
        Self { reply, other_version }
    }

    /// The version of a stored state, if it is not the version that this library reads.
    #[must_use]
    pub const fn other_version(&self) -> Option<u8> {
        self.other_version
    }
}

impl fmt::Display for NotAnAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(version) = self.other_version {
            return write!(
                f,
                "a key holds a limiter of version {version}; expected version {VERSION}, or nodes that \
                 know both while they are upgraded"
            );
        }
        match &self.reply {
            RedisReply::Nil => f.write_str(
                "a key holds what no limiter of this version wrote; expected a key prefix of Tidegate's own",
            ),
            reply => write!(f, "the script answered {reply:?}; expected what its version answers"),
        }
    }
}

impl std::error::Error for NotAnAnswer {}

/// The place of the limiter with this key, whose number begins at 1.
fn place_of_key(number: &RedisReply) -> Option<usize> {
    let RedisReply::Int(number) = number else { return None };
    usize::try_from(*number).ok()?.checked_sub(1)
}

impl Call {
    /// The meaning of a reply to this call; `limiters` are those that it was made of.
    ///
    /// # Errors
    /// The reply, when it is not a decision. In reply to a call that amends, a number is the
    /// version of the stored state, which is left unchanged.
    pub fn answer(
        &self,
        limiters: &[ScriptLimiter<'_>],
        reply: &RedisReply,
    ) -> Result<CallResult, NotAnAnswer> {
        let (reply, carried) = self.without_carried(reply);
        // A key has another layout by now (`is_of_other_layout`). A call that amends reads any layout.
        if *reply == RedisReply::Nil && self.form != CallForm::Amending {
            return Ok(CallResult::Changed);
        }
        if let Some(begins) = written_under_others(limiters, reply) {
            let lost = begins.iter().enumerate().filter(|(_, code)| **code == b"L");
            let lost: Vec<_> = lost.map(|(place, _)| place).collect();
            if !lost.is_empty() {
                return Ok(CallResult::Lost(lost));
            }
            let lacks = begins.iter().take(limiters.len()).map(|code| Lacks::read(code));
            let lacks: Vec<_> = lacks.collect();
            if lacks.iter().any(Option::is_some) {
                return Ok(CallResult::NoSpace(lacks));
            }
            let newer = NewerValues::newer(limiters, &begins);
            return match (newer, self.form) {
                (Some(newer), _) => Ok(CallResult::Superseded(newer)),
                // It would have been amended, were it known to this version.
                (None, CallForm::Amending) => Err(NotAnAnswer::of(RedisReply::Nil)),
                (None, _) => Ok(CallResult::Changed),
            };
        }
        let read = match (self.form, self.step, limiters) {
            (CallForm::One, ScriptStep::Decide, [one]) => verdict_alone(one, reply),
            (CallForm::One, _, [one]) => self.alone(one, reply),
            (CallForm::One | CallForm::GivingBack | CallForm::Resetting | CallForm::Other, ..) => {
                None
            }
            (CallForm::Several | CallForm::Amending, _, all) => self.among_others(all, reply),
        };
        let read = read.map(|done| CallResult::Decided(DecidedStep { carried, ..done }));
        read.ok_or_else(|| self.not_an_answer(reply))
    }

    /// The limiters whose state was replaced by units that were carried, also if nothing was taken.
    pub fn carried(&self, reply: &RedisReply) -> LimiterPlaces {
        self.without_carried(reply).1
    }

    /// Takes these limiters off a reply.
    fn without_carried<'r>(&self, reply: &'r RedisReply) -> (&'r RedisReply, LimiterPlaces) {
        let none = LimiterPlaces::NONE;
        match reply {
            RedisReply::Array(parts) if self.carries() => match parts.as_slice() {
                [reply, RedisReply::Array(keys)] => {
                    (reply, keys.iter().filter_map(place_of_key).collect())
                }
                _ => (reply, none),
            },
            reply => (reply, none),
        }
    }

    /// The reply of a server that may not run it: it has none of the states.
    pub(crate) fn lost(&self) -> RedisReply {
        let mut lost = vec![RedisReply::Bytes(b"L".to_vec()); self.enforced.len()];
        lost.push(RedisReply::Bytes(Vec::new()));
        RedisReply::Array(lost)
    }

    fn not_an_answer(&self, reply: &RedisReply) -> NotAnAnswer {
        NotAnAnswer::of_version(reply.clone(), self.other_version(reply))
    }

    fn other_version(&self, reply: &RedisReply) -> Option<u8> {
        match *reply {
            RedisReply::Int(version)
                if matches!(self.form, CallForm::Amending | CallForm::GivingBack) =>
            {
                u8::try_from(version).ok()
            }
            _ => None,
        }
    }

    /// The reply is a state if units were taken and the clock had not gone back; else the verdict comes before it.
    fn alone(&self, one: &ScriptLimiter<'_>, reply: &RedisReply) -> Option<DecidedStep> {
        let took = matches!(self.step, ScriptStep::Ask | ScriptStep::Lease);
        let reply = match reply {
            RedisReply::Bytes(state) => {
                // Units were taken at the reading of the clock: the time of the last unit is all three times.
                let at = last(one, state)?;
                state_of_limiter(one, Verdict::Allow, [at, at], (state, took))?
            }
            RedisReply::Array(parts) => match parts.as_slice() {
                [
                    RedisReply::Int(verdict),
                    RedisReply::Int(now),
                    RedisReply::Int(at),
                    RedisReply::Bytes(state),
                ] => {
                    let times = [time(*now)?, time(*at)?];
                    state_of_limiter(one, verdict_of(*verdict)?, times, (state, took))?
                }
                _ => return None,
            },
            RedisReply::Nil | RedisReply::Int(_) => return None,
        };
        let mut decided = DecidedStep { at: reply.at, ..DecidedStep::nothing(reply.now) };
        let reply = self.decision(one, reply, None)?;
        decided.allowed = reply.decided.decision.is_allowed() || !one.enforced;
        decided.push(reply);
        Some(decided)
    }

    fn among_others(&self, all: &[ScriptLimiter<'_>], reply: &RedisReply) -> Option<DecidedStep> {
        let RedisReply::Array(parts) = reply else { return None };
        let [RedisReply::Int(goes_on), RedisReply::Int(now), replies @ ..] = parts.as_slice()
        else {
            return None;
        };
        let (replies, first) = replies.split_at_checked(3 * all.len())?;
        let first = match first {
            [] => None,
            [RedisReply::Bytes(name), RedisReply::Int(age)] => {
                let (name, life) = name.split_first_chunk()?;
                let life = u64::from_le_bytes(life.try_into().ok()?);
                let age = u64::try_from(*age).unwrap_or_default();
                let left = Micros::from_micros(life.saturating_sub(age)).as_duration();
                Some(FirstReservation { name: *name, left })
            }
            _ => return None,
        };
        let repeated = *goes_on == 2;
        let goes_on = *goes_on > 0;
        let now = time(*now)?;
        // An answer is remembered if units were taken, and a look reports it too.
        let took = goes_on && (repeated || self.step == ScriptStep::Ask);
        // The reply to a report holds the units taken, but does not say if one unit more fits.
        let is_report = self.step.is_report();
        let mut decided =
            DecidedStep { allowed: goes_on, repeated, first, ..DecidedStep::nothing(now) };
        for (one, reply) in all.iter().zip(replies.chunks_exact(3)) {
            let [RedisReply::Int(verdict), RedisReply::Int(at), state] = reply else { return None };
            let (state, numbers) = state_of(state)?;
            let verdict = verdict_of(*verdict)?;
            let at = time(*at)?;
            decided.at = decided.at.max(at);
            if self.step == ScriptStep::Decide {
                continue;
            }
            let reply = state_of_limiter(one, verdict, [now, at], (state, took))?;
            // The two numbers that may follow a state are units if the step has bounds, and waits if it has none.
            let settles = self.step.needs_bounds();
            let waits = numbers.filter(|_| !settles).map(|waits| waits.map(Micros::from_micros));
            let mut reply = self.decision(one, reply, waits)?;
            if settles {
                let [returned, cut] = numbers.unwrap_or_default();
                let late = numbers.map_or(0, |_| one.surplus(self.step).saturating_sub(returned));
                let settled = SettledUnits { returned, late, cut };
                reply.decided.settled = settled.of_core();
                decided.settled.push(settled);
            }
            decided.allowed &= reply.decided.decision.is_allowed() || !one.enforced || !is_report;
            decided.push(reply);
        }
        Some(decided)
    }

    /// Works out the reply of a limiter from its state. `waits`, until the cost would be admitted and until nothing is
    /// used, are of a limiter under values that came with the request and are not in force.
    fn decision(
        &self,
        one: &ScriptLimiter<'_>,
        reply: ScriptReply,
        waits: Option<[Micros; 2]>,
    ) -> Option<LimiterReply> {
        // A report that took usage has no verdict: the state shows if one unit more fits.
        let decision = match self.step {
            ScriptStep::Report | ScriptStep::ReportWithin if one.cost > 0 => {
                one.rule.standing(&reply)?
            }
            // What is settled asks for no unit more, so it waits for nothing.
            ScriptStep::Settle | ScriptStep::Undo => one.rule.decision(0, &reply)?,
            _ => one.rule.decision(if one.looks { 1 } else { one.cost }, &reply)?,
        };
        // The state is as under the values that were tried, and the
        // limiter is still under its own: only the script knows the waits.
        let decision = match waits {
            Some([retry_after, reset_after]) if !reply.verdict.is_allowed() => {
                Decision { outcome: Outcome::Deny { retry_after }, reset_after, ..decision }
            }
            _ => decision,
        };
        let taken = TakenUnits::new(one.rule.token(&reply), Some(reply.at));
        let decided = Decided { taken, ..Decided::of(decision, false, false) };
        // The store does not report the values in force until the request is admitted.
        let state = Some(reply).filter(|_| waits.is_none());
        let used = state.as_ref().map(|state| one.rule.used_units(state));
        Some(LimiterReply { state, used, ..LimiterReply::of_store(decided) })
    }

    /// Reads a reply to [`Call::giving_back`].
    ///
    /// # Errors
    /// Returns the reply if it does not report the returned units.
    pub fn given_back(&self, reply: &RedisReply) -> Result<(), NotAnAnswer> {
        match reply {
            RedisReply::Array(_) => Ok(()),
            reply => Err(self.not_an_answer(reply)),
        }
    }
}

/// Decodes the state of a limiter, at the reading of the clock and the instant that counts; its cost was taken if the step
/// `took` units and the limiter admits it.
fn state_of_limiter(
    one: &ScriptLimiter<'_>,
    verdict: Verdict,
    [now, at]: [Timestamp; 2],
    (state, took): (&[u8], bool),
) -> Option<ScriptReply> {
    let taken = took && verdict.is_allowed() && one.cost > 0;
    let state = integers(&one.rule.script()?, state)?;
    Some(ScriptReply { now, at, verdict, taken, state })
}

/// Returns the first bytes of states that were written under other values, empty for the other
/// limiters. Such a reply is of texts, one for each limiter and one at the end.
fn written_under_others<'r>(
    limiters: &[ScriptLimiter<'_>],
    reply: &'r RedisReply,
) -> Option<Vec<&'r [u8]>> {
    let RedisReply::Array(parts) = reply else { return None };
    let begins = parts.iter().map(|part| match part {
        RedisReply::Bytes(begins) => Some(begins.as_slice()),
        _ => None,
    });
    let begins = begins.collect::<Option<Vec<_>>>()?;
    (begins.len() == limiters.len() + 1).then_some(begins)
}

/// Reads a state and two numbers that may come with it: waits, if it is under values that are not in force; or the
/// settled units.
fn state_of(reply: &RedisReply) -> Option<(&[u8], Option<[u64; 2]>)> {
    match reply {
        RedisReply::Bytes(state) => Some((state, None)),
        RedisReply::Array(parts) => match parts.as_slice() {
            [RedisReply::Bytes(state), RedisReply::Int(first), RedisReply::Int(second)] => {
                let [first, second] = [first, second].map(|number| u64::try_from(*number).ok());
                Some((state, Some([first?, second?])))
            }
            _ => None,
        },
        RedisReply::Nil | RedisReply::Int(_) => None,
    }
}

/// The instant that counts and the verdict: a refusal has the instant as a number below zero.
fn verdict_alone(one: &ScriptLimiter<'_>, reply: &RedisReply) -> Option<DecidedStep> {
    let RedisReply::Int(instant) = *reply else { return None };
    let at = time(if instant < 0 { -1 - instant } else { instant })?;
    Some(DecidedStep { allowed: instant >= 0 || !one.enforced, ..DecidedStep::nothing(at) })
}

/// When the last unit was taken: the last integer of every state.
fn last(one: &ScriptLimiter<'_>, state: &[u8]) -> Option<Timestamp> {
    let before = one.rule.script()?.state_integers.checked_sub(1)?;
    let last = state.get(8 * before..)?.first_chunk()?;
    number(*last).map(Timestamp::from_micros)
}

/// The integers of a state, then its counters.
fn integers(script: &Script, state: &[u8]) -> Option<Vec<u64>> {
    let (numbers, counters) = state.split_at_checked(8 * script.state_integers)?;
    let numbers = numbers.as_chunks::<8>().0.iter().map(|bytes| number(*bytes));
    let (counters, []) = counters.as_chunks::<4>() else { return None };
    let counters = counters.iter().map(|bytes| Some(u64::from(u32::from_le_bytes(*bytes))));
    numbers.chain(counters).collect()
}

/// A whole number in a double, as scripts return it; `None` for any other double.
fn number(bytes: [u8; 8]) -> Option<u64> {
    let number = f64::from_le_bytes(bytes);
    let is_whole = number >= 0.0 && number <= (1_u64 << 53) as f64 && number.fract() == 0.0;
    is_whole.then_some(number as u64)
}

fn time(us: i64) -> Option<Timestamp> {
    u64::try_from(us).ok().map(Timestamp::from_micros)
}

const fn verdict_of(code: i64) -> Option<Verdict> {
    match code {
        0 => Some(Verdict::Allow),
        1 => Some(Verdict::Deny),
        2 => Some(Verdict::Never),
        _ => None,
    }
}
