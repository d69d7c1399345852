//! When nobody waits for a client any longer.

use std::time::Duration;

use super::Limits;

/// A connection, as it is seen now and then.
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
#[derive(Debug)]
pub(super) struct Patience {
    limits: Limits,
    /// How often it is looked at.
    pub(super) look: Duration,
    last: Seen,
    /// Looks since a command was answered.
    idle: u32,
    /// Looks since what is waited for has changed.
    stalled: u32,
}

impl Patience {
    pub(super) fn of(limits: Limits) -> Self {
        let look = (limits.idle / 4).min(limits.stalled / 2);
        Self { limits, look, last: Seen::default(), idle: 0, stalled: 0 }
    }

    /// One look; whether the connection is to end. What began before the last look and is still as it was
    /// then is waited for.
    pub(super) fn ends(&mut self, seen: Seen) -> bool {
        let last = std::mem::replace(&mut self.last, seen);
        let no_command = seen.commands == last.commands;
        let stays_unread = last.has_unread && seen.has_unread && seen.written == last.written;
        let stays_amid = last.is_amid && seen.is_amid && no_command && !seen.has_unread;
        let stays_a_stranger = last.is_stranger && seen.is_stranger;
        let stays = stays_unread || stays_amid || stays_a_stranger;
        self.idle = if no_command { self.idle + 1 } else { 0 };
        self.stalled = if stays { self.stalled + 1 } else { 0 };
        let time = |looks: u32| self.look.saturating_mul(looks);
        time(self.idle) >= self.limits.idle || time(self.stalled) >= self.limits.stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The look at which the connection ends, if it does.
    fn ends(looks: impl IntoIterator<Item = Seen>) -> Option<usize> {
        let limits = Limits {
            stalled: Duration::from_secs(10),
            idle: Duration::from_secs(20),
            ..Limits::default()
        };
        let mut patience = Patience::of(limits);
        looks.into_iter().position(|seen| patience.ends(seen))
    }

    const fn busy(commands: u64) -> Seen {
        Seen { commands, written: commands, is_amid: false, has_unread: false, is_stranger: false }
    }

    #[test]
    fn a_command_that_does_not_come_to_its_end_is_not_waited_for() {
        let amid = |commands| Seen { is_amid: true, ..busy(commands) };
        assert_eq!(ends([amid(1); 9]), Some(2));
        assert_eq!(ends([amid(1), amid(1), amid(2), busy(2), amid(2), amid(3)]), None);
    }

    #[test]
    fn replies_that_are_not_read_are_not_kept() {
        let unread = |written| Seen { has_unread: true, written, is_amid: true, ..busy(1) };
        assert_eq!(ends([unread(1); 9]), Some(2));
        assert_eq!(ends([1, 1, 2, 2].map(unread)), None, "slow is not stalled");
    }

    #[test]
    fn a_stranger_and_one_who_idles_are_let_go() {
        let stranger = |commands| Seen { is_stranger: true, ..busy(commands) };
        assert_eq!(ends((1..9).map(stranger)), Some(2));
        assert_eq!(ends([busy(1); 9]), Some(4));
        assert_eq!(ends((1..9).map(busy)), None);
    }
}
