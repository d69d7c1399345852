//! The answer to a call, read from the reply.

use std::sync::Arc;

use tidegate_core::{
    Decision, Micros, Outcome, Rule, Script, ScriptReply, Timestamp, Token, Verdict,
};

use super::call::Call;
use super::id::CallForm;
use super::limiter::ScriptLimiter;
use super::newer_values::NewerValues;
use super::reply::{NotAnAnswer, RedisReply};
use super::revision::Written;
use super::settled::{SettledUnits, state_of};
use super::step::ScriptStep;
use crate::lease::GivenBack;

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallResult {
    /// The step was run.
    Decided(DecidedStep),
    /// A limiter was written under another rule, and nothing was done: send [`Call::amending`].
    Changed,
    /// A limiter was written under values that are not older, and nothing was done: ask again under
    /// those values.
    Superseded(NewerValues),
    /// There is no room for a new limiter, and nothing was done. Holds the resource that each limiter lacks, in order.
    NoSpace(Vec<Option<Lacks>>),
}

/// The resource that a new limiter lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacks {
    /// There are as many keys [as allowed](ScriptLimiter::among).
    Space,
    /// The server has no memory left.
    Memory,
}

impl Lacks {
    fn read(code: &[u8]) -> Option<Self> {
        match code {
            b"F" => Some(Self::Space),
            b"O" => Some(Self::Memory),
            _ => None,
        }
    }
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct DecidedStep {
    /// True if all limiters that are enforced admit the request; for [`ScriptStep::Report`], one unit more.
    pub allowed: bool,
    /// The reading of the server's clock.
    pub now: Timestamp,
    /// The instant that counts: the reading of the server's clock, or the time of the last unit of
    /// a limiter that is later. Of several limiters, the latest.
    pub at: Timestamp,
    /// True if this is the remembered answer to an earlier request: see [`Call::remembering`].
    pub repeated: bool,
    /// One decision for each limiter, in the order of the call; none for [`ScriptStep::Decide`].
    pub decisions: Vec<Decision>,
    /// The state and values that each decision was worked out from.
    pub(crate) seen: Vec<SeenLimiter>,
}

impl SeenLimiter {
    /// The values that decided in place of the limiter's own.
    pub(crate) fn decided_by(&self) -> Option<&Arc<Rule>> {
        self.newer.as_ref().map(|newer| &newer.rule)
    }

    /// The reply of this limiter with its decision. A key without room has no limiter of its own.
    pub(crate) fn reply(&self, decision: Decision) -> crate::step::Decided {
        let (values, overflow) = (self.decided_by().cloned(), self.overflow);
        let (token, since) = (self.token, Some(self.reply.at));
        let settled = self.settled.of_core();
        crate::step::Decided {
            values,
            token,
            since,
            settled,
            ..crate::step::Decided::of(decision, overflow, overflow)
        }
    }
}

/// The reply for one limiter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenLimiter {
    pub(crate) reply: ScriptReply,
    /// True if its state is as under values that are not in force.
    pub(crate) tried: bool,
    /// The values that decided, if they were not the limiter's own.
    pub(crate) newer: Option<Written>,
    /// True if there was no room for it: then it is the overflow limiter, or none.
    pub(crate) overflow: bool,
    /// The token of the permit that was taken.
    pub(crate) token: Option<Token>,
    /// The units that a settlement gave back and cut.
    pub(crate) settled: SettledUnits,
}

impl NewerValues {
    /// The values that decided about each of these limiters in place of its own.
    pub(crate) fn seen<'s>(seen: impl Iterator<Item = &'s SeenLimiter>) -> Self {
        let all: Vec<_> = seen.map(|seen| seen.newer.clone()).collect();
        if all.iter().all(Option::is_none) { Self::default() } else { Self(all) }
    }
}

impl DecidedStep {
    /// Returns when a lease ends that a [`Call::lease`] took from this limiter; `None` if it took none.
    #[must_use]
    pub fn lease_end(&self, limiter: &ScriptLimiter<'_>, life: Micros) -> Option<Timestamp> {
        limiter.rule.lease_end(&self.seen.first()?.reply, life)
    }

    /// Returns the fate of units that a [`Call::give_back_lease`] gave back to this limiter.
    #[must_use]
    pub fn lease_given_back(&self) -> GivenBack {
        match self.seen.first().map(|seen| seen.reply.verdict) {
            Some(Verdict::Allow) => GivenBack::Back,
            Some(Verdict::Deny) => GivenBack::TooLate,
            Some(Verdict::Never) | None => GivenBack::NotTaken,
        }
    }

    /// Adds the values that decided.
    pub(crate) fn decided_by(mut self, newer: NewerValues) -> Self {
        let newer = self.seen.iter_mut().zip(newer.0);
        newer.for_each(|(seen, newer)| seen.newer = seen.newer.take().or(newer));
        self
    }

    /// Returns the units that a settlement or an undo gave back to each limiter, and the units that were cut.
    pub fn settled(&self) -> impl Iterator<Item = SettledUnits> {
        self.seen.iter().map(|seen| seen.settled)
    }

    /// The result of a step over no limiter.
    pub(crate) const fn nothing(at: Timestamp) -> Self {
        Self {
            allowed: true,
            now: at,
            at,
            repeated: false,
            decisions: Vec::new(),
            seen: Vec::new(),
        }
    }
}

/// The wait until a cost would be admitted, and the wait until nothing is used.
type WaitTimes = (Micros, Micros);

