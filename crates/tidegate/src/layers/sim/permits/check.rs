//! The judge of a history of permits. It keeps its own list of the permits that are out, from the definition in
//! SPEC.md.
//!
//! - A permit is given only if its units and the units that are out fit in the limit. So never more are out by the
//!   store's clock, and the units of a crashed holder come back at the end of their life.
//! - A token is larger than all before it. The resource never takes a write of an earlier holder after a write of a
//!   later holder.
//! - A renewal answers whether the permit was out. It, a return, and whatever is repeated or late change nothing else.
//! - The work that runs is within the limit, and one limit more for a life after each loss of data.

use std::collections::BTreeMap;

use crate::layers::sim::Sums;
use crate::layers::sim::history::{LayersEventKind, LayersHistory, PermitStep};
use crate::layers::sim::plan::{End, LayersPlan};
use crate::rules::limit_of;

/// Checks everything that happened.
pub(super) fn all(plan: &LayersPlan, history: &LayersHistory) -> Result<Sums, String> {
    let mut ledger = Ledger::new(plan);
    for (number, event) in history.events.iter().enumerate() {
        let of_event = |error| format!("event {number}, {event:?}: {error}");
        ledger.follow(event.what).map_err(of_event)?;
    }
    let mut sums = ledger.sums;
    if !ledger.went_back {
        in_order(history)?;
        sums.add("over", u64::from(within_limit(plan, history)?));
    }
    let crashes = plan.nodes.iter().filter(|node| matches!(node.end, Some((_, End::Crashes))));
    sums.add("crashes", crashes.count() as u64);
    Ok(sums)
}

/// The permits that the store should know, and the time and the token of the last permit.
#[derive(Clone, Debug, Default)]
struct ExpectedPermits {
    /// The units and the end of each, by its token.
    permits: BTreeMap<u64, (u64, u64)>,
    last: u64,
    newest: u64,
}

impl ExpectedPermits {
    /// Returns the time that counts. A reading that is earlier than the last permit by no more than a life counts as its
    /// time; after a longer step back the ends move with it.
    fn read(&mut self, now: u64, life: u64) -> u64 {
        let back = self.last.saturating_sub(now);
        if back <= life {
            return now.max(self.last);
        }
        self.permits.values_mut().for_each(|(_, end)| *end = end.saturating_sub(back));
        self.last = now;
        now
    }

    fn out(&self, at: u64) -> u64 {
        self.permits.values().filter(|(_, end)| *end > at).map(|(units, _)| units).sum()
    }

    /// Returns whether no unit is out, and no new limiter could give the last token again.
    fn is_idle(&self, at: u64, life: u64) -> bool {
        self.out(at) == 0 && (at > self.newest || at >= self.last + life)
    }

    fn is_out(&self, at: u64, token: u64) -> bool {
        self.permits.get(&token).is_some_and(|(_, end)| *end > at)
    }
}

struct Ledger {
    life: u64,
    limit: u64,
    state: ExpectedPermits,
    copy: ExpectedPermits,
    /// The largest token so far, and the latest reading of the store's clock.
    largest: u64,
    latest: u64,
    stepped_back: bool,
    /// True if the store has lost data, or has forgotten an idle limiter.
    has_lost: bool,
    has_forgotten: bool,
    /// True if a token was no larger than one before, as it may be then.
    went_back: bool,
    sums: Sums,
}

impl Ledger {
    fn new(plan: &LayersPlan) -> Self {
        Self {
            life: life_us(plan),
            limit: limit_of(&plan.rule(0)).unwrap_or_default(),
            state: ExpectedPermits::default(),
            copy: ExpectedPermits::default(),
            largest: 0,
            latest: 0,
            stepped_back: false,
            has_lost: false,
            has_forgotten: false,
            went_back: false,
            sums: Sums::default(),
        }
    }

    fn follow(&mut self, event: LayersEventKind) -> Result<(), String> {
        match event {
            LayersEventKind::Copied => self.copy = self.state.clone(),
            LayersEventKind::Lost { to_copy } => {
                self.state = if to_copy { self.copy.clone() } else { ExpectedPermits::default() };
                self.has_lost = true;
                self.sums.add("losses", 1);
            }
            LayersEventKind::Permit { step, now, out, limit } => {
                self.change(now, limit);
                self.step(step, now)?;
                let at = self.state.read(now, self.life);
                let expected = self.state.out(at);
                if expected != out {
                    return Err(format!("{expected} units are out"));
                }
            }
            LayersEventKind::Undone { .. } => self.sums.add("late", 1),
            LayersEventKind::OutOfTime => self.sums.add("out of time", 1),
            LayersEventKind::AnsweredLate => self.sums.add("answered late", 1),
            LayersEventKind::Written { is_taken, .. } => {
                self.sums.add(if is_taken { "written" } else { "fenced" }, 1);
            }
            _ => {}
        }
        Ok(())
    }

    /// Follows a change of the limit, after which a store keeps no idle limiter.
    fn change(&mut self, now: u64, limit: u64) {
        if limit == self.limit {
            return;
        }
        self.limit = limit;
        let at = self.state.read(now, self.life);
        if self.state.is_idle(at, self.life) {
            self.state = ExpectedPermits::default();
            self.has_forgotten = true;
        }
    }

