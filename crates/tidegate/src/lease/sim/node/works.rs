//! Reservations of a node: works that settle their units when they end.

use tidegate_core::Timestamp;

use super::super::super::Leased;
use super::super::history::{LeasesEventKind, LeasesHistory, RequestId, TakenFor};
use super::super::plan::Work;
use super::super::store::{LeasesQuestion, Stands};
use super::{LeasesNode, SentQuestion};

/// A work, until it is settled.
#[derive(Clone, Debug)]
pub(in super::super) struct Working {
    pub(in super::super) work: Work,
    parts: Vec<Reserved>,
}

/// Units of one limiter that a work reserved.
#[derive(Clone, Debug)]
struct Reserved {
    key: usize,
    cost: u64,
    /// When the store took the oldest of them.
    since: Timestamp,
    /// The source of the units, the time when they were spent if that is a lease, and their number.
    of: Vec<(TakenFor, u64, u64)>,
}

impl LeasesNode<'_> {
    /// Begins the work of a request that reserved its costs: spent units of leases, and units that the store took.
    pub(super) fn begin_work(
        &mut self,
        work: Option<Work>,
        time: u64,
        (asked, leased): (&[(usize, u64)], &[Leased]),
        (request, limiters): (RequestId, &[Stands]),
    ) {
        let Some(work) = work else { return };
        let mut parts = Vec::new();
        for (place, &(key, cost)) in asked.iter().enumerate() {
            if let Some(since) = Leased::oldest(leased, place) {
                let of_lease = |part: &Leased| {
                    let (ticket, units) = part.units_of();
                    (TakenFor::Lease(self.id(ticket)), time, units)
                };
                let of = leased.iter().filter(|part| part.place == place).map(of_lease).collect();
                parts.push(Reserved { key, cost, since, of });
            } else if let Some(one) = limiters.iter().find(|one| one.key == key) {
                let of = vec![(TakenFor::Request(request), 0, cost)];
                parts.push(Reserved { key, cost, since: one.at, of });
            }
        }
        self.works.push(Working { work, parts });
    }

    /// Settles a reservation whose work has ended.
    pub(in super::super) fn settle(
        &self,
        time: u64,
        working: &Working,
        history: &mut LeasesHistory,
    ) -> Vec<SentQuestion> {
        let Working { work, parts } = working;
        let mut sent = Vec::new();
        for Reserved { key, cost, since, of } in parts {
            let actual = work.actual(*cost);
            let (mut surplus, more) = (cost.saturating_sub(actual), actual.saturating_sub(*cost));
            let mut back = Vec::new();
            for &(of, at, units) in of {
                let units = units.min(surplus);
                if units > 0 {
                    surplus -= units;
                    history.add(time, *key, LeasesEventKind::Unused { of, at, units });
                    back.push((of, units));
                }
            }
            if more > 0 || !back.is_empty() {
                let terms = self.plan.keys[*key].terms(self.number, self.revisions[*key]);
                let since = terms.map_or(*since, |terms| since.minus(terms.exact_earlier()));
                sent.push((LeasesQuestion::Settle { key: *key, back, more, since }, None));
            }
        }
        sent
    }
}
