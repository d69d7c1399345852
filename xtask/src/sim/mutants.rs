//! The mutants: one mistake each that leases, permits and the layers over a store must not make.

mod carry;
mod permits;
mod tower;

use anyhow::{Result, bail};

/// A mistake, as replacements in one file.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// From the root of the workspace.
    pub(crate) file: &'static str,
    /// The text that is there, once, and the mutant's text in its place.
    replacements: &'static [(&'static str, &'static str)],
}

impl Mutant {
    /// Returns the text with the mistake.
    ///
    /// # Errors
    ///
    /// A text to replace is not there exactly once.
    pub(crate) fn of(&self, text: &str) -> Result<String> {
        let mut text = text.to_owned();
        for (from, to) in self.replacements {
            let times = text.matches(from).count();
            if times != 1 {
                bail!(
                    "the mutant \"{}\": `{from}` is in {} {times} times, not once",
                    self.name,
                    self.file
                );
            }
            text = text.replace(from, to);
        }
        Ok(text)
    }
}

const LIMITER: &str = "crates/tidegate/src/lease/limiter.rs";
const UNITS: &str = "crates/tidegate/src/lease/units.rs";
const STORE: &str = "crates/tidegate/src/store/fake/limiters.rs";
const RUN: &str = "crates/tidegate/src/layers/sim/run/node.rs";
const SENT: &str = "crates/tidegate/src/layers/sim/sent.rs";
const SPEND: &str = "crates/tidegate/src/layers/leases/spend.rs";
const GIVE_BACK: &str = "crates/tidegate/src/layers/leases/give_back.rs";
const TERMS: &str = "crates/tidegate/src/lease/terms.rs";
const BOOK: &str = "crates/tidegate/src/lease/book.rs";
const ALGORITHM: &str = "crates/tidegate-core/src/decide.rs";
const BUCKET: &str = "crates/tidegate-core/src/algorithms/token_bucket/mod.rs";
const WINDOW: &str = "crates/tidegate-core/src/algorithms/fixed_window/mod.rs";
const SLIDING: &str = "crates/tidegate-core/src/algorithms/sliding_window/mod.rs";
const COUNTER: &str = "crates/tidegate-core/src/algorithms/sliding_counter/mod.rs";
const LOG: &str = "crates/tidegate-core/src/algorithms/sliding_log/mod.rs";
const CORE: &str = "crates/tidegate-core/src/lease.rs";

/// The tests of the simulator, each with the mutants that it has to find.
pub(crate) const MUTANTS: &[(&str, &[Mutant])] = &[
    ("no_seed_passes_a_bound_or_loses_a_unit_without_a_cause", LEASES),
    ("no_seed_passes_a_bound_or_loses_a_unit_without_a_cause", tower::TOWER),
    ("no_seed_passes_a_bound_or_loses_a_unit_without_a_cause", carry::CARRIED),
    ("no_seed_has_more_permits_out_than_the_limit_or_a_token_twice", permits::PERMITS),
    ("a_reservation_that_is_settled_leaves_the_level_that_a_later_lease_relies_on", EXACT),
    ("the_next_lease_is_asked_for_when_half_is_spent_and_spent_after_the_first", OLDEST),
    ("a_share_lives_until_its_window_bucket_or_tick_ends_and_a_quarter_of_draining", LIFE),
];

/// A mistake that no seed finds, because what comes back counts as taken earlier by the longest life of a lease.
const OLDEST: &[Mutant] = &[Mutant {
    name: "units of several leases come back as though the youngest had given them",
    file: BOOK,
    replacements: &[("part.since).min()", "part.since).max()")],
}];

/// A mistake that no seed finds, because levels of the plans drain too quickly or too slowly.
const LIFE: &[Mutant] = &[Mutant {
    name: "a share of what drains lives longer than any lease may",
    file: TERMS,
    replacements: &[("life.min(drained_in(rule)?).min(longest)", "life.min(drained_in(rule)?)")],
}];

/// Mistakes that no seed finds, because the level has to be nearly empty but for a reservation.
const EXACT: &[Mutant] = &[Mutant {
    name: "an undone or settled request gives back as though there were no leases",
    file: TERMS,
    replacements: &[("self.longest.unwrap_or(Micros::ZERO)\n", "Micros::ZERO\n")],
}];

