//! The mutants of permits: of the algorithm, and of what its guide asks of holders and resources.

use super::Mutant;

const CONCURRENCY: &str = "crates/tidegate-core/src/algorithms/concurrency/mod.rs";
const LIST: &str = "crates/tidegate-core/src/algorithms/concurrency/permits.rs";
const HOLDER: &str = "crates/tidegate/src/layers/sim/run/node/holder.rs";
const WORLD: &str = "crates/tidegate/src/layers/sim/world.rs";

pub(super) const PERMITS: &[Mutant] = &[
    Mutant {
        name: "a permit is given as soon as one unit has ended",
        file: CONCURRENCY,
        replacements: &[("units if units <= state", "_ if 1 <= state")],
    },
    Mutant {
        name: "the permit of a crashed holder never comes back",
        file: CONCURRENCY,
        replacements: &[(
            "units if units <= state.permits.ended(at).1",
            "units if units == u64::MAX",
        )],
    },
    Mutant {
        name: "a token is the time alone",
        file: CONCURRENCY,
        replacements: &[("state.token_us.saturating_add(1).max(at.as_micros())", "at.as_micros()")],
    },
    Mutant {
        name: "tokens go back with the clock",
        file: CONCURRENCY,
        replacements: &[(
            "        state.last = to;\n",
            "        state.last = to;\n        state.token_us = to.as_micros();\n",
        )],
    },
    Mutant {
        name: "an idle limiter is forgotten before the clock has passed its last token",
        file: CONCURRENCY,
        replacements: &[(
            "is_zero() && !could_give_it_again",
            "is_zero() && (true || could_give_it_again)",
        )],
    },
    Mutant {
        name: "a permit that has ended is renewed",
        file: CONCURRENCY,
        replacements: &[("permit.filter(|(_, permit)| permit.ends > at) else", "permit else")],
    },
    Mutant {
        name: "a renewal is answered as in time, and the permit lasts no longer",
        file: CONCURRENCY,
        replacements: &[("permit.ends.max(self.end(at)), ..permit", "permit.ends, ..permit")],
    },
    Mutant {
        name: "a renewed permit keeps its old units as well",
        file: CONCURRENCY,
        replacements: &[("        state.permits.remove(index);\n", "")],
    },
    Mutant {
        name: "a second return gives back a permit of another holder",
        file: CONCURRENCY,
        replacements: &[(
            "let Some(index) = state.permits.find(token.as_micros()) else { return };",
            "let index = state.permits.find(token.as_micros()).unwrap_or(0);",
        )],
    },
    Mutant {
        name: "a permit that was renewed before others is not found",
        file: LIST,
        replacements: &[(
            "found.ok().or_else(|| self.by_end.iter().position(|permit| permit.token_us == token_us))",
            "found.ok()",
        )],
    },
    Mutant {
        name: "permits do not move with a clock that steps back",
        file: LIST,
        replacements: &[(
            "self.by_end.iter_mut().for_each(|permit| permit.ends = permit.ends.minus(step));",
            "let _ = step;",
        )],
    },
    Mutant {
        name: "a holder counts its life from the reply",
        file: HOLDER,
        replacements: &[(
            "let mut until = begun.plus(shortened(life));",
            "let mut until = self.uptime().plus(shortened(life));",
        )],
    },
    Mutant {
        name: "a holder measures its life by the wall clock",
        file: HOLDER,
        replacements: &[("locked(&self.clocks).boot(", "locked(&self.clocks).wall(")],
    },
    Mutant {
        name: "a holder that gets no reply to its renewals works on",
        file: HOLDER,
        replacements: &[("has_ended = now >= until;", "has_ended = now >= until && now >= done;")],
    },
    Mutant {
        name: "a holder whose renewal was too late works on",
        file: HOLDER,
        replacements: &[("Ok(reply) if reply.allowed => {", "Ok(_) => {")],
    },
    Mutant {
        name: "a resource looks at no token",
        file: WORLD,
        replacements: &[("is_taken = permit.taken.token >= *largest;", "is_taken = true;")],
    },
];
