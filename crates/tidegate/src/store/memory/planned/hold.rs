//! Limiters under figures of their own in hand for a step over several.

use std::sync::{Arc, MutexGuard, PoisonError};

use tidegate_core::{Room, Rule, Timestamp, Visitor};

use super::bystander::Bystander;
use super::figures::{Figures, Recent};
use super::hand::{AnyHand, Hand, Home, Standing};
use super::held::Own;
use super::kept::{Kept, leaves_a_trace};
use super::shard::Shard;

use super::{PlannedPart, PlannedTable, never, shard_of};
use crate::key::Fingerprint;
use crate::rules::OnFull;
use crate::store::memory::shards::LOOKED_AT_PER_ADDED;
use crate::store::memory::table::{Hold, Holding, Part};

type Locked<'a> = (usize, MutexGuard<'a, Shard>);

/// Limiters of one table in hand, their shards locked.
struct HeldPlanned<'a> {
    table: &'a PlannedTable,
    shards: Vec<Locked<'a>>,
    /// The one that keys without room share, if one of them needs it.
    overflow: Option<MutexGuard<'a, Kept>>,
    hands: Vec<Box<dyn AnyHand + 'a>>,
}

impl PlannedTable {
    /// Holds several limiters, none named twice, until the answer is dropped or released: their shards are
    /// locked in the order of their numbers, then the limiter that keys without room share. `now` is a time
    /// at or before that of the step.
    pub(in crate::store::memory) fn hold<'a>(
        &'a self,
        parts: &[PlannedPart<'a>],
        now: Timestamp,
    ) -> Box<dyn Hold + 'a> {
        let mut numbers: Vec<_> = parts.iter().map(|part| shard_of(part.part.print)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let shards = numbers.into_iter().map(|number| (number, self.lock(number))).collect();
        let hands = Vec::with_capacity(parts.len());
        let mut held = HeldPlanned { table: self, shards, overflow: None, hands };
        for part in parts {
            let hand = held.take_in_hand(*part, now);
            held.hands.push(hand);
        }
        Box::new(held)
    }
}

impl<'a> HeldPlanned<'a> {
    fn take_in_hand(&mut self, asked: PlannedPart<'a>, now: Timestamp) -> Box<dyn AnyHand + 'a> {
        let hand = asked.rule.visit(TakingInHand { held: self, asked, now });
        hand.unwrap_or_else(|| Box::new(Bystander::unlimited(asked)))
    }

    /// The limiter that keys without room share, for the first of them in this step.
    fn overflow(&mut self, asked: PlannedPart<'a>) -> Option<Box<dyn AnyHand + 'a>> {
        if self.table.on_full == OnFull::Refuse || self.overflow.is_some() {
            return None;
        }
        let (usual, asked) = (self.table.usual(), PlannedPart { brought: false, ..asked });
        usual.visit(TakingOverflow { held: self, asked, usual: &usual })?
    }

    fn home(&mut self, print: Fingerprint) -> Option<Home<'_>> {
        let shard = among(&mut self.shards, print)?;
        let overflow = self.overflow.as_deref_mut();
        Some(Home { shard, overflow, budget: &self.table.budget })
    }
}

fn among<'s>(shards: &'s mut [Locked<'_>], print: Fingerprint) -> Option<&'s mut Shard> {
    let number = shard_of(print);
    shards.iter_mut().find(|(of, _)| *of == number).map(|(_, shard)| &mut **shard)
}

impl Hold for HeldPlanned<'_> {
    fn begin(&mut self, at: Timestamp) {
        for hand in &mut self.hands {
            let shard = among(&mut self.shards, hand.print());
            let kept = shard.and_then(|shard| shard.get_mut(hand.print()));
            hand.begin(kept.map(|(kept, _)| kept), &self.table.budget, at);
        }
    }

    fn held(&mut self) -> Vec<Holding<'_>> {
        self.hands.iter_mut().map(|hand| hand.hold()).collect()
    }

    fn release(mut self: Box<Self>, at: Timestamp) {
        for hand in std::mem::take(&mut self.hands) {
            if let Some(home) = self.home(hand.print()) {
                hand.end(home, at);
            }
        }
    }

    fn forget(mut self: Box<Self>) {
        for hand in std::mem::take(&mut self.hands) {
            if let Some(home) = self.home(hand.print()) {
                hand.forget(home);
            }
        }
    }
}

