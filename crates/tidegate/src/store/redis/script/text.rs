//! The text of scripts, composed from the paragraphs of the algorithms and of the prelude.

mod batch;
mod keys;

use std::fmt::Write;

use super::id::{Form, Id};
use super::paragraphs::{Algorithm, paragraph};
use super::step::Step;

const PRELUDE: &str = include_str!("prelude.lua");

/// Before a state is tried under other values it is advanced, and it is kept meanwhile. A denial
/// under values that came with the request returns when it would be admitted; if no wait would
/// do, the state comes under the new values.
const TRY: (&str, &str) = (
    "if v and flag % 8 > 1 and sub(v, 1, 22) ~= head then v = see_clock(key, v) end\n\
     local stored, since = v, false\n",
    "local begins, wait, reset = false\n\
     if flag % 8 > 3 and amended and verdict == 0 then wait, reset = 0, 0 end\n\
     if flag % 8 > 3 and amended and verdict == 1 then\n\
     wait, reset = wait_of(key, stored, arg, full, since)\nbegins = not wait\nend\n",
);

/// Values of a later revision than the state's come in force with units taken under them. Values
/// without a revision, such as plans, come in force this way only beside values with one.
const FOLLOW: &str = "if flag % 8 < 4 and stamp ~= NONE and sub(v, 23, 33) ~= NONE then\n\
     flag = flag - flag % 8 + 6 + flag % 2\nend\n";
const FOLLOWED: &str = "if flag % 8 > 5 then\n\
     since = dated(key, stored, arg)\n\
     v, replaced = better(key, v, replaced, since, arg, cost, now)\nend\n";

/// The text of a script.
pub(super) fn of(id: Id) -> String {
    match id.form {
        Form::One => Maker::new(id).one(),
        Form::Several | Form::Amending => Maker::new(id).several(),
        Form::GivingBack => Maker::new(id).giving_back(),
        Form::Batch => Maker::new(id).batch(),
    }
}

/// Composes one script.
struct Maker {
    id: Id,
    algorithms: Vec<Algorithm>,
}

impl Maker {
    fn new(id: Id) -> Self {
        Self { id, algorithms: Algorithm::all(id.kinds) }
    }

