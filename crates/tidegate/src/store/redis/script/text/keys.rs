//! The frame of a step in which new limiters may have no room.

use super::super::id::Form;
use super::super::paragraphs::paragraph;
use super::Maker;

const KEYS: &str = include_str!("../keys.lua");

impl Maker {
    /// Wraps the step: checks first whether new limiters have room, and counts them afterwards;
    /// `None` if all have.
    pub(super) fn around(&self, step: &str) -> Option<String> {
        let (counts, no_memory) = (self.id.counts, self.id.no_memory);
        if !counts && !no_memory {
            return None;
        }
        let part = |name, is_there| if is_there { paragraph(KEYS, name) } else { "" };
        let is_batch = self.id.form == Form::Batch;
        let answers = usize::from(self.id.remembers && !is_batch);
        Some(format!(
            "{}local limiters = #KEYS - {answers}\n{}{}{}local function run()\n{step}end\n{}{}{}",
            part("lacks", true),
            part("no_memory", no_memory),
            part("begin", counts),
            part("no_room", true),
            part("run", !is_batch),
            part("run_batch", is_batch),
            if counts { paragraph(KEYS, "end") } else { "return reply\n" },
        ))
    }
}
