//! When nobody waits for a client any longer.

use super::Limits;

/// A connection, as it is seen every [`Limits::stalled`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Commands answered so far.
    pub(super) commands: u64,
    /// Bytes written so far.
    pub(super) written: u64,
    /// A command has begun.
    pub(super) is_amid: bool,
    /// Replies are not read.
    pub(super) has_unread: bool,
    /// It has yet to say who it is.
    pub(super) is_stranger: bool,
}

/// What was seen of one connection.
#[derive(Debug, Default)]
pub(super) struct Patience {
    last: Seen,
    /// Looks since a command was answered.
    idle: u32,
}

impl Patience {
    /// One look; whether the connection is to end. What began before the last look and is still as it was
    /// then has stalled.
    pub(super) fn ends(&mut self, seen: Seen, limits: Limits) -> bool {
        let last = std::mem::replace(&mut self.last, seen);
        let no_command = seen.commands == last.commands;
        self.idle = if no_command { self.idle + 1 } else { 0 };
        let stays_unread = last.has_unread && seen.has_unread && seen.written == last.written;
        let stays_amid = last.is_amid && seen.is_amid && no_command && !seen.has_unread;
        let stays_a_stranger = last.is_stranger && seen.is_stranger;
        let idles = limits.stalled.saturating_mul(self.idle) > limits.idle;
        stays_unread || stays_amid || stays_a_stranger || idles
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Whether the connection ends at each look.
    fn ends<const N: usize>(looks: [Seen; N]) -> [bool; N] {
        let limits = Limits {
            stalled: Duration::from_secs(10),
            idle: Duration::from_secs(20),
            ..Limits::default()
        };
        let mut patience = Patience::default();
        looks.map(|seen| patience.ends(seen, limits))
    }

    const fn busy(commands: u64) -> Seen {
        Seen { commands, written: commands, is_amid: false, has_unread: false, is_stranger: false }
    }

    #[test]
    fn a_command_that_does_not_come_to_its_end_is_not_waited_for() {
        let amid = |commands| Seen { is_amid: true, ..busy(commands) };
        assert_eq!(ends([amid(1), amid(1)]), [false, true]);
        assert_eq!(ends([amid(1), amid(2), busy(2), amid(2), amid(3)]), [false; 5]);
    }

    #[test]
    fn replies_that_are_not_read_are_not_kept() {
        let unread = |written| Seen { has_unread: true, written, is_amid: true, ..busy(1) };
        assert_eq!(ends([unread(1), unread(1)]), [false, true]);
        assert_eq!(ends([unread(1), unread(2), unread(3)]), [false; 3], "slow is not stalled");
    }

    #[test]
    fn a_stranger_and_one_who_idles_are_let_go() {
        let stranger = |commands| Seen { is_stranger: true, ..busy(commands) };
        assert_eq!(ends([stranger(1), stranger(2)]), [false, true]);
        assert_eq!(ends([busy(1), busy(1), busy(1), busy(1)]), [false, false, false, true]);
        assert_eq!(ends([busy(1), busy(2), busy(3), busy(4)]), [false; 4]);
    }
}
