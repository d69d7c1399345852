//! Counts the growth of the heap while a limiter is built and filled, which gives the memory of a key.
//!
//! Each block is counted as what glibc's malloc spends on it (8 bytes of header, rounded up to
//! 16, at least 32), because that is what a process pays, not the length that was asked for.
//! Counting is off except inside [`grown_by`], so no timed loop pays for it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

#[global_allocator]
static HEAP: Counting = Counting;

static COUNTING: AtomicBool = AtomicBool::new(false);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

/// The system allocator, watched while `COUNTING` is on.
struct Counting;

/// Runs `work`; returns its value and by how many bytes the heap is larger after it.
///
/// Counts all threads of the process; not to be nested.
pub fn grown_by<T>(work: impl FnOnce() -> T) -> (T, i64) {
    LIVE_BYTES.store(0, Relaxed);
    COUNTING.store(true, Relaxed);
    let value = work();
    COUNTING.store(false, Relaxed);
    (value, LIVE_BYTES.load(Relaxed))
}

/// Runs `work`; returns how often it asked for a block of memory, or for a block to become larger or smaller.
///
/// Counts all threads of the process; not to be nested.
pub fn allocations_of(work: impl FnOnce()) -> u64 {
    ALLOCATIONS.store(0, Relaxed);
    grown_by(work);
    ALLOCATIONS.load(Relaxed)
}

/// By how many bytes the heap has grown so far; to be asked by what [`grown_by`] runs.
pub fn growth() -> i64 {
    LIVE_BYTES.load(Relaxed)
}

/// The bytes that malloc spends on a block of `size` bytes.
fn spent(size: usize) -> i64 {
    let chunk = (size + 8).next_multiple_of(16).max(32);
    i64::try_from(chunk).unwrap_or(i64::MAX)
}

fn count(bytes: i64) {
    if COUNTING.load(Relaxed) {
        LIVE_BYTES.fetch_add(bytes, Relaxed);
    }
}

/// Counts a request for memory.
fn count_asked(bytes: i64) {
    if COUNTING.load(Relaxed) {
        ALLOCATIONS.fetch_add(1, Relaxed);
    }
    count(bytes);
}

// SAFETY: every call is handed to the system allocator unchanged; counting touches two atomics
// and never allocates.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_asked(spent(layout.size()));
        // SAFETY: the caller's contract is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_asked(spent(layout.size()));
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-spent(layout.size()));
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_asked(spent(size) - spent(layout.size()));
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_costs_what_malloc_spends_on_it() {
        let table = [(1, 32), (12, 32), (24, 32), (25, 48), (40, 48), (41, 64), (1000, 1008)];
        for (size, expected) in table {
            assert_eq!(spent(size), expected, "size {size}");
        }
    }
}
