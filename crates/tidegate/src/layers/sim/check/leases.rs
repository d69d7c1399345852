//! The judge of leases: their units, and the counts of nodes.
//!
//! It keeps an account for each node, limiter and revision: granted units come in, spent and returned units go out,
//! and it may never be below zero.

use std::collections::BTreeMap;

use super::super::history::{DecidedBy, LayersEvent, LayersEventKind, LayersHistory, NodeCounts};
use super::super::plan::{LONG, LayersPlan};

/// Each unit of a lease is spent, or given back once, or it is lost: with its node, or for a cause that the node counts.
pub(super) fn each_once(plan: &LayersPlan, history: &LayersHistory) -> Result<(), String> {
    let mut accounts = LeaseAccounts {
        plan,
        granted: BTreeMap::new(),
        holdings: BTreeMap::new(),
        nodes: vec![NodeUnits::default(); history.accounts.len()],
    };
    for event in &history.events {
        accounts.note(event)?;
    }
    for (node, counts) in history.accounts.iter().enumerate().filter(|(_, one)| !one.crashed) {
        accounts.agree(node, counts, &history.events)?;
    }
    Ok(())
}

/// The leases of a run, as its events tell.
struct LeaseAccounts<'p> {
    plan: &'p LayersPlan,
    /// The revision of each lease, by its node and ticket, and whether a store granted it that had been replaced.
    granted: BTreeMap<(usize, u64), (u32, bool)>,
    /// By node and limiter.
    holdings: BTreeMap<(usize, usize), Holding>,
    /// By node.
    nodes: Vec<NodeUnits>,
}

/// The leased units of a node from all limiters.
#[derive(Clone, Debug, Default)]
struct NodeUnits {
    taken: u64,
    admitted: u64,
    late: u64,
    back: u64,
}

/// The leases of a node from one limiter.
#[derive(Debug, Default)]
struct Holding {
    newest_ticket: u64,
    /// When the last lease ends.
    ends: u64,
    /// The ticket up to which leases ended with a reset through the node, and when that was known.
    void: Option<(u64, u64)>,
    /// The units that can still be spent, by revision.
    left: BTreeMap<u32, i64>,
    /// The units that came back, by revision.
    returned: BTreeMap<u32, i64>,
}

impl Holding {
    /// Changes the units that can still be spent.
    fn change(&mut self, revision: u32, units: i64, event: &LayersEvent) -> Result<(), String> {
        let left = self.left.entry(revision).or_default();
        *left += units;
        if *left < 0 {
            return Err(format!("more was spent than leased: {event:?}"));
        }
        Ok(())
    }

    /// The leases end with a reset.
    fn reset(&mut self, at: u64) {
        self.void = Some((self.newest_ticket, at));
        self.left.clear();
    }

    /// A store that has lost the record of a return accepts it once more.
    fn lose(&mut self) {
        for (revision, units) in std::mem::take(&mut self.returned) {
            *self.left.entry(revision).or_default() += units;
        }
    }
}

