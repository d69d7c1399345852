//! The counts of a store and of the layers over it: requests by their fate, and units that were lost, by their
//! cause.
//!
//! A gate adds what the layers count to what the store counts, and metrics read the sum.

use crate::counters::Durations;

/// Counts of requests to a shared store by their fate, since the gate was made (`tidegate::SharedGate::counts`).
/// [`nodes`](StoreCounts::nodes) and [`under_way`](StoreCounts::under_way) are as they are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreCounts {
    /// The nodes that share the store: the configured number ([`StoreSettings::nodes`]), or else as many as were last
    /// seen there, and 1 before any was.
    ///
    /// [`StoreSettings::nodes`]: tidegate_rules::settings::StoreSettings
    pub nodes: u64,
    /// Calls that were sent and not yet answered.
    pub under_way: u64,
    /// Requests that went to the store in one call with others.
    pub merged: u64,
    /// Requests that were refused without asking the store, because it had just denied them.
    pub denied_again: u64,
    /// Units that were leased: taken ahead from the store, to be spent by this process.
    pub leased: u64,
    /// Leased units that admitted requests.
    pub leased_spent: u64,
    /// Leased units that the store got back unspent.
    pub leased_returned: u64,
    /// Leased units that were neither spent nor given back: the store lost the record of their lease, their limiter was
    /// reset or its rule counts in another way by now, they were given back after their window had ended, or the store did
    /// not reply for as long as they counted.
    pub leased_expired: u64,
    /// Of these, units whose window, bucket or tick had ended when they were given back.
    pub leased_too_late: u64,
    /// Of these, units whose rule counted in another way by then.
    pub leased_changed: u64,
    /// Of these, units of leases that the store had no record of: it lost data, or the limiter was reset.
    pub leased_unrecorded: u64,
    /// Of these, units that the store did not say it has back: it may have.
    pub leased_unanswered: u64,
    /// Leases that were granted in time.
    pub leases_granted: u64,
    /// Leases that the store refused: too few units were left, it had no space, or the limiter has other values.
    pub leases_refused: u64,
    /// Leases that were granted too late to be spent, or after their limiter was reset or its rule changed.
    pub leases_late: u64,
    /// Questions for a lease that got no reply.
    pub leases_unanswered: u64,
    /// Shares that were asked for as one ended, without a request; they are among the leases above.
    pub shares_renewed: u64,
    /// Requests that were decided without the store because it was unavailable.
    pub unavailable: u64,
    /// Requests that were decided in process because there was more load than the store decides in time.
    pub local: u64,
    /// Requests that were refused because there was more load than the store decides in time.
    pub shed: u64,
    /// Requests whose answer came too late.
    pub late: u64,
    /// Late requests whose units were given back.
    pub undone: u64,
    /// Units that a limiter got back because a reply was late, or because another slot refused the request. Units
    /// are counted for each limiter that they were taken from, here and in the next fields.
    pub undone_units: u64,
    /// Units of such requests that could not be given back, and that no caller got: the connection of the reply was
    /// gone, its server did not take them back, the rule had changed, or a queue had assigned later slots.
    pub not_undone_units: u64,
    /// Units of late replies to requests that had been admitted without the store by then.
    pub late_units_admitted: u64,
    /// Units of requests that were sent and never got a reply, because their connection broke or was silent for long:
    /// the store may have taken them.
    pub unanswered_units: u64,
    /// Limiters whose units in use were carried to the store, because it had lost them.
    pub carried: u64,
    /// Calls that failed: the connection broke, or the store answered with an error.
    pub failed: u64,
    /// The time from sending calls to their answers.
    pub calls: Durations,
}

impl StoreCounts {
    /// Returns how many requests were decided without the store.
    #[must_use]
    pub const fn degraded(&self) -> u64 {
        self.unavailable + self.local + self.shed
    }

    /// Returns the units that the store counts but that no caller knows of, with the names of their causes:
    ///
    /// - `late_reply`: a late reply took them, and they could not be given back;
    /// - `unanswered`: no reply came, so this is the maximum that may be lost;
    /// - `too_late`: their window, bucket or tick had ended when they were given back;
    /// - `changed`: their rule counted in another way by then;
    /// - `no_record`: the store did not count them any more when they were given back.
    #[must_use]
    pub const fn lost(&self) -> [(&'static str, u64); 5] {
        [
            ("late_reply", self.not_undone_units),
            ("unanswered", self.unanswered_units.saturating_add(self.leased_unanswered)),
            ("too_late", self.leased_too_late),
            ("changed", self.leased_changed),
            ("no_record", self.leased_unrecorded),
        ]
    }
}