/// The reply for one limiter, before its state is decoded.
struct Heard<'a> {
    verdict: Verdict,
    now: Timestamp,
    at: Timestamp,
    state: &'a [u8],
    /// Of a limiter under values that came with the request and are not in force; no waits if it
    /// would admit.
    waits: Option<WaitTimes>,
    settled: SettledUnits,
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
        if *reply == RedisReply::Nil && self.form != CallForm::Amending {
            return Ok(CallResult::Changed);
        }
        if let Some(begins) = written_under_others(limiters, reply) {
            let lacks = || begins.iter().take(limiters.len()).map(|code| Lacks::read(code));
            if lacks().any(|lacks| lacks.is_some()) {
                return Ok(CallResult::NoSpace(lacks().collect()));
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
            (CallForm::One, _, _) | (CallForm::GivingBack | CallForm::Resetting, ..) => None,
            (CallForm::Several | CallForm::Amending, _, all) => self.among_others(all, reply),
        };
        read.map(CallResult::Decided).ok_or_else(|| self.not_an_answer(reply))
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
        let heard = match reply {
            RedisReply::Bytes(state) => {
                let at = last(one, state)?;
                Heard {
                    verdict: Verdict::Allow,
                    now: at,
                    at,
                    state,
                    waits: None,
                    settled: SettledUnits::default(),
                }
            }
            RedisReply::Array(parts) => match parts.as_slice() {
                [
                    RedisReply::Int(verdict),
                    RedisReply::Int(now),
                    RedisReply::Int(at),
                    RedisReply::Bytes(state),
                ] => Heard {
                    verdict: verdict_of(*verdict)?,
                    now: time(*now)?,
                    at: time(*at)?,
                    state,
                    waits: None,
                    settled: SettledUnits::default(),
                },
                _ => return None,
            },
            RedisReply::Nil | RedisReply::Int(_) => return None,
        };
        let (decision, seen) =
            self.decision(one, &heard, matches!(self.step, ScriptStep::Ask | ScriptStep::Lease))?;
        let allowed = decision.is_allowed() || !one.enforced;
        let (decisions, seen) = (vec![decision], vec![seen]);
        let Heard { now, at, .. } = heard;
        Some(DecidedStep { allowed, now, at, repeated: false, decisions, seen })
    }

    fn among_others(&self, all: &[ScriptLimiter<'_>], reply: &RedisReply) -> Option<DecidedStep> {
        let RedisReply::Array(parts) = reply else { return None };
        let [RedisReply::Int(goes_on), RedisReply::Int(now), replies @ ..] = parts.as_slice()
        else {
            return None;
        };
        if replies.len() != 3 * all.len() {
            return None;
        }
        let (goes_on, repeated, now) = (*goes_on > 0, *goes_on == 2, time(*now)?);
        // An answer is remembered if units were taken, and a look reports it too.
        let took = goes_on && (repeated || self.step == ScriptStep::Ask);
        // The reply to a report holds the units taken, but does not say if one unit more fits.
        let is_report = self.step.is_report();
        let mut decided = DecidedStep { allowed: goes_on, repeated, ..DecidedStep::nothing(now) };
        for (one, reply) in all.iter().zip(replies.chunks_exact(3)) {
            let [RedisReply::Int(verdict), RedisReply::Int(at), state] = reply else { return None };
            let (state, numbers) = state_of(state)?;
            let settles = self.step.needs_bounds();
            let (waits, settled) = match numbers {
                Some([returned, cut]) if settles => {
                    let late = one.surplus(self.step).saturating_sub(returned);
                    (None, SettledUnits { returned, late, cut })
                }
                Some(waits) => {
                    let [wait, reset] = waits.map(Micros::from_micros);
                    (Some((wait, reset)), SettledUnits::default())
                }
                None => (None, SettledUnits::default()),
            };
            let (verdict, at) = (verdict_of(*verdict)?, time(*at)?);
            let heard = Heard { verdict, now, at, state, waits, settled };
            decided.at = decided.at.max(heard.at);
            if self.step != ScriptStep::Decide {
                let (decision, seen) = self.decision(one, &heard, took)?;
                decided.allowed &= decision.is_allowed() || !one.enforced || !is_report;
                decided.decisions.push(decision);
                decided.seen.push(seen);
            }
        }
        Some(decided)
    }

    fn decision(
        &self,
        one: &ScriptLimiter<'_>,
        heard: &Heard<'_>,
        took: bool,
    ) -> Option<(Decision, SeenLimiter)> {
        let &Heard { verdict, now, at, state, waits, settled } = heard;
        let taken = took && verdict.is_allowed() && one.cost > 0;
        let state = integers(&one.rule.script()?, state)?;
        let reply = ScriptReply { now, at, verdict, taken, state };
        let decision = match self.step {
            ScriptStep::Report | ScriptStep::ReportWithin if one.cost > 0 => {
                one.rule.standing(&reply)?
            }
            _ => one.rule.decision(if one.looks { 1 } else { one.cost }, &reply)?,
        };
        let decision = match waits {
            Some((retry_after, reset_after)) if !verdict.is_allowed() => {
                Decision { outcome: Outcome::Deny { retry_after }, reset_after, ..decision }
            }
            _ => decision,
        };
        let token = one.rule.token(&reply);
        Some((
            decision,
            SeenLimiter {
                reply,
                tried: waits.is_some(),
                newer: None,
                overflow: false,
                token,
                settled,
            },
        ))
    }

    /// The number of states in a reply to [`Call::giving_back`].
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
