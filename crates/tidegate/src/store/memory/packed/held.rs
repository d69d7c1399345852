//! Packed limiters in hand for a step over several.

use tidegate_core::{Room, Timestamp};

use super::Packed;
use super::aside::ASIDE;
use super::chains::{Chain, Chains, Place};
use crate::key::Fingerprint;
use crate::store::memory::hands::{Hand, Hands, Standing};
use crate::store::memory::table::{Hold, Holding, Part};

/// Limiters of one table in hand, their chains locked.
#[derive(Debug)]
struct HeldChains<'a, R: Room> {
    table: &'a Packed<R>,
    chains: Vec<Chain<'a>>,
    hands: Hands<'a, R>,
}

impl<R: Room> Packed<R> {
    /// Locks the chains of all parts, and takes their limiters in hand.
    pub(super) fn hold_chains(&self, parts: &[Part], now: Timestamp) -> Option<Box<dyn Hold + '_>> {
        let chains = self.lock_all(parts)?;
        let in_hand = |part: &Part| self.take_in_hand(&chains, *part, now);
        let hands = parts.iter().map(in_hand).collect();
        let hands = Hands::new(hands, &self.shared, &self.budget);
        Some(Box::new(HeldChains { table: self, chains, hands }))
    }

    /// Locks the chains of all parts, in the order of their numbers; `None` where one is closed.
    fn lock_all(&self, parts: &[Part]) -> Option<Vec<Chain<'_>>> {
        loop {
            let mut numbers: Vec<_> =
                parts.iter().map(|part| self.chains.number_of(part.print)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let locked = numbers.iter().map(|number| self.chains.lock_number(*number));
            let chains: Vec<_> = locked.collect::<Option<_>>()?;
            // A chain may have been split before its lock was had; none can be from now on.
            let holds =
                |part: &Part| numbers.binary_search(&self.chains.number_of(part.print)).is_ok();
            if parts.iter().all(holds) {
                return Some(chains);
            }
        }
    }

    fn take_in_hand(&self, chains: &[Chain<'_>], part: Part, now: Timestamp) -> Hand<R> {
        let found = find(chains, &self.chains, part.print);
        let slot = found.map(|place| self.unpack(part.print, place.state()));
        let stays = part.step.takes(part.cost);
        let standing = match slot {
            Some(_) => Standing::There,
            None if !self.find_room(stays, now) => Standing::Beyond,
            None if stays => Standing::Claimed,
            None => Standing::Absent,
        };
        Hand { part, slot, standing, claimed: 0 }
    }
}

/// Where a limiter is in the chains that are locked.
fn find<'a>(chains: &[Chain<'a>], of: &Chains, print: Fingerprint) -> Option<Place<'a>> {
    of_print(chains, of, print)?.find(print)
}

fn of_print<'c, 'a>(
    chains: &'c [Chain<'a>],
    of: &Chains,
    print: Fingerprint,
) -> Option<&'c Chain<'a>> {
    let number = of.number_of(print);
    chains.iter().find(|chain| chain.number() == number)
}

impl<R: Room> Hold for HeldChains<'_, R> {
    fn held(&mut self) -> Vec<Holding<'_>> {
        self.hands.held(&self.table.room)
    }

    fn release(mut self: Box<Self>, at: Timestamp) {
        let table = self.table;
        self.hands.release_shared(&table.room, &table.budget);
        let mut added = false;
        for hand in &mut self.hands.hands {
            let Part { print, step, cost, .. } = hand.part;
            let Some(chain) = of_print(&self.chains, &table.chains, print) else {
                continue;
            };
            let state = hand.slot.take();
            match (hand.standing, chain.find(print)) {
                (Standing::There, Some(place)) => {
                    let may_be_cut = step.owes(cost) || place.state() == ASIDE;
                    table.store(chain, place, print, table.word(print, state, may_be_cut, at));
                }
                (Standing::Claimed, _) => {
                    table.add(chain, print, table.word(print, state, step.owes(cost), at));
                    added = true;
                }
                _ => {}
            }
        }
        drop(self);
        if added {
            table.tend(at);
        }
    }

    fn forget(mut self: Box<Self>) {
        self.hands.release_shared(&self.table.room, &self.table.budget);
        for hand in self.hands.hands.iter().filter(|hand| hand.standing.is_there()) {
            let print = hand.part.print;
            let Some(chain) = of_print(&self.chains, &self.table.chains, print) else { continue };
            if let Some(place) = chain.find(print) {
                self.table.store(chain, place, print, 0);
            }
        }
    }
}
