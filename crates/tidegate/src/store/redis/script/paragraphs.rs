//! The functions of scripts, each composed of one algorithm's paragraphs.

use tidegate_core::{AlgorithmKind, Layout, Micros, Rule, Spec};

/// Lua that moves time forward like the algorithms' own verb, with the clamp of a clock gone
/// backward.
const ADVANCE: [&str; 2] = [
    "local at = now\nif now < last then\n  if last - now <= W then\n    at = last\n  else\n",
    "    last, moved = now, true\n  end\nend\n",
];

/// The paragraph of this name; empty if there is none.
pub(super) fn paragraph<'a>(text: &'a str, name: &str) -> &'a str {
    let begins = text.split("-- @").find_map(|part| part.strip_prefix(name)?.strip_prefix('\n'));
    begins.unwrap_or("")
}

/// One algorithm's script.
#[derive(Clone, Copy)]
pub(super) struct Algorithm {
    pub(super) kind: u8,
    text: &'static str,
}

impl Algorithm {
    /// The algorithms whose bits are set in `kinds`, including that of a limit of 0 without a window.
    pub(super) fn all(kinds: u32) -> Vec<Self> {
        let window = Micros::from_secs(1);
        let specs = AlgorithmKind::ALL.iter().map(|algorithm| Spec::new(*algorithm, 1, window));
        let mut sorted_set = Spec::new(AlgorithmKind::SlidingLog, 1, window);
        sorted_set.layout = Some(Layout::SortedSet);
        let mut closed = Spec::new(AlgorithmKind::FixedWindow, 0, window);
        closed.window = None;
        let scripts = specs.chain([sorted_set, closed]).filter_map(|spec| {
            let script = Rule::new(spec).ok()?.script_input(0)?.script;
            Some(Self { kind: script.kind, text: script.text })
        });
        let mut algorithms: Vec<Self> =
            scripts.filter(|algorithm| kinds >> algorithm.kind & 1 == 1).collect();
        algorithms.sort_unstable_by_key(|algorithm| algorithm.kind);
        algorithms.dedup_by_key(|algorithm| algorithm.kind);
        algorithms
    }

    pub(super) fn part(self, name: &str) -> &'static str {
        paragraph(self.text, name)
    }

    pub(super) fn part_or(self, name: &str, otherwise: &'static str) -> &'static str {
        let part = self.part(name);
        if part.is_empty() { otherwise } else { part }
    }

    /// Whether it changes parts of a stored state in place.
    pub(super) fn in_parts(self) -> bool {
        !self.part("parts").is_empty()
    }

    pub(super) fn advance(self) -> String {
        format!("{}{}{}", ADVANCE[0], self.part("rewind"), ADVANCE[1])
    }

    /// Computes the state at the instant that counts from the stored state.
    pub(super) fn look(self) -> String {
        format!("{}{}{}", self.part("load"), self.advance(), self.part("view"))
    }

    /// The state in the reply: the stored one, unless the algorithm returns another.
    pub(super) fn returned(self) -> &'static str {
        self.part_or("reply", "state = value\n")
    }

    /// Reads the parameters of the rule that was in force, and settles the state under it: returns
    /// the instant, then the state if it has the same meaning under the new rule (false for
    /// none), else the units used.
    pub(super) fn settle_old(self) -> String {
        let same = self.part_or("same", "same = W == W2 and a == a2 and b == b2\n");
        let rest = if self.in_parts() { " .. sub(v, 34 + #value)" } else { "" };
        let refit = format!("{}v = head2 .. value{rest}\n", self.part("keep"));
        let refit = if self.part("refit").is_empty() { refit } else { self.part("refit").into() };
        format!(
            "[{}] = function(key, v, same_algorithm, head2, N, W, a, b, N2, W2, a2, b2, now, replaced)\n\
             local moved, full, nothing, same, used, value, gone = false, true\n\
             local arg, expires = '', -1\n{}{}{}if nothing then return at, false end\n\
             if same_algorithm then\n{same}end\nif not same then return at, nil, used end\n\
             {refit}return at, v\nend,\n",
            self.kind,
            self.part("old"),
            self.look(),
            self.part("used"),
        )
    }

    /// The state of a limiter that begins with units in use.
    pub(super) fn charge(self) -> String {
        format!(
            "[{}] = function(key, arg, now, used)\n\
             local v, moved, full, replaced, expires, value, gone = false, false, true, false, -1\n{}{}{}{}\
             if used > 0 then\n{}end\n{}{}return head .. stamp .. value\nend,\n",
            self.kind,
            self.part("rule"),
            "cost = used\n",
            self.part("charge"),
            self.look(),
            self.part("take"),
            self.part("keep"),
            self.part("carry"),
        )
    }

    /// Writes the stored state again if the clock went back by more than the window, and reports
    /// that. An idle state is idle at any reading.
    pub(super) fn rewound(self, keep: &str) -> String {
        format!(
            "[{}] = function(key, v, N, W, a, b)\n\
             local moved, full, replaced, amended, value, gone = false, true, false, false\n\
             local head, stamp, newer = sub(v, 1, 22), sub(v, 23, 33), false\n\
             local arg, expires = '', -1\n{}{}{}\
             if not moved then return false end\n{}\
             if gone <= at then return false end\n{keep}return true\nend,\n",
            self.kind,
            self.part("old"),
            self.part("load"),
            self.advance(),
            self.part("keep"),
        )
    }

    /// Whether the cost is admitted, from a state that is not yet stored: nothing is written.
    pub(super) fn admitted(self) -> String {
        format!(
            "[{}] = function(key, v, replaced, arg, now)\n\
             local moved, full, amended, verdict, expires = false, true, true, 0, -1\n\
             {}{}{}return verdict == 0\nend,\n",
            self.kind,
            self.part("rule"),
            self.look(),
            self.part("decide"),
        )
    }

    /// When a stored state is idle.
    pub(super) fn empty(self) -> String {
        format!(
            "[{}] = function(key, v, N, W, a, b, replaced)\n\
             local moved, full, value, gone = false, true\n\
             local arg, expires = '', -1\n{}{}{}return gone\nend,\n",
            self.kind,
            self.part("old"),
            self.look(),
            self.part_or("empty", self.part("keep")),
        )
    }

    /// When the last unit of a stored state was taken.
    pub(super) fn last(self) -> String {
        let (old, load) = (self.part("old"), self.part("load"));
        format!(
            "[{}] = function(key, v, N, W, a, b)\n\
             local full, replaced, arg, expires, now = true, false, '', -1, 0\n\
             {old}{load}return last\nend,\n",
            self.kind
        )
    }

    /// The most units that can be in use without a debt, by the parameters before a state.
    pub(super) fn most(self) -> String {
        let most = self.part_or("most", "N").lines().next().unwrap_or("N");
        format!("[{}] = function(N, a) return {most} end,\n", self.kind)
    }

    /// Gives units back to a stored state, under the rule that was in force.
    pub(super) fn give_back_to_old(self, keep: &str) -> String {
        format!(
            "[{}] = function(key, v, units, N, W, a, b)\n\
             local moved, full, replaced, amended, value, gone = false, true, false, false\n\
             local head, stamp, newer = sub(v, 1, 22), sub(v, 23, 33), false\n\
             local arg, used, cost_us, cost_part, expires = '', units, 0, 0, -1\n\
             {}{}cost = -units\n{}{}{}{keep}end,\n",
            self.kind,
            self.part("old"),
            self.look(),
            self.part("charge"),
            self.part("give_back"),
            self.part("keep"),
        )
    }
}