    /// A paragraph of the prelude, in its variant for a given time if the time is an argument.
    fn prelude(&self, name: &str) -> &'static str {
        let given = format!("{name}_given");
        paragraph(PRELUDE, if self.id.time_given { given.as_str() } else { name })
    }

    fn fetch(&self, algorithm: Algorithm) -> String {
        let fetch = match (self.id.form, algorithm.in_parts()) {
            (Form::Amending, _) => paragraph(PRELUDE, "fetch_any"),
            (_, true) => algorithm.part_or("fetch", paragraph(PRELUDE, "fetch_beginning")),
            (_, false) => paragraph(PRELUDE, "fetch"),
        };
        if self.id.form == Form::Batch {
            batch::fetch_once(algorithm, fetch)
        } else {
            fetch.to_owned()
        }
    }

    fn keep(&self, algorithm: Algorithm) -> String {
        let keep = self.keep_now(algorithm);
        if self.id.form == Form::Batch { batch::hold(algorithm, keep) } else { keep }
    }

    fn keep_now(&self, algorithm: Algorithm) -> String {
        if !algorithm.in_parts() {
            return self.prelude("keep_in_place").to_owned();
        }
        let keep = self.prelude("keep");
        let (when, behind, parts) =
            (algorithm.part("in_parts").trim(), algorithm.part("behind"), algorithm.part("parts"));
        let expire = self.prelude("expire");
        format!("if ({when}) and gone > at then\n{behind}{parts}{expire}else\n{keep}end\n")
    }

    /// Advances the state and looks at it; a state of another rule is amended, or reported.
    fn look(&self, algorithm: Algorithm) -> String {
        let dropped = if self.id.tries { "" } else { "if not v then call('DEL', key) end\n" };
        let changed = match self.id.form {
            Form::Amending => {
                let (follow, followed) = if self.id.tries { (FOLLOW, FOLLOWED) } else { ("", "") };
                format!(
                    "{follow}v, replaced = amend(key, v, arg, now)\n\
                     if v == nil then return nil, replaced end\n{followed}{dropped}\
                     moved, amended = true, true\n"
                )
            }
            Form::One => "return {sub(v, 1, 33), ''}\n".to_owned(),
            Form::Several | Form::GivingBack | Form::Batch => {
                "return nil, sub(v, 1, 33)\n".to_owned()
            }
        };
        let upgraded = "if v then v = upgrade(key, v, old) end\n";
        let upgraded = if self.id.form == Form::Amending { upgraded } else { "" };
        let full = self.id.step != Step::Decide;
        let (stored, tried) = if self.id.tries { TRY } else { ("", "") };
        format!(
            "local moved, full, replaced, amended, expires = false, {full}, false, false, -1\n\
             local newer = false\n{}{}{upgraded}{stored}\
             if v and sub(v, 1, 22) ~= head then\n{changed}\
             elseif v and sub(v, 23, 33) ~= stamp then\nstamp, newer = latest(stamp, v)\nend\n\
             {}local verdict = 0\n{}{tried}",
            algorithm.part("rule"),
            self.fetch(algorithm),
            algorithm.look(),
            self.decide(algorithm),
        )
    }

    fn decide(&self, algorithm: Algorithm) -> String {
        match self.id.step {
            Step::Settle | Step::Undo => String::new(),
            Step::Report => match self.looks() {
                "" => String::new(),
                looks => format!("if {looks} then\n{}end\n", algorithm.part("decide")),
            },
            Step::Decide | Step::Ask | Step::Peek => {
                format!("if cost > 0 then\n{}end\n", algorithm.part("decide"))
            }
        }
    }

    /// A Lua condition: whether this limiter is asked for a unit that it does not take; empty if
    /// none is.
    const fn looks(&self) -> &'static str {
        match (self.id.looks, self.id.form) {
            (false, _) => "",
            (true, Form::One) => "true",
            (true, _) => "flag > 55",
        }
    }

    /// Takes what was decided if `takes` holds, and keeps what changed.
    fn finish(&self, algorithm: Algorithm, takes: &str) -> String {
        let (take, back) = (algorithm.part("take"), algorithm.part("give_back"));
        let cost = match self.looks() {
            "" => "cost > 0".to_owned(),
            looks => format!("cost > 0 and not ({looks})"),
        };
        let change = match self.id.step {
            Step::Peek => "local takes = false\n".to_owned(),
            Step::Settle => format!(
                "local takes = cost > 0 or (cost < 0 and v)\n\
                 if cost > 0 then\n{take}elseif takes then\n{back}end\n"
            ),
            Step::Undo => format!(
                "if v then\n{}end\nlocal takes = cost < 0 and v\nif takes then\n{back}end\n",
                algorithm.part("undo")
            ),
            Step::Report => {
                let stand = algorithm.part("stand");
                format!("local takes, stands = {cost}\nif takes then\n{stand}{take}end\n")
            }
            Step::Decide | Step::Ask => {
                format!("local takes = {takes} and {cost}\nif takes then\n{take}end\n")
            }
        };
        let moved = match self.id.step {
            Step::Decide | Step::Ask | Step::Report => "(takes or moved)",
            Step::Peek | Step::Settle | Step::Undo => "(takes or (moved and v))",
        };
        let returns_all = self.id.step != Step::Decide && algorithm.part("reply").is_empty();
        let unchanged = if returns_all { "else\n  value = sub(v, 34)\n" } else { "" };
        let returned = match self.id.step {
            Step::Decide => "state = ''\n".to_owned(),
            Step::Report => format!("{}{}", algorithm.returned(), algorithm.part("reply_standing")),
            _ => algorithm.returned().to_owned(),
        };
        let (stays, writes, wait) = self.stays();
        format!(
            "{change}{stays}local value, gone, state\n\
             if takes or moved or not v then\n{}{unchanged}end\n\
             if {writes}{moved} then\n{}end\n{returned}{wait}",
            algorithm.part("keep"),
            self.keep(algorithm),
        )
    }

    /// Lua that keeps a state that was tried under other values, unless units were taken or it has
    /// to come under them.
    const fn stays(&self) -> (&'static str, &'static str, &'static str) {
        if !self.id.tries {
            return ("", "", "");
        }
        let stays = match self.id.step {
            Step::Peek => "local stays = amended and flag % 8 > 1\n",
            _ => {
                "local stays = amended and flag % 8 > 1 and not takes and not begins\n\
                 if amended and not v and not stays then call('DEL', key) end\n"
            }
        };
        (stays, "not stays and ", "if wait and stays then state = {state, wait, reset} end\n")
    }

    fn helpers(&self, text: &str) -> String {
        let needed = ["muldiv", "lowest", "rep", "digits", "latest", "under_others"]
            .into_iter()
            .filter(|name| text.contains(&format!("{name}(")));
        needed.map(|name| paragraph(PRELUDE, name)).collect()
    }

    fn whole(&self, body: &str) -> String {
        let (names, clock) = (paragraph(PRELUDE, "names"), self.prelude("clock"));
        let since = match (self.id.step, self.id.counts) {
            (Step::Undo, true) => paragraph(PRELUDE, "since_counted"),
            (Step::Undo, false) => self.prelude("since"),
            _ => "",
        };
        let around = self.around(body);
        let body = around.as_deref().unwrap_or(body);
        format!("{names}{}{clock}{since}{body}", self.helpers(body))
    }

    fn one(&self) -> String {
        let Some(algorithm) = self.algorithms.first() else { return String::new() };
        let returned = match self.id.step {
            Step::Decide => "if verdict == 0 then return at end\nreturn -1 - at\n",
            Step::Ask => {
                "if takes and at == now then return state end\nreturn {verdict, now, at, state}\n"
            }
            Step::Peek | Step::Report | Step::Settle | Step::Undo => {
                "return {verdict, now, at, state}\n"
            }
        };
        let (look, finish) = (self.look(*algorithm), self.finish(*algorithm, "verdict == 0"));
        self.whole(&format!("local key, arg = KEYS[1], ARGV[1]\n{look}{finish}{returned}"))
    }

    /// Advances all, decides all, then takes all: each algorithm is a function that decides, and
    /// returns how to end the step.
    fn several(&self) -> String {
        let mut body = self.first_answer();
        if self.id.form == Form::Amending {
            body.push_str(&self.amend());
        }
        let flag = if self.id.tries || self.id.looks { ", flag" } else { "" };
        body.push_str("local rooms = {\n");
        for algorithm in &self.algorithms {
            let (look, finish) =
                (self.look(*algorithm), self.finish(*algorithm, "goes_on and verdict == 0"));
            let _ = write!(
                body,
                "[{}] = function(key, arg{flag})\n{look}\
                 return verdict, function(goes_on)\n{finish}return at, state\nend\nend,\n",
                algorithm.kind
            );
        }
        body.push_str("}\n");
        body.push_str(paragraph(PRELUDE, "several"));
        if self.id.remembers && self.id.step != Step::Peek {
            body.push_str(paragraph(PRELUDE, "keep_answer"));
        }
        body.push_str("return out\n");
        self.whole(&body)
    }

    /// Lua that returns the number of limiters, and the remembered answer of a request under its
    /// id.
    fn first_answer(&self) -> String {
        if !self.id.remembers {
            return "local count = #KEYS\n".to_owned();
        }
        let remember = match self.id.step {
            Step::Peek => paragraph(PRELUDE, "remember_peek"),
            _ => self.prelude("remember"),
        };
        format!("{remember}{}", paragraph(PRELUDE, "first_answer"))
    }

    fn amend(&self) -> String {
        let old: String = self.algorithms.iter().map(|algorithm| algorithm.settle_old()).collect();
        let charge: String = self.algorithms.iter().map(|algorithm| algorithm.charge()).collect();
        let in_parts = self.algorithms.iter().filter(|algorithm| algorithm.in_parts());
        let in_parts: String =
            in_parts.map(|algorithm| format!("[{}] = true, ", algorithm.kind)).collect();
        let (upgrade, amend) = (paragraph(PRELUDE, "upgrade"), paragraph(PRELUDE, "amend"));
        let trying = self.trying();
        format!(
            "local in_parts = {{{in_parts}}}\nlocal old = {{\n{old}}}\nlocal charge = {{\n{charge}}}\n\
             {upgrade}{amend}{trying}"
        )
    }

    fn trying(&self) -> String {
        if !self.id.tries {
            return String::new();
        }
        let admitted: String =
            self.algorithms.iter().map(|algorithm| algorithm.admitted()).collect();
        let empty: String = self.algorithms.iter().map(|algorithm| algorithm.empty()).collect();
        let rewound =
            self.algorithms.iter().map(|algorithm| algorithm.rewound(&self.keep(*algorithm)));
        let rewound: String = rewound.collect();
        let last: String = self.algorithms.iter().map(|algorithm| algorithm.last()).collect();
        let most: String = self.algorithms.iter().map(|algorithm| algorithm.most()).collect();
        let (fetch, seeing, trying) = (
            paragraph(PRELUDE, "fetch_any"),
            paragraph(PRELUDE, "seeing_the_clock"),
            paragraph(PRELUDE, "trying"),
        );
        format!(
            "local admitted = {{\n{admitted}}}\nlocal empty = {{\n{empty}}}\n\
             local rewound = {{\n{rewound}}}\nlocal last_of = {{\n{last}}}\n\
             local most_of = {{\n{most}}}\n{seeing}{fetch}return v\nend\n{trying}"
        )
    }

    /// Lua that gives units back to each limiter under the rule that it was written under, once all
    /// are known.
    fn giving_back(&self) -> String {
        let back = self
            .algorithms
            .iter()
            .map(|algorithm| algorithm.give_back_to_old(&self.keep(*algorithm)));
        let back: String = back.collect();
        let each = paragraph(PRELUDE, "each_key").to_owned() + paragraph(PRELUDE, "fetch_any");
        let (known, to) = (paragraph(PRELUDE, "known"), paragraph(PRELUDE, "giving_back"));
        let upgrade = paragraph(PRELUDE, "upgrade");
        self.whole(&format!("local back = {{\n{back}}}\n{upgrade}{each}{known}{each}{to}"))
    }
}
