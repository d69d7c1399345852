//! What stands around a step where not every limiter may begin.

use super::super::id::Form;
use super::super::paragraphs::paragraph;
use super::Maker;

const KEYS: &str = include_str!("../keys.lua");

impl Maker {
    /// The step inside of what looks first whether its limiters may begin, and counts them afterwards; `None` where
    /// all may.
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
