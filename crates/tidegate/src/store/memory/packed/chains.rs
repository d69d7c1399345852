//! Chains of lines by fingerprint: a hash table that grows one chain at a time.
//!
//! Linear hashing (Litwin, 1980): with n chains and m the largest power of two not above n, a fingerprint belongs to
//! the chain of its low bits modulo 2m, or modulo m if that chain does not exist yet. Growing by one splits chain n -
//! m in two and touches no other, so the table never stops for a resize; lines never move, so a reader needs no
//! protection.

use std::mem::ManuallyDrop;
use std::sync::{Mutex, PoisonError};

use super::lines::{Line, Lines, Place};
use crate::key::Fingerprint;
use crate::store::memory::locked_words::Lock;
use crate::store::memory::sync::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Chains of an empty table; one for the model checker, so that keys share it.
const FIRST_CHAINS: u32 = if cfg!(loom) { 1 } else { 2 };

/// The chains of one table. Chain i starts with home line i and continues with spare lines.
#[derive(Debug)]
pub(super) struct Chains<const PLACES: usize, const WORDS: usize> {
    homes: Lines<Line<PLACES, WORDS>>,
    spares: Lines<Line<PLACES, WORDS>>,
    count: AtomicU32,
    /// Spare lines in use so far; number 0 means none, so numbers start with 1.
    spares_made: AtomicU32,
    freed: Mutex<Vec<u32>>,
    /// True while a thread splits a chain.
    splitting: AtomicU32,
}

/// A locked chain; unlocked when dropped.
#[derive(Debug)]
pub(in crate::store::memory) struct Chain<'a, const PLACES: usize, const WORDS: usize> {
    chains: &'a Chains<PLACES, WORDS>,
    home: &'a Line<PLACES, WORDS>,
    number: u32,
}

/// A limiter, and the words of its state.
type Limiter<const WORDS: usize> = (Fingerprint, [u64; WORDS]);

impl<const PLACES: usize, const WORDS: usize> Chains<PLACES, WORDS> {
    /// The target of keys per chain: a full line, so that a key of one word costs about 30 bytes, one of two words 44,
    /// and one of six 87. Under the model checker a table grows with its second key.
    const KEYS_PER_CHAIN: usize = if cfg!(loom) { 1 } else { PLACES };

    /// Creates chains for at most `most_keys` keys. They take no memory until one is locked.
    pub(super) fn for_keys(most_keys: usize) -> Self {
        let chains = (most_keys / Self::KEYS_PER_CHAIN + 1).max(FIRST_CHAINS as usize);
        let homes = Lines::with_space_for(chains);
        // The model checker does not see the order that a `OnceLock` gives to threads.
        if cfg!(loom) {
            (0..FIRST_CHAINS).for_each(|number| _ = homes.make(number));
        }
        Self {
            homes,
            // A chain keeps no line that it does not need, so its spare lines hold fewer than its keys, and
            // all spare lines fewer than the homes, however uneven the chains are.
            spares: Lines::with_space_for(chains + 1),
            count: AtomicU32::new(FIRST_CHAINS),
            spares_made: AtomicU32::new(1),
            freed: Mutex::default(),
            splitting: AtomicU32::new(0),
        }
    }

    /// The current number of the chain of a fingerprint.
    pub(super) fn number_of(&self, fingerprint: Fingerprint) -> u32 {
        number_of(fingerprint, self.count.load(Acquire))
    }

    /// The number of chains.
    pub(super) fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// The bytes of all lines.
    pub(super) fn bytes(&self) -> usize {
        let spares = self.spares_made.load(Relaxed);
        self.homes.bytes_up_to(self.count()) + self.spares.bytes_up_to(spares)
    }

    /// Returns whether more chains are needed for that many keys.
    pub(super) fn are_full(&self, keys: usize) -> bool {
        keys > self.count() as usize * Self::KEYS_PER_CHAIN
    }