/// Takes a limiter in hand, once the room of its figures is known.
struct TakingInHand<'h, 'a> {
    held: &'h mut HeldPlanned<'a>,
    asked: PlannedPart<'a>,
    now: Timestamp,
}

impl<'a> Visitor for TakingInHand<'_, 'a> {
    type Out = Box<dyn AnyHand + 'a>;

    fn visit<R: Room>(mut self, room: &R) -> Self::Out {
        if let Some(hand) = self.take_kept(room) {
            return hand;
        }
        if let Some(hand) = self.take_place(room) {
            return Box::new(hand);
        }
        self.beyond(room)
    }
}

impl<'a> TakingInHand<'_, 'a> {
    /// One that is there; `None` where it is not, or was dropped for want of memory.
    fn take_kept<R: Room>(&mut self, room: &R) -> Option<Box<dyn AnyHand + 'a>> {
        let (asked, now, table) = (self.asked, self.now, self.held.table);
        let Part { print, step, cost, .. } = asked.part;
        let shard = among(&mut self.held.shards, print)?;
        let (kept, recent) = shard.get_mut(print)?;
        let (figures, in_force) = (recent.figures(room), kept.is_under(room));
        let changes = in_force || leaves_a_trace(step, cost);
        let wanted = if changes { kept.wants(&figures, step, cost) } else { 0 };
        let is_used = !kept.is_as_good_as_new(now);
        // Out of the table while room is looked for, or it could be dropped for it.
        let own = kept.take();
        if table.after_a_look(now, || table.budget.claim_bytes(wanted)) {
            return Some(Box::new(Hand::taken(asked, figures, Standing::There, own, wanted)));
        }
        if in_force && is_used {
            return Some(Box::new(Hand::taken(asked, figures, Standing::Cramped, own, 0)));
        }
        kept.put_back(own, 0, &table.budget);
        if in_force {
            shard.forget(print, &table.budget);
            return None;
        }
        Some(Box::new(Bystander::refused(asked, room)))
    }

    /// The place for one that is not there; `None` where there is no room.
    fn take_place<R: Room>(&mut self, room: &R) -> Option<Hand<'a, R>> {
        let (asked, now, table) = (self.asked, self.now, self.held.table);
        let Part { print, step, cost, .. } = asked.part;
        let shard = among(&mut self.held.shards, print)?;
        let stays = step.begins(cost);
        if stays {
            shard.sweep(&table.budget, LOOKED_AT_PER_ADDED, now);
        }
        let figures = shard.recent.figures(room);
        let need = Own::<R>::need(figures.heap);
        let has_room = table.after_a_look(now, || match stays {
            true => table.budget.claim_with_memory(need),
            false => table.budget.has_memory_for(need),
        });
        let standing = if stays { Standing::Claimed } else { Standing::Absent };
        has_room.then(|| Hand::new(asked, figures, standing))
    }

    /// A key for which there is no room.
    #[cold]
    fn beyond<R: Room>(self, room: &R) -> Box<dyn AnyHand + 'a> {
        let Self { held, asked, now } = self;
        if let Some(never) = never(room, asked.asked(), now) {
            return Box::new(Bystander::never(asked, never));
        }
        held.overflow(asked).unwrap_or_else(|| Box::new(Bystander::refused(asked, room)))
    }
}

/// Takes the limiter in hand that keys without room share; `None` where there is no memory for it.
struct TakingOverflow<'h, 'a> {
    held: &'h mut HeldPlanned<'a>,
    asked: PlannedPart<'a>,
    usual: &'h Arc<Rule>,
}

impl<'a> Visitor for TakingOverflow<'_, 'a> {
    type Out = Option<Box<dyn AnyHand + 'a>>;

    fn visit<R: Room>(self, room: &R) -> Self::Out {
        let Self { held, asked, usual } = self;
        let table = held.table;
        let figures: Arc<Figures<R>> = Recent::default().figures(room);
        let mut kept = table.overflow.lock().unwrap_or_else(PoisonError::into_inner);
        let Part { step, cost, .. } = asked.part;
        let wanted = kept.wants(&figures, step, cost);
        if !table.budget.claim_bytes(wanted) {
            return None;
        }
        let own = kept.take();
        held.overflow = Some(kept);
        Some(Box::new(Hand::overflow(asked, usual, figures, own, wanted)))
    }
}
