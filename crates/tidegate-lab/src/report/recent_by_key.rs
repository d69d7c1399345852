//! Keys in the order of their last use, each with the units admitted for it recently: the table of
//! [`Watched`](super::watched::Watched), which decides what is added and removed.
//!
//! An entry keeps its index until it is removed; chains of indices lead to it by fingerprint. So
//! the bytes used are known exactly, and nothing grows unless [`RecentByKey::grow`] is called.

use super::fingerprint::Fingerprint;
use super::recent::RecentAdmissions;

/// No index: the end of a chain or a list.
pub(super) const NOWHERE: u32 = u32::MAX;
/// Free entries that an empty table is given.
const FIRST_ENTRIES: usize = 16;

#[derive(Clone, Debug)]
struct RecentEntry {
    key: Fingerprint,
    recent: RecentAdmissions,
    /// The next of the same chain, or the next free one.
    next: u32,
    /// The neighbours in the order of use.
    earlier: u32,
    later: u32,
}

const FREE: RecentEntry = RecentEntry {
    key: Fingerprint::NONE,
    recent: RecentAdmissions::NONE,
    next: NOWHERE,
    earlier: NOWHERE,
    later: NOWHERE,
};

#[derive(Clone, Debug)]
pub(super) struct RecentByKey {
    entries: Vec<RecentEntry>,
    /// The beginning of each chain; their number is a power of two.
    chains: Vec<u32>,
    free: u32,
    earliest: u32,
    latest: u32,
    used: usize,
}

impl RecentByKey {
    pub(super) fn new() -> Self {
        Self {
            entries: Vec::new(),
            chains: Vec::new(),
            free: NOWHERE,
            earliest: NOWHERE,
            latest: NOWHERE,
            used: 0,
        }
    }

    /// Bytes used, except by each [`RecentAdmissions`].
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<RecentEntry>()
            + self.chains.capacity() * size_of::<u32>()
    }

    /// Entries, including free ones.
    pub(super) fn capacity(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.used == self.entries.len()
    }

    pub(super) fn earliest(&self) -> u32 {
        self.earliest
    }

    pub(super) fn recent(&self, index: u32) -> Option<&RecentAdmissions> {
        self.entries.get(index as usize).map(|entry| &entry.recent)
    }

    pub(super) fn recent_mut(&mut self, index: u32) -> Option<&mut RecentAdmissions> {
        self.entries.get_mut(index as usize).map(|entry| &mut entry.recent)
    }

    pub(super) fn find(&self, key: Fingerprint) -> Option<u32> {
        let mut index = self.chains.get(self.chain(key)).copied()?;
        while let Some(entry) = self.entries.get(index as usize) {
            if entry.key == key {
                return Some(index);
            }
            index = entry.next;
        }
        None
    }

    /// Bytes that [`Self::grow`] needs at its peak.
    pub(super) fn growth(&self) -> usize {
        let chains =
            if self.chains_are_short() { 2 * self.chains.len().max(FIRST_ENTRIES) } else { 0 };
        // The old chains exist until the new chains are filled, and are counted by `bytes`.
        self.more() * size_of::<RecentEntry>() + chains * size_of::<u32>()
    }

    /// Adds an eighth more free entries.
    pub(super) fn grow(&mut self) {
        if self.chains_are_short() {
            self.lengthen();
        }
        let first = self.entries.len();
        let more = self.more();
        self.entries.reserve_exact(more);
        for index in first..first + more {
            self.entries.push(RecentEntry { next: self.free, ..FREE });
            self.free = index as u32;
        }
    }

    /// Turns a free entry into the entry of a new key, used last; `None` if no entry is free.
    pub(super) fn insert(&mut self, key: Fingerprint) -> Option<u32> {
        let index = self.free;
        let chain = self.chain(key);
        // Both are found before anything changes, so that a full table stays as it is.
        let entry = self.entries.get_mut(index as usize)?;
        let first = self.chains.get_mut(chain)?;
        self.free = entry.next;
        *entry = RecentEntry { key, next: *first, ..FREE };
        *first = index;
        self.used += 1;
        self.link(index);
        Some(index)
    }

    /// Frees the entry of a key.
    pub(super) fn remove(&mut self, index: u32) {
        let Some(entry) = self.entries.get(index as usize) else { return };
        let next = entry.next;
        let chain = self.chain(entry.key);
        // A chain goes one way only, so the entry before it is found from its beginning.
        let mut before = self.chains[chain];
        if before == index {
            self.chains[chain] = next;
        } else {
            while self.entries[before as usize].next != index {
                before = self.entries[before as usize].next;
            }
            self.entries[before as usize].next = next;
        }
        // Before the entry is overwritten, because it knows its neighbours.
        self.unlink(index);
        self.entries[index as usize] = RecentEntry { next: self.free, ..FREE };
        self.free = index;
        self.used -= 1;
    }

    /// Notes that an entry was used now.
    pub(super) fn touch(&mut self, index: u32) {
        if index != self.latest {
            self.unlink(index);
            self.link(index);
        }
    }

    fn chain(&self, key: Fingerprint) -> usize {
        // Without chains the mask has all bits, and the place is found nowhere.
        key.hash() & self.chains.len().wrapping_sub(1)
    }

    fn more(&self) -> usize {
        let more = (self.entries.len() / 8).max(FIRST_ENTRIES);
        // NOWHERE must never be an index.
        more.min(NOWHERE as usize - self.entries.len())
    }

    fn chains_are_short(&self) -> bool {
        self.chains.len() < self.entries.len() + self.more()
    }

    /// Doubles the number of chains.
    fn lengthen(&mut self) {
        let chains = 2 * self.chains.len().max(FIRST_ENTRIES);
        self.chains = vec![NOWHERE; chains];
        // The order of use holds every used entry, and no free one.
        let mut index = self.earliest;
        while let Some(entry) = self.entries.get_mut(index as usize) {
            let first = &mut self.chains[entry.key.hash() & (chains - 1)];
            entry.next = std::mem::replace(first, index);
            index = entry.later;
        }
    }

    fn link(&mut self, index: u32) {
        let before = std::mem::replace(&mut self.latest, index);
        match self.entries.get_mut(before as usize) {
            Some(entry) => entry.later = index,
            // There is no entry at `NOWHERE`: the list was empty.
            None => self.earliest = index,
        }
        if let Some(entry) = self.entries.get_mut(index as usize) {
            entry.earlier = before;
            entry.later = NOWHERE;
        }
    }

    fn unlink(&mut self, index: u32) {
        let Some(&RecentEntry { earlier, later, .. }) = self.entries.get(index as usize) else {
            return;
        };
        // At an end of the order there is no neighbour, and the table's own end moves.
        match self.entries.get_mut(earlier as usize) {
            Some(entry) => entry.later = later,
            None => self.earliest = later,
        }
        match self.entries.get_mut(later as usize) {
            Some(entry) => entry.earlier = earlier,
            None => self.latest = earlier,
        }
    }
}

#[cfg(test)]
mod tests;