    /// Locks the chain of a fingerprint, which always exists.
    #[inline(always)]
    pub(super) fn lock(&self, fingerprint: Fingerprint) -> Option<Chain<'_, PLACES, WORDS>> {
        let count = self.count.load(Acquire);
        let chain = self.lock_number(number_of(fingerprint, count))?;
        // While there are as many chains, none was split.
        if self.count.load(Acquire) == count {
            Some(chain)
        } else {
            self.lock_as_it_moves(chain, fingerprint)
        }
    }

    #[cold]
    fn lock_as_it_moves<'a>(
        &'a self,
        found: Chain<'a, PLACES, WORDS>,
        fingerprint: Fingerprint,
    ) -> Option<Chain<'a, PLACES, WORDS>> {
        drop(found);
        loop {
            let chain = self.lock_number(self.number_of(fingerprint))?;
            if self.is_of(&chain, fingerprint) {
                return Some(chain);
            }
        }
    }

    /// Returns whether a locked chain belongs to a fingerprint. The chain may have been split before it was locked; the
    /// lock makes the new count visible.
    fn is_of(&self, chain: &Chain<'_, PLACES, WORDS>, fingerprint: Fingerprint) -> bool {
        self.number_of(fingerprint) == chain.number
    }

    /// Locks a chain by number; `None` if there is none.
    #[inline(always)]
    pub(super) fn lock_number(&self, number: u32) -> Option<Chain<'_, PLACES, WORDS>> {
        let home = match self.homes.get(number) {
            Some(home) => home,
            None => self.first_home(number)?,
        };
        home.lock();
        Some(Chain { chains: self, home, number })
    }

    /// Returns the home line of one of the first chains, and makes it if necessary.
    #[cold]
    fn first_home(&self, number: u32) -> Option<&Line<PLACES, WORDS>> {
        if number < FIRST_CHAINS { self.homes.make(number) } else { None }
    }

    /// Prefetches a little of the home line of each fingerprint's chain.
    ///
    /// The loop is so short that the processor has many reads under way together. The logarithm of the count stays out
    /// of it: on x86 its instruction waits for what was in its result's register, which can be the last line read.
    pub(super) fn touch(&self, fingerprints: &[Fingerprint]) -> u64 {
        let count = self.count.load(Acquire);
        let home = |one: &Fingerprint| self.homes.get(number_of(*one, count));
        fingerprints.iter().filter_map(home).fold(0, |all, home| all ^ u64::from(home.next()))
    }

    /// Locks a chain by number if it was locked before and is unlocked now.
    pub(super) fn try_lock(&self, number: u32) -> Option<Chain<'_, PLACES, WORDS>> {
        let home = self.homes.get(number)?;
        // The `Chain` is created only with the lock, because dropping it unlocks.
        home.try_lock().then(|| Chain { chains: self, home, number })
    }

    /// Splits one chain, unless another thread is splitting or there is no room for more chains.
    pub(super) fn grow(&self) {
        // Not waited for: one chain more at a time is enough, and the next limiter tries again.
        if self.splitting.swap(1, Acquire) == 0 {
            self.split_next();
            self.splitting.store(0, Release);
        }
    }

    fn split_next(&self) {
        let count = self.count.load(Relaxed);
        if self.homes.make(count).is_none() {
            return;
        }
        // The lower number first, as in a step over several limiters, so that the two never wait for each other.
        let Some(old) = self.lock_number(count - largest_power(count)) else { return };
        let Some(new) = self.lock_number(count) else { return };
        // Both chains stay locked until the new count is stored,
        // so that no step looks for a limiter in the wrong chain.
        let (entries, mut spare) = old.empty();
        for (fingerprint, state) in entries {
            // There are enough lines: limiters in two chains take
            // at most one line more, and the new home is a line.
            let chain = if number_of(fingerprint, count + 1) == count { &new } else { &old };
            if let Some(place) = chain.vacant().or_else(|| chain.extend_with(spare.pop()?)) {
                place.put(fingerprint, state);
            }
        }
        self.give_back(spare);
        self.count.store(count + 1, Release);
    }

    fn spare(&self) -> Option<u32> {
        let freed = self.freed.lock().unwrap_or_else(PoisonError::into_inner).pop();
        freed.or_else(|| {
            let number = self.spares_made.load(Relaxed);
            // Made before the number is taken, because a taken line must be there.
            self.spares.make(number)?;
            let next = self.spares_made.compare_exchange(number, number + 1, Relaxed, Relaxed);
            // Another thread took it: look again.
            next.ok().or_else(|| self.spare())
        })
    }

    fn give_back(&self, spare: Vec<u32>) {
        if !spare.is_empty() {
            self.freed.lock().unwrap_or_else(PoisonError::into_inner).extend(spare);
        }
    }
}

