//! Whole states in hand for a step over several limiters.

use std::sync::MutexGuard;

use tidegate_core::{Room, Timestamp};

use super::Whole;
use super::shard::Shard;
use crate::key::Fingerprint;
use crate::store::memory::hands::{Hand, Hands, Standing};
use crate::store::memory::table::{Hold, Holding, Part};

type Locked<'a, R> = (usize, MutexGuard<'a, Shard<R>>);

/// Limiters of one table in hand, their shards locked.
#[derive(Debug)]
struct HeldShards<'a, R: Room> {
    table: &'a Whole<R>,
    shards: Vec<Locked<'a, R>>,
    hands: Hands<'a, R>,
}

impl<R: Room> Whole<R> {
    /// Locks the shards of all parts, in the order of their numbers, and takes their limiters in hand;
    /// `None` where one is closed.
    pub(super) fn hold_shards(&self, parts: &[Part], now: Timestamp) -> Option<Box<dyn Hold + '_>> {
        let mut numbers: Vec<_> = parts.iter().map(|part| Self::shard_of(part.print)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let locked = numbers.iter().map(|number| {
            let shard = self.lock(*number);
            (!shard.is_closed()).then_some((*number, shard))
        });
        let mut shards: Vec<_> = locked.collect::<Option<_>>()?;
        let in_hand = |part: &Part| self.take_in_hand(&mut shards, *part, now);
        let hands = parts.iter().map(in_hand).collect();
        let hands = Hands::new(hands, &self.shared, &self.budget);
        Some(Box::new(HeldShards { table: self, shards, hands }))
    }

    fn take_in_hand(&self, shards: &mut [Locked<'_, R>], part: Part, now: Timestamp) -> Hand<R> {
        let hand = |standing| Hand { part, slot: None, standing, claimed: 0 };
        let Some(shard) = shard_among(shards, part.print) else { return hand(Standing::Beyond) };
        if let Some(hand) = self.take_kept_in_hand(shard, part, now) {
            return hand;
        }
        let stays = part.step.begins(part.cost);
        match self.find_room(shard, stays, now) {
            true if stays => Hand { claimed: self.need.first, ..hand(Standing::Claimed) },
            true => hand(Standing::Absent),
            false => hand(Standing::Beyond),
        }
    }

    fn take_kept_in_hand(
        &self,
        shard: &mut Shard<R>,
        part: Part,
        now: Timestamp,
    ) -> Option<Hand<R>> {
        // Out of the table while room is looked for, or it could be dropped for it.
        let slot = shard.get_mut(part.print)?.slot.take();
        let wanted = self.growth(part.step, part.cost);
        let claimed = self.claim_growth(shard, wanted, now);
        if !claimed && slot.as_ref().is_some_and(|state| self.room.is_as_good_as_new(state, now)) {
            shard.forget(part.print, &self.budget);
            return None;
        }
        let standing = if claimed { Standing::There } else { Standing::Cramped };
        Some(Hand { part, slot, standing, claimed: if claimed { wanted } else { 0 } })
    }
}

fn shard_among<'s, R: Room>(
    shards: &'s mut [Locked<'_, R>],
    print: Fingerprint,
) -> Option<&'s mut Shard<R>> {
    let number = Whole::<R>::shard_of(print);
    shards.iter_mut().find(|(of, _)| *of == number).map(|(_, shard)| &mut **shard)
}

impl<R: Room> Hold for HeldShards<'_, R> {
    fn held(&mut self) -> Vec<Holding<'_>> {
        self.hands.held(&self.table.room)
    }

    fn release(mut self: Box<Self>, at: Timestamp) {
        let table = self.table;
        self.hands.release_shared(&table.room, &table.budget);
        for hand in &mut self.hands.hands {
            let Some(shard) = shard_among(&mut self.shards, hand.part.print) else { continue };
            match hand.standing {
                Standing::There | Standing::Cramped => {
                    if let Some(kept) = shard.get_mut(hand.part.print) {
                        kept.slot = hand.slot.take();
                        kept.weigh(&table.room, &table.budget, hand.claimed);
                    }
                }
                Standing::Claimed => table.add(shard, hand.part.print, hand.slot.take(), at),
                Standing::Absent | Standing::Beyond => {}
            }
        }
    }

    fn forget(mut self: Box<Self>) {
        self.hands.release_shared(&self.table.room, &self.table.budget);
        for hand in self.hands.hands.iter().filter(|hand| hand.standing.is_there()) {
            if let Some(shard) = shard_among(&mut self.shards, hand.part.print) {
                shard.forget(hand.part.print, &self.table.budget);
            }
        }
    }
}
