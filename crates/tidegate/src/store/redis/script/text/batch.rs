//! The script of several requests in one call.

use std::fmt::Write;

use super::super::paragraphs::{Algorithm, paragraph};
use super::Maker;

const BATCH: &str = include_str!("../batch.lua");

/// How much of an algorithm's state is read, and so known between two requests.
enum Read {
    /// All of it.
    Whole,
    /// The part in front; the part behind stays in the store.
    Front,
    /// The first part, which changes in the store.
    Parts,
}

impl Read {
    fn of(algorithm: Algorithm) -> Self {
        match (algorithm.in_parts(), algorithm.part("behind").is_empty()) {
            (false, _) => Self::Whole,
            (true, false) => Self::Front,
            (true, true) => Self::Parts,
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Front => "front",
            Self::Parts => "parts",
        }
    }
}

impl Maker {
    /// Each algorithm is two functions: one decides, and one decides and takes. A state is read once, and written once.
    pub(super) fn batch(&self) -> String {
        let mut body = paragraph(BATCH, "held").to_owned();
        if !self.id.counts {
            body.push_str("local no_room = false\n");
        }
        body.push_str(paragraph(BATCH, if self.id.time_given { "write_given" } else { "write" }));
        body.push_str(paragraph(BATCH, "settle"));
        let (mut verdicts, mut steps) = (String::new(), String::new());
        for algorithm in &self.algorithms {
            let (kind, look) = (algorithm.kind, self.look(*algorithm));
            let finish = self.finish(*algorithm, "goes_on and verdict == 0");
            let _ =
                write!(verdicts, "[{kind}] = function(key, arg, k)\n{look}return verdict\nend,\n");
            let _ = write!(
                steps,
                "[{kind}] = function(key, arg, k, goes_on)\n{look}{finish}\
                 return verdict, at, state, takes\nend,\n"
            );
        }
        let _ = write!(body, "local verdicts = {{\n{verdicts}}}\nlocal steps = {{\n{steps}}}\n");
        body.push_str(paragraph(BATCH, "decide"));
        body.push_str(paragraph(BATCH, "batch"));
        self.whole(&body)
    }
}

/// Reads a state unless it was read before in the same way.
pub(super) fn fetch_once(algorithm: Algorithm, fetch: &str) -> String {
    let read = Read::of(algorithm).name();
    format!(
        "if reads[k] ~= '{read}' then\nsettle(k)\n{fetch}states[k], reads[k] = v, '{read}'\nend\n\
         local v = states[k]\n"
    )
}

/// Remembers a new state, and writes it later if that is possible; `keep` writes it now.
pub(super) fn hold(algorithm: Algorithm, keep: String) -> String {
    match Read::of(algorithm) {
        Read::Whole => paragraph(BATCH, "hold").to_owned(),
        Read::Parts => keep + paragraph(BATCH, "hold_parts"),
        Read::Front => format!(
            "{}elseif {} then\n{}{}",
            paragraph(BATCH, "hold_front"),
            algorithm.part("in_parts").trim(),
            algorithm.part("behind"),
            paragraph(BATCH, "hold_behind"),
        ),
    }
}