impl<'a, const PLACES: usize, const WORDS: usize> Chain<'a, PLACES, WORDS> {
    /// The place of a fingerprint's limiter.
    #[inline(always)]
    pub(super) fn find(&self, fingerprint: Fingerprint) -> Option<Place<'a, PLACES, WORDS>> {
        let words = fingerprint.words();
        self.place(|place| place.holds(words))
    }

    /// Returns the lock without the lines it covers.
    #[inline]
    pub(super) fn into_lock(self) -> Lock<'a> {
        // A chain that is dropped unlocks.
        ManuallyDrop::new(self).home.held_lock()
    }

    /// Returns a free place, in the chain or in a spare line added to it; `None` if there are no more lines.
    pub(super) fn make_space(&self) -> Option<Place<'a, PLACES, WORDS>> {
        self.vacant().or_else(|| self.extend_with(self.chains.spare()?))
    }

    /// Empties a place, and gives back the line that the chain then does not need.
    pub(super) fn clear(&self, place: Place<'_, PLACES, WORDS>) {
        place.clear();
        if self.home.next() != 0 {
            self.close_up();
        }
    }

    /// Empties the places whose states are `needless`, and gives back the lines that the chain then does not need;
    /// returns the number of places.
    pub(super) fn sweep(&self, needless: impl Fn(Fingerprint, [u64; WORDS]) -> bool) -> usize {
        let mut swept = 0;
        self.place(|place| {
            if place.fingerprint().is_some_and(|fingerprint| needless(fingerprint, place.state())) {
                place.clear();
                swept += 1;
            }
            false
        });
        if swept > 0 && self.home.next() != 0 {
            self.close_up();
        }
        swept
    }

    /// Returns the first place for which `wanted` is true.
    #[inline(always)]
    fn place(
        &self,
        mut wanted: impl FnMut(Place<'a, PLACES, WORDS>) -> bool,
    ) -> Option<Place<'a, PLACES, WORDS>> {
        let mut line = self.home;
        loop {
            if let Some(found) = line.places().find(|place| wanted(*place)) {
                return Some(found);
            }
            line = self.after(line)?;
        }
    }

    fn after(&self, line: &Line<PLACES, WORDS>) -> Option<&'a Line<PLACES, WORDS>> {
        match line.next() {
            0 => None,
            number => self.chains.spares.get(number),
        }
    }

    fn vacant(&self) -> Option<Place<'a, PLACES, WORDS>> {
        self.place(|place| place.fingerprint().is_none())
    }

    /// Adds a spare line after the home line; returns its first place.
    fn extend_with(&self, number: u32) -> Option<Place<'a, PLACES, WORDS>> {
        let line = self.chains.spares.get(number)?;
        // Next to the home line, so that no walk to the end of the chain is needed.
        line.set_next(self.home.next());
        self.home.set_next(number);
        line.places().next()
    }

    /// Its limiters, with their words.
    pub(super) fn limiters(&self) -> Vec<Limiter<WORDS>> {
        let mut all = Vec::new();
        self.place(|place| {
            all.extend(place.fingerprint().map(|fingerprint| (fingerprint, place.state())));
            false
        });
        all
    }

    /// Removes all limiters and spare lines from the chain.
    fn empty(&self) -> (Vec<Limiter<WORDS>>, Vec<u32>) {
        let entries = self.limiters();
        self.place(|place| {
            place.clear();
            false
        });
        let mut spare = Vec::new();
        let mut line = self.home;
        while line.next() != 0 {
            spare.push(line.next());
            let Some(next) = self.after(line) else { break };
            line.set_next(0);
            line = next;
        }
        (entries, spare)
    }

    /// Moves the limiters to the front of the chain and gives the empty lines back.
    fn close_up(&self) {
        let (entries, mut spare) = self.empty();
        for (fingerprint, state) in entries {
            if let Some(place) = self.vacant().or_else(|| self.extend_with(spare.pop()?)) {
                place.put(fingerprint, state);
            }
        }
        self.chains.give_back(spare);
    }
}

impl<const PLACES: usize, const WORDS: usize> Drop for Chain<'_, PLACES, WORDS> {
    fn drop(&mut self) {
        drop(self.home.held_lock());
    }
}

/// The chain of a fingerprint among `count` chains.
fn number_of(fingerprint: Fingerprint, count: u32) -> u32 {
    let power = largest_power(count);
    let low = fingerprint.words()[0];
    let number = low & (2 * power - 1);
    if number < count { number } else { number & (power - 1) }
}

/// Returns the largest power of two that is not above `count`, which is at least 1.
const fn largest_power(count: u32) -> u32 {
    1 << count.ilog2()
}
