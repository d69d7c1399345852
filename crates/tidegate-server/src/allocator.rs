//! The allocator of the server.
//!
//! With a store, a request is allocated on a listener's thread and freed on the store's, and its reply the other way
//! round; with the system's allocator that takes a third of a listener's time.

/// Tests count allocations with an allocator of their own.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns free memory to the system, after much was allocated and freed: else the allocator keeps it as long as it has
/// little to do.
#[expect(unsafe_code, reason = "of 10,000 rules, a tenth of the server's memory")]
pub(crate) fn return_free_memory() {
    // SAFETY: it takes no pointer, and only touches memory that is free.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
