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

use super::history::{PermitsEvent, PermitsEventKind, PermitsHistory};
use super::plan::PermitsPlan;
use crate::layers::sim::Sums;

/// Checks everything that happened.
pub(super) fn all(plan: &PermitsPlan, history: &PermitsHistory) -> Result<Sums, String> {
    let mut ledger = Ledger::new(plan);
    for (number, event) in history.store.iter().enumerate() {
        let of_event = |error| format!("event {number}, {event:?}: {error}");
        ledger.follow(event).map_err(of_event)?;
    }
    let mut sums = ledger.sums;
    if !ledger.went_back {
        in_order(history)?;
        sums.add("over", u64::from(within_limit(plan, history)?));
    }
    sums.add("answered late", history.answered_late);
    sums.add("out of time", history.out_of_time);
    sums.add("late", history.late);
    sums.add("written", history.written.len() as u64);
    sums.add("fenced", history.fenced);
    sums.add("crashes", history.crashes);
    sums.add("losses", history.losses.len() as u64);
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
    fn new(plan: &PermitsPlan) -> Self {
        Self {
            life: plan.life.as_micros(),
            limit: plan.limits[0],
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

    fn follow(&mut self, event: &PermitsEvent) -> Result<(), String> {
        self.stepped_back |= event.now < self.latest;
        self.latest = self.latest.max(event.now);
        match event.what {
            // Nothing reads the clock.
            PermitsEventKind::Copied => {
                self.copy = self.state.clone();
                return Ok(());
            }
            PermitsEventKind::Lost { to_copy } => {
                self.state = if to_copy { self.copy.clone() } else { ExpectedPermits::default() };
                self.has_lost = true;
                return Ok(());
            }
            PermitsEventKind::Changed { limit } => self.limit = limit,
            _ => {}
        }
        let at = self.state.read(event.now, self.life);
        match event.what {
            PermitsEventKind::Asked { units, token } => {
                let out = self.state.out(at);
                if (out + units <= self.limit) != token.is_some() {
                    return Err(format!("{out} units are out, of {}", self.limit));
                }
                match token {
                    Some(token) => self.give(at, event.now, units, token.as_micros())?,
                    None => self.sums.add("refused", 1),
                }
            }
            PermitsEventKind::Returned { token, units } => {
                self.give_back(at, token.as_micros(), units)
            }
            PermitsEventKind::Renewed { token, is_out } => {
                let expected = self.state.is_out(at, token.as_micros());
                if is_out != expected {
                    return Err(format!("the permit is out: {expected}"));
                }
                self.renew(at, token.as_micros());
            }
            PermitsEventKind::Forgotten => {
                let ExpectedPermits { last, newest, .. } = self.state;
                if self.state.out(at) > 0 || (at <= newest && at < last + self.life) {
                    return Err(format!("at {at} the last token is {newest}: {:?}", self.state));
                }
                self.state = ExpectedPermits::default();
                self.has_forgotten = true;
                self.sums.add("forgotten", 1);
            }
            PermitsEventKind::Copied
            | PermitsEventKind::Lost { .. }
            | PermitsEventKind::Changed { .. } => {}
        }
        let out = self.state.out(at);
        if out == event.used { Ok(()) } else { Err(format!("{out} units are out")) }
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

/// Checks that the resource took writes in the order of the permits.
fn in_order(history: &PermitsHistory) -> Result<(), String> {
    match history.written.windows(2).find(|two| two[0] > two[1]) {
        Some(two) => {
            Err(format!("the resource took a write under {} after one under {}", two[1], two[0]))
        }
        None => Ok(()),
    }
}

/// Checks the units of the jobs that worked at a time; returns whether they were ever more than the limit. Where the
/// store's clock has stepped forward, permits end earlier than their holders know.
fn within_limit(plan: &PermitsPlan, history: &PermitsHistory) -> Result<bool, String> {
    let changed =
        history.store.iter().any(|event| matches!(event.what, PermitsEventKind::Changed { .. }));
    let limit = if changed { plan.limits[0].max(plan.limits[1]) } else { plan.limits[0] };
    let life = plan.life.as_micros();
    let within_life = |times: &[u64], now: u64| {
        times.iter().filter(|time| **time <= now && now < **time + life).count() as u64
    };
    let mut over = false;
    for (time, units) in &history.working {
        if within_life(&history.steps, *time) > 0 {
            continue;
        }
        if *units > limit * (1 + within_life(&history.losses, *time)) {
            return Err(format!("work of {units} units runs at {time}, of {limit}"));
        }
        over |= *units > limit;
    }
    Ok(over)
}
