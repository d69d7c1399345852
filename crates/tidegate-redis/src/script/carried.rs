//! The knowledge of a node of a limiter, in a call: that a state must be there, and the units that are carried.

use tidegate_core::{KnownUnits, Timestamp, UsedUnits};

use super::ScriptStep;
use super::limiter::ScriptLimiter;
use super::units::Purpose;
use crate::step::{BUCKET, QUEUE};

impl<'a> ScriptLimiter<'a> {
    /// Says that units count: if the store has no state, nothing is done, and the answer is
    /// [`CallResult::Lost`](super::CallResult::Lost).
    #[must_use]
    pub const fn known(mut self) -> Self {
        self.is_known = true;
        self
    }

    /// Carries units in use to a store that may have lost them: it decides from the state of these units or from its
    /// own, whichever admits less.
    #[must_use]
    pub const fn carrying(mut self, known: KnownUnits<'a>) -> Self {
        self.carried = Some(known);
        self
    }

    /// The server reported these units itself: it keeps its state, unless it lacks a state that it reported.
    #[must_use]
    pub const fn of_own(mut self) -> Self {
        self.is_own = true;
        self
    }

    /// The units that are carried to the key with this number, for the script.
    pub(super) fn carried_units(&self, key: u32) -> Vec<u8> {
        let mut all = Vec::new();
        let Some(KnownUnits { used, reported, last }) = self.carried else { return all };
        // Of a store that lost data no state is as new.
        let last = last.unwrap_or(Timestamp::MAX);
        for UsedUnits { since, units } in used {
            let Some(mut input) = self.rule.script_input(*units) else { continue };
            if matches!(input.script.kind, BUCKET | QUEUE) {
                // The level at the start is among the units.
                let start = input.args.len().saturating_sub(2);
                input.args.iter_mut().skip(start).for_each(|number| *number = 0);
            }
            let plain =
                ScriptLimiter { cost: *units, is_known: false, looks: false, ..self.clone() };
            let plain = ScriptLimiter { purpose: Purpose::Use, ..plain };
            let arg = plain.argument(ScriptStep::Ask, &input);
            all.extend(key.to_le_bytes());
            let own = Timestamp::from_micros(self.is_own.into());
            for number in [reported, own, last, *since] {
                all.extend((number.as_micros() as f64).to_le_bytes());
            }
            all.extend(u32::try_from(arg.len()).unwrap_or(u32::MAX).to_le_bytes());
            all.extend(arg);
        }
        all
    }
}
