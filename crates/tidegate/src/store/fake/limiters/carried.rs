//! The loss of limiters, and units that are carried to a store that lost them.

use std::slice::from_ref;

use tidegate_core::Timestamp;

use super::{FakeLimiters, key_of};
use crate::rules::Policy;
use crate::store::{KeyAsk, KnownUse, LeaseAsk, LeaseReply, LeaseResult, StoredData};

impl FakeLimiters {
    /// The limiters of an empty server with this number.
    pub(crate) fn of_server(server: u64) -> Self {
        Self { server, ..Self::default() }
    }

    /// Forgets the limiters of some rules, by their numbers.
    pub(crate) fn forget_rules(&mut self, of: impl Fn(u32) -> bool) {
        self.all.retain(|(lineage, _), _| !of(lineage.number_of_rule()));
        self.leases.retain(|((lineage, _), ..), _| !of(lineage.number_of_rule()));
    }

    /// Forgets a limiter, and not its leases.
    pub(crate) fn forget_limiter(&mut self, ask: &KeyAsk) {
        self.all.remove(&key_of(ask));
    }

    /// Takes over the units that are carried, unless a limiter has no state though it must.
    pub(crate) fn carry(
        &mut self,
        policy: &Policy,
        asks: &[KeyAsk],
        known: &[KnownUse],
        now: Timestamp,
    ) -> StoredData {
        let server = self.server;
        let mut data = StoredData { server, ..StoredData::default() };
        for (ask, known) in asks.iter().zip(known) {
            data.is_lost |= known.server().is_some_and(|it| it != server);
            data.is_lost |= known.is_stored() && !self.exists(ask);
        }
        if data.is_lost {
            return data;
        }
        let all = asks.iter().zip(known).enumerate();
        // First the states that are missing: they show if the server has lost any that it reported.
        let (stored, missing): (Vec<_>, Vec<_>) = all.partition(|(_, (ask, _))| self.exists(ask));
        let mut has_lost = false;
        for (place, (ask, known)) in missing {
            let is_carried = self.carry_one(policy, ask, known, now);
            data.carried.extend(is_carried.then_some(place));
            has_lost |= is_carried && known.is_own();
        }
        for (place, (ask, known)) in stored {
            let stays = known.is_own() && !has_lost;
            let is_carried = !stays && self.carry_one(policy, ask, known, now);
            data.carried.extend(is_carried.then_some(place));
        }
        data
    }

    fn exists(&self, ask: &KeyAsk) -> bool {
        self.all.get(&key_of(ask)).is_some_and(|(_, limiter)| limiter.exists())
    }

    /// Takes over the units that are carried of a limiter; returns whether they took the place of its state.
    fn carry_one(
        &mut self,
        policy: &Policy,
        ask: &KeyAsk,
        known: &KnownUse,
        now: Timestamp,
    ) -> bool {
        let Some(known) = known.carried().filter(|known| !known.used.is_empty()) else {
            return false;
        };
        let reset = self.resets.get(&key_of(ask));
        let is_reset = reset.is_some_and(|reset| *reset >= known.reported);
        !is_reset && self.of(policy, ask, now).carry(known, now)
    }

    /// Returns the time of the last unit of a limiter.
    pub(crate) fn last(&self, ask: &KeyAsk, now: Timestamp) -> Timestamp {
        let limiter = self.all.get(&key_of(ask)).map(|(_, limiter)| limiter);
        limiter.map_or(Timestamp::EPOCH, |limiter| limiter.used_units(now).1)
    }

    /// Takes a lease for a node, unless the limiter has other values, or lost a state that must be there.
    pub(crate) fn lease(
        &mut self,
        policy: &Policy,
        ask: &KeyAsk,
        LeaseAsk { wanted, node, known, .. }: LeaseAsk<'_>,
        now: Timestamp,
    ) -> LeaseReply {
        let data = self.carry(policy, from_ref(ask), from_ref(known), now);
        if data.is_lost {
            return LeaseReply { data, ..LeaseReply::new(true, LeaseResult::Undecided) };
        }
        let result = self.take_lease(policy, ask, wanted, node, now);
        let used = Some(self.of(policy, ask, now).used_units(now));
        LeaseReply { used, data, ..LeaseReply::new(true, result) }
    }
}