impl LeaseAccounts<'_> {
    fn note(&mut self, event: &LayersEvent) -> Result<(), String> {
        match event.what {
            LayersEventKind::Granted { node, ticket, units, ends, revision } => {
                let revision = self.of_rule(event, revision);
                self.granted.insert((node, ticket), (revision, event.is_former));
                self.nodes[node].taken += units;
                let holding = self.holding(node, event);
                holding.newest_ticket = ticket;
                holding.ends = holding.ends.max(ends);
                holding.change(revision, units.cast_signed(), event)?;
            }
            // The successor of the store does not have units that came back to it.
            LayersEventKind::Returned { node, ticket, units, is_late, .. } if !event.is_former => {
                self.note_return(node, ticket, units, is_late, event)?;
            }
            LayersEventKind::Admitted {
                node,
                units,
                by: DecidedBy::Lease,
                asked,
                revision,
                ..
            } => {
                let revision = self.of_rule(event, revision);
                self.nodes[node].admitted += units;
                let holding = self.holding(node, event);
                if asked >= holding.ends {
                    return Err(format!("a lease is spent after its end: {event:?}"));
                }
                let is_void = holding.void.is_some_and(|(_, at)| asked <= at);
                let units = if is_void { 0 } else { units.cast_signed() };
                holding.change(revision, -units, event)?;
            }
            LayersEventKind::Lost { .. } => {
                let of_limiter =
                    self.holdings.iter_mut().filter(|((_, limiter), _)| *limiter == event.limiter);
                of_limiter.for_each(|(_, holding)| holding.lose());
            }
            LayersEventKind::Back { node, is_reset: true } => {
                self.holding(node, event).reset(event.at);
            }
            _ => {}
        }
        Ok(())
    }

    fn note_return(
        &mut self,
        node: usize,
        ticket: u64,
        units: u64,
        is_late: bool,
        event: &LayersEvent,
    ) -> Result<(), String> {
        let Some((revision, false)) = self.granted.get(&(node, ticket)).copied() else {
            return Err(format!("a lease comes back that was not granted: {event:?}"));
        };
        if is_late {
            self.nodes[node].late += units;
        } else {
            self.nodes[node].back += units;
        }
        let holding = self.holding(node, event);
        let is_void = holding.void.is_some_and(|(last, _)| ticket <= last);
        let units = if is_void { 0 } else { units.cast_signed() };
        *holding.returned.entry(revision).or_default() += units;
        holding.change(revision, -units, event)
    }

    /// The leases of a node from the limiter of an event.
    fn holding(&mut self, node: usize, event: &LayersEvent) -> &mut Holding {
        self.holdings.entry((node, event.limiter)).or_default()
    }

    /// The revision that leases of the event's limiter have: they stay when another rule changes.
    fn of_rule(&self, event: &LayersEvent, revision: u32) -> u32 {
        self.plan.second_rule(event.limiter).map_or(0, |_| revision)
    }

    /// The counts of a node that lived agree with its leases.
    fn agree(
        &self,
        node: usize,
        counts: &NodeCounts,
        events: &[LayersEvent],
    ) -> Result<(), String> {
        let NodeUnits { taken, admitted, late, back } = self.nodes[node];
        let is_reset = |limiter: usize| {
            events
                .iter()
                .any(|event| event.limiter == limiter && event.what == LayersEventKind::Reset)
        };
        // The store may have lost the record of a return, so the units may be taken back once more.
        let loses = events
            .iter()
            .any(|event| event.is_former || matches!(event.what, LayersEventKind::Lost { .. }));
        let own = || self.holdings.iter().filter(|((of, _), _)| *of == node);
        // A reset forgets leases, even if some are spent.
        let kept = own().filter(|((_, limiter), _)| !is_reset(*limiter));
        let lost = kept.flat_map(|(_, holding)| holding.left.values());
        let lost: u64 = lost.map(|units| units.cast_unsigned()).sum();
        // A node that lives to the end has the time to give back all units that still count then.
        let of_long = self.holdings.get(&(node, LONG));
        let of_long: i64 = of_long.map_or(0, |holding| holding.left.values().sum());
        let gives_all = self.plan.nodes[node].end.is_none() && !is_reset(LONG);
        // A lease without a reply may end before the store is back.
        let unheard = u64::saturating_sub(taken, counts.taken + counts.late);
        if !loses && (lost > counts.no_reply + unheard || gives_all && of_long > 0) {
            let own: Vec<_> = own().collect();
            return Err(format!("node {node} lost {lost} leased units: {counts:?}, {own:?}"));
        }
        if counts.taken != counts.spent + counts.unspent || counts.spent != admitted {
            return Err(format!("node {node} admitted {admitted} leased units: {counts:?}"));
        }
        // Units that came too late are back as well, if the reply was lost and the node asked again.
        let known = counts.too_late + counts.returned;
        if counts.too_late > late || known > late + back {
            return Err(format!("node {node} counts units that did not come back: {counts:?}"));
        }
        Ok(())
    }
}