    fn step(&mut self, step: PermitStep, now: u64) -> Result<(), String> {
        self.stepped_back |= now < self.latest;
        self.latest = self.latest.max(now);
        let at = self.state.read(now, self.life);
        match step {
            PermitStep::Asked { units, token } => {
                let out = self.state.out(at);
                if (out + units <= self.limit) != token.is_some() {
                    return Err(format!("{out} units are out, of {}", self.limit));
                }
                match token {
                    Some(token) => self.give(at, now, units, token.as_micros())?,
                    None => self.sums.add("refused", 1),
                }
            }
            PermitStep::Returned { token, units } => self.give_back(at, token.as_micros(), units),
            PermitStep::Renewed { token, is_out } => {
                let expected = self.state.is_out(at, token.as_micros());
                if is_out != expected {
                    return Err(format!("the permit is out: {expected}"));
                }
                self.renew(at, token.as_micros());
            }
            PermitStep::Forgotten => {
                if !self.state.is_idle(at, self.life) {
                    return Err(format!("at {at} it is not idle: {:?}", self.state));
                }
                self.state = ExpectedPermits::default();
                self.has_forgotten = true;
                self.sums.add("forgotten", 1);
            }
        }
        Ok(())
    }

    fn give(&mut self, at: u64, now: u64, units: u64, token: u64) -> Result<(), String> {
        if token <= self.largest {
            let may_go_back = self.has_lost || self.has_forgotten && self.stepped_back;
            if !may_go_back || now > self.largest {
                return Err(format!("a token was {} before", self.largest));
            }
            self.went_back = true;
        }
        self.largest = self.largest.max(token);
        let known = self.state.permits.len();
        self.state.permits.retain(|_, (_, end)| *end > at);
        self.sums.add("ended", (known - self.state.permits.len()) as u64);
        self.state.permits.insert(token, (units, at + self.life));
        (self.state.last, self.state.newest) = (at, token);
        self.sums.add("given", 1);
        Ok(())
    }

    /// Of a permit only its own units come back: after a loss of data another permit may have its token.
    fn give_back(&mut self, at: u64, token: u64, units: u64) {
        let Some((left, _)) = self.state.permits.get_mut(&token).filter(|(_, end)| *end > at)
        else {
            self.sums.add("in vain", 1);
            return;
        };
        *left = left.saturating_sub(units);
        if *left == 0 {
            self.state.permits.remove(&token);
        }
        self.sums.add("returned", 1);
    }

    fn renew(&mut self, at: u64, token: u64) {
        let Some((_, end)) = self.state.permits.get_mut(&token).filter(|(_, end)| *end > at) else {
            self.sums.add("in vain", 1);
            return;
        };
        *end = (*end).max(at + self.life);
        self.state.last = at;
        self.sums.add("renewed", 1);
    }
}

fn life_us(plan: &LayersPlan) -> u64 {
    plan.rule(0).spec().window.unwrap_or_default().as_micros() as u64
}

/// Checks that the resource took writes in the order of the permits, whose tokens grow.
fn in_order(history: &LayersHistory) -> Result<(), String> {
    let mut last = None;
    for event in &history.events {
        let LayersEventKind::Written { token, is_taken: true } = event.what else { continue };
        if token < last {
            return Err(format!("the resource took a write under {token:?} after {last:?}"));
        }
        last = token;
    }
    Ok(())
}

/// Checks the units of the jobs that worked at a time, each from its first to its last write; returns whether they were
/// ever more than the limit. Where the store's clock has stepped forward, permits end earlier than their holders know.
fn within_limit(plan: &LayersPlan, history: &LayersHistory) -> Result<bool, String> {
    let limits = [Some(plan.rule(0)), plan.second_rule(0)];
    let limit = limits.iter().flatten().filter_map(limit_of).max().unwrap_or_default();
    let life = life_us(plan);
    let mut steps = Vec::new();
    let mut losses = Vec::new();
    let mut ends = BTreeMap::new();
    for event in &history.events {
        match event.what {
            LayersEventKind::Stepped { by: 1.. } => steps.push(event.at),
            LayersEventKind::Lost { .. } => losses.push(event.at),
            LayersEventKind::Working { request, .. } => drop(ends.insert(request, event.at)),
            _ => {}
        }
    }
    let within_life = |times: &[u64], now: u64| {
        times.iter().filter(|time| **time <= now && now < **time + life).count() as u64
    };
    let mut over = false;
    let mut working = BTreeMap::new();
    for event in &history.events {
        let LayersEventKind::Working { request, units } = event.what else { continue };
        working.retain(|request, _| ends[request] >= event.at);
        working.insert(request, units);
        if within_life(&steps, event.at) > 0 {
            continue;
        }
        let units = working.values().sum::<u64>();
        if units > limit * (1 + within_life(&losses, event.at)) {
            return Err(format!("work of {units} units runs at {}, of {limit}", event.at));
        }
        over |= units > limit;
    }
    Ok(over)
}