/// The mutants of leases and shares.
const LEASES: &[Mutant] = &[
    Mutant {
        name: "a lease counts as taken at its start, not at its end",
        file: BUCKET,
        replacements: &[("state.raise(self.rate, end);", "let _ = (state, end);")],
    },
    Mutant {
        name: "a lease counts as taken long after its end",
        file: BUCKET,
        replacements: &[(
            "state.raise(self.rate, end);",
            "state.raise(self.rate, end.plus(Micros::from_micros(self.window.as_micros() / 4)));",
        )],
    },
    Mutant {
        name: "returned units of a level come back as though nothing had drained",
        file: BUCKET,
        replacements: &[(
            "let owed = self.undrained(state, at, units, Since::at(since));",
            "let owed = self.undrained(state, at, units, Since::at(since)).max(self.rate.grains(units));",
        )],
    },
    Mutant {
        name: "a lease is granted beyond what fits",
        file: CORE,
        replacements: &[("!= Verdict::Allow {", "== Verdict::Never {")],
    },
    Mutant {
        name: "units of a window are returned to the next window",
        file: WINDOW,
        replacements: &[(
            "since.at >= state.ends.minus(self.window) && state.past.admits(since)",
            "since.at <= at && state.past.admits(since)",
        )],
    },
    Mutant {
        name: "units of a weighted window are returned to the next window",
        file: COUNTER,
        replacements: &[(
            "Some(before @ 0..=1) => self.lower(state, before,",
            "Some(0..=1) => self.lower(state, 0,",
        )],
    },
    Mutant {
        name: "a lease outlives its bucket",
        file: SLIDING,
        replacements: &[(
            "let end = (self.bucket(at) + 1).saturating_mul(self.width_us);",
            "let end = u64::MAX;",
        )],
    },
    Mutant {
        name: "a lease outlives its tick",
        file: LOG,
        replacements: &[("self.end_of_tick(at).plus(Micros::from_micros(1))", "Timestamp::MAX")],
    },
    Mutant {
        name: "the life begins when the reply arrives",
        file: LIMITER,
        replacements: &[("let ends = asked.at.plus(length);", "let ends = now.plus(length);")],
    },
    Mutant {
        name: "the node uses the life of the rule, not the life in the reply",
        file: LIMITER,
        replacements: &[(
            "let length = shortened(grant.end.since(grant.since));",
            "let length = shortened(self.terms.life());",
        )],
    },
    Mutant {
        name: "clocks that drift are forgotten",
        file: TERMS,
        replacements: &[(
            "us.saturating_sub(us.div_ceil(DRIFT_PART))",
            "us.saturating_sub(us / u64::MAX / DRIFT_PART)",
        )],
    },
    Mutant {
        name: "the life is measured by the wall clock",
        file: RUN,
        replacements: &[(
            "let boot = clock(MachineClocks::boot);",
            "let boot = clock(MachineClocks::wall);",
        )],
    },
    Mutant {
        name: "the life is measured by a clock that stops while the machine sleeps",
        file: RUN,
        replacements: &[(
            "let boot = clock(MachineClocks::boot);",
            "let boot = clock(MachineClocks::awake);",
        )],
    },
    Mutant {
        name: "units are spent after the end",
        file: UNITS,
        replacements: &[(
            "!self.is_closed && now < self.ends",
            "!self.is_closed && now >= Micros::ZERO",
        )],
    },
    Mutant {
        name: "a reply is taken twice",
        file: LIMITER,
        replacements: &[("        self.asked = None;\n        Some(asked)", "        Some(asked)")],
    },
    Mutant {
        name: "a unit is spent twice",
        file: LIMITER,
        replacements: &[(
            "lease.units -= units;\n                owed",
            "lease.units -= units / 2;\n                owed",
        )],
    },
    Mutant {
        name: "returned units can still be spent",
        file: LIMITER,
        replacements: &[(
            "self.leases[place].is_at_rest().then(|| self.leases.remove(place).rest())",
            "self.leases[place].is_closed = false;\n        self.leases[place].is_at_rest().then(|| self.leases[place].rest())",
        )],
    },
    Mutant {
        name: "units of a refused request are not released",
        file: SPEND,
        replacements: &[(
            "self.layer.release(self.asks, &std::mem::take(&mut self.held));",
            "self.held.clear();",
        )],
    },
    Mutant {
        name: "a refusal eats the units that it held of a lease that is due",
        file: LIMITER,
        replacements: &[(
            "self.leases[place].is_at_rest().then(|| self.leases.remove(place).rest())",
            "Some(self.leases.remove(place).rest())",
        )],
    },
    Mutant {
        name: "the rest of a share overtakes a part that is on its way back",
        file: UNITS,
        replacements: &[("self.held == 0 && !self.gives_back", "self.held == 0")],
    },
    Mutant {
        name: "units released after a lease is due can be spent",
        file: UNITS,
        replacements: &[("!self.is_closed && now < self.ends", "now < self.ends")],
    },
    Mutant {
        name: "units are given back to a server that never granted them",
        file: STORE,
        replacements: &[(
            "        let lease = self.leases.get_mut(&(key_of(&rest.key), node, rest.ticket));",
            "        let absent = Recorded { units: rest.kept + rest.units, at: now };\n        let lease = (key_of(&rest.key), node, rest.ticket);\n        let lease = Some(self.leases.entry(lease).or_insert(absent));",
        )],
    },
    Mutant {
        name: "the record forgets a lease that is still given back",
        file: LIMITER,
        replacements: &[("self.open.first().map_or(ticket, |first| first.ticket)", "ticket")],
    },
    Mutant {
        name: "a lease is kept when its rule changes",
        file: LIMITER,
        replacements: &[
            ("before.leases.iter_mut().for_each(|lease| lease.is_closed = true);", ""),
            (
                "tickets.into_iter().filter_map(|ticket| self.close(ticket)).collect()",
                "drop(tickets);\n        Vec::new()",
            ),
        ],
    },
    Mutant {
        name: "a node prolongs its share without the store",
        file: LIMITER,
        replacements: &[(
            "        self.leases[place].is_closed = true;\n",
            "        if self.terms.size != Size::Needed {
            self.leases[place].ends = self.leases[place].ends.plus(self.terms.life());
            return None;
        }
        self.leases[place].is_closed = true;\n",
        )],
    },
    Mutant {
        name: "a renewed share keeps its old units as well",
        file: LIMITER,
        replacements: &[(
            "        let AskedLease { ticket, units, parts, .. } = asked;",
            "        let AskedLease { ticket, units, parts, .. } = asked;
        let units = units + self.leases.iter().map(|lease| lease.units).sum::<u64>();",
        )],
    },
    Mutant {
        name: "a part is given to a node that joins and can still be spent here",
        file: LIMITER,
        replacements: &[("        lease.units = kept;\n", "")],
    },
    Mutant {
        name: "a node that others joined gives back more than it keeps less",
        file: LIMITER,
        replacements: &[(
            "let excess = GrantedLease { units, ..*lease }.rest();",
            "let excess = GrantedLease { units: units + 1, ..*lease }.rest();",
        )],
    },
    Mutant {
        name: "a node without the store admits on top of what it holds",
        file: LIMITER,
        replacements: &[("let last = held.map(", "let last = held.filter(|_| false).map(")],
    },
    Mutant {
        name: "a node takes all that is left as its part",
        file: LIMITER,
        replacements: &[(
            "self.report.remaining / self.parts(nodes).max(1)",
            "self.report.remaining",
        )],
    },
    Mutant {
        name: "the unspent units of a share are not given back",
        file: GIVE_BACK,
        replacements: &[("if rest.units > 0 {", "if rest.units > u64::MAX / 2 {")],
    },
    Mutant {
        name: "an undo goes to the server that is primary by now",
        file: SENT,
        replacements: &[
            (
                "        if self.server < link.world().server() {",
                "        if self.server > link.world().server() {",
            ),
            (
                "link.carry(first, self.server, act).await {\n            Carried::Came(undone)",
                "link.carry(first, link.world().server(), act).await {\n            Carried::Came(undone)",
            ),
        ],
    },
    Mutant {
        name: "a lease of another node's rule is held",
        file: STORE,
        replacements: &[(
            "        if self.other_values(policy, ask).is_some() {",
            "        if self.other_values(policy, ask).is_some() && false {",
        )],
    },
    Mutant {
        name: "units that were taken before a step back of the clock come back",
        file: ALGORITHM,
        replacements: &[("past.lose(last, until);", "let _ = (past, until);")],
    },
    Mutant {
        name: "a lease comes back though only a state that is lost knew it and the clock stepped back",
        file: CORE,
        replacements: &[(
            "if since.since(at) > self.algorithm().window() {",
            "if since == Timestamp::MAX {",
        )],
    },
];
