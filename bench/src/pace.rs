//! The timed loop, and whether the processor may work on several decisions at once.
//!
//! Left alone, a processor begins the next decisions while one still waits for memory or for a
//! locked operation. A loop of nothing but decisions then looks several times cheaper than one
//! decision in a program that has other things to do.

use crate::workload::Ask;
use std::hint::black_box;

/// The separation of two decisions of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each decision ends before the next begins: the time until its answer is there.
    Apart,
    /// They overlap as the processor likes: the highest rate of a core.
    Overlapping,
}

impl Pace {
    /// Asks `decide` for each of `asks`, in order; returns the number of allowed decisions.
    ///
    /// `#[inline(always)]`, so that the loop is compiled into each subject and a decision pays no
    /// call through a pointer.
    #[inline(always)]
    pub fn count(self, asks: &[Ask], mut decide: impl FnMut(&Ask) -> bool) -> u64 {
        let mut allowed = 0;
        match self {
            Self::Overlapping => {
                for ask in asks {
                    allowed += u64::from(black_box(decide(black_box(ask))));
                }
            }
            Self::Apart => {
                for ask in asks {
                    wait_for_all_before();
                    allowed += u64::from(black_box(decide(black_box(ask))));
                }
            }
        }
        allowed
    }
}

/// Begins nothing after it before all before it is done.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(unsafe_code)]
fn wait_for_all_before() {
    // SAFETY: `lfence` exists on every x86_64 and changes nothing but the order of work.
    unsafe { core::arch::x86_64::_mm_lfence() }
}

/// Begins nothing after it before all before it is done.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[allow(unsafe_code)]
fn wait_for_all_before() {
    // SAFETY: both barriers exist on every aarch64 and change nothing but the order of work.
    unsafe { core::arch::asm!("dsb sy", "isb", options(nostack, preserves_flags)) }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("say here how this processor keeps decisions apart: see `Pace::Apart`");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_pace_asks_everything_once_in_order() {
        let asks: Vec<Ask> = (0..10).map(Ask::of).collect();
        for pace in [Pace::Apart, Pace::Overlapping] {
            let mut seen = Vec::new();
            let allowed = pace.count(&asks, |ask| {
                seen.push(ask.number);
                ask.number % 2 == 0
            });
            assert_eq!((allowed, seen), (5, (0..10).collect()), "{pace:?}");
        }
    }
}
