//! Scripts, put together from the paragraphs of the rooms and of the prelude.

use std::fmt::Write;

use tidegate_core::{Algorithm, Layout, Micros, Rule, Spec};

use super::call::Step;
use super::known::{Form, Id};

const PRELUDE: &str = include_str!("prelude.lua");

/// Time passes: as the rooms' own verb does it, with the clamp of a clock gone backward.
const ADVANCE: [&str; 2] = [
    "local at = now\nif now < last then\n  if last - now <= W then\n    at = last\n  else\n",
    "    last, moved = now, true\n  end\nend\n",
];

/// The text of a script.
pub(super) fn of(id: Id) -> String {
    match id.form {
        Form::One => Maker::new(id).one(),
        Form::Several | Form::Amending => Maker::new(id).several(),
    }
}

/// The paragraph of that name; empty where there is none.
fn paragraph<'a>(text: &'a str, name: &str) -> &'a str {
    let begins = text.split("-- @").find_map(|part| part.strip_prefix(name)?.strip_prefix('\n'));
    begins.unwrap_or("")
}

/// One room's script.
#[derive(Clone, Copy)]
struct Room {
    kind: u8,
    text: &'static str,
}

impl Room {
    /// Those whose bits are set in `kinds`, that of a limit of 0 without a window included.
    fn all(kinds: u32) -> Vec<Self> {
        let window = Micros::from_secs(1);
        let specs = Algorithm::ALL.iter().map(|algorithm| Spec::new(*algorithm, 1, window));
        let mut sorted_set = Spec::new(Algorithm::SlidingLog, 1, window);
        sorted_set.layout = Some(Layout::SortedSet);
        let mut closed = Spec::new(Algorithm::FixedWindow, 0, window);
        closed.window = None;
        let scripts = specs.chain([sorted_set, closed]).filter_map(|spec| {
            let script = Rule::new(spec).ok()?.question(0)?.script;
            Some(Self { kind: script.kind, text: script.text })
        });
        let mut rooms: Vec<Self> = scripts.filter(|room| kinds >> room.kind & 1 == 1).collect();
        rooms.sort_unstable_by_key(|room| room.kind);
        rooms.dedup_by_key(|room| room.kind);
        rooms
    }

    fn part(self, name: &str) -> &'static str {
        paragraph(self.text, name)
    }

    fn part_or(self, name: &str, otherwise: &'static str) -> &'static str {
        let part = self.part(name);
        if part.is_empty() { otherwise } else { part }
    }

    /// Whether it changes parts of what is stored in place.
    fn in_parts(self) -> bool {
        !self.part("parts").is_empty()
    }

    fn advance(self) -> String {
        format!("{}{}{}", ADVANCE[0], self.part("rewind"), ADVANCE[1])
    }

    /// From what is stored to what stands at the instant that counts.
    fn look(self) -> String {
        format!("{}{}{}", self.part("load"), self.advance(), self.part("view"))
    }

    /// What is told of the state: what is stored, unless the room says otherwise.
    fn tell(self) -> &'static str {
        self.part_or("tell", "told = value\n")
    }

    /// Reads the figures of the rule that was in force, and settles the state under it: answers the
    /// instant, then the state where it means the same under the new rule (false for nothing), else
    /// what is used.
    fn settle_old(self) -> String {
        let same = self.part_or("same", "same = W == W2 and a == a2 and b == b2\n");
        let rest = if self.in_parts() { " .. sub(v, 67)" } else { "" };
        let refit = format!("{}v = head2 .. value{rest}\n", self.part("keep"));
        let refit = if self.part("refit").is_empty() { refit } else { self.part("refit").into() };
        format!(
            "[{}] = function(key, v, same_room, head2, N, W, a, b, N2, W2, a2, b2)\n\
             local moved, full, replaced, nothing, same, used, value, gone = false, true\n\
             local arg, now, expires = '', now, -1\n{}{}{}if nothing then return at, false end\n\
             if same_room then\n{same}end\nif not same then return at, nil, used end\n\
             {refit}return at, v\nend,\n",
            self.kind,
            self.part("old"),
            self.look(),
            self.part("used"),
        )
    }

    /// The state of a limiter that begins with units in use.
    fn charge(self) -> String {
        format!(
            "[{}] = function(key, arg, now, used)\n\
             local v, moved, full, replaced, expires, value, gone = false, false, true, false, -1\n{}{}{}{}\
             if used > 0 then\n{}end\n{}{}return head .. value\nend,\n",
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
}

/// Puts one script together.
struct Maker {
    id: Id,
    rooms: Vec<Room>,
}

impl Maker {
    fn new(id: Id) -> Self {
        Self { id, rooms: Room::all(id.kinds) }
    }

    /// A paragraph of the prelude, as it is where the time is an argument if that is so.
    fn prelude(&self, name: &str) -> &'static str {
        let given = format!("{name}_given");
        paragraph(PRELUDE, if self.id.time_given { given.as_str() } else { name })
    }

    fn fetch(&self, room: Room) -> &'static str {
        match (self.id.form, room.in_parts()) {
            (Form::Amending, _) => paragraph(PRELUDE, "fetch_any"),
            (_, true) => room.part_or("fetch", paragraph(PRELUDE, "fetch_beginning")),
            (_, false) => paragraph(PRELUDE, "fetch"),
        }
    }

    fn keep(&self, room: Room) -> String {
        if !room.in_parts() {
            return self.prelude("keep_in_place").to_owned();
        }
        let keep = self.prelude("keep");
        let (when, parts) = (room.part("in_parts").trim(), room.part("parts"));
        let expire = self.prelude("expire");
        format!("if ({when}) and gone > at then\n{parts}{expire}else\n{keep}end\n")
    }

    /// The state is advanced and looked at; a state of another rule is amended, or told about.
    fn look(&self, room: Room) -> String {
        let changed = match self.id.form {
            Form::Amending => {
                "v, replaced = amend(key, v, arg)\n\
                 if v == nil then return nil, replaced end\n\
                 if not v then call('DEL', key) end\nmoved, amended = true, true\n"
            }
            Form::One | Form::Several => "return nil\n",
        };
        let full = self.id.step != Step::Decide;
        format!(
            "local moved, full, replaced, amended, expires = false, {full}, false, false, -1\n{}{}\
             if v and sub(v, 1, 22) ~= head then\n{changed}end\n{}local verdict = 0\n{}",
            room.part("rule"),
            self.fetch(room),
            room.look(),
            self.decide(room),
        )
    }

    fn decide(&self, room: Room) -> String {
        match self.id.step {
            Step::Settle | Step::Undo => String::new(),
            Step::Decide | Step::Ask | Step::Peek => {
                format!("if cost > 0 then\n{}end\n", room.part("decide"))
            }
        }
    }

    /// What was decided is taken if `takes` holds, and what changed is kept.
    fn finish(&self, room: Room, takes: &str) -> String {
        let (take, back) = (room.part("take"), room.part("give_back"));
        let change = match self.id.step {
            Step::Peek => "local takes = false\n".to_owned(),
            Step::Settle => format!(
                "local takes = cost > 0 or (cost < 0 and v)\n\
                 if cost > 0 then\n{take}elseif takes then\n{back}end\n"
            ),
            Step::Undo => format!(
                "if v then\n{}end\nlocal takes = cost < 0 and v\nif takes then\n{back}end\n",
                room.part("undo")
            ),
            Step::Decide | Step::Ask => {
                format!("local takes = {takes} and cost > 0\nif takes then\n{take}end\n")
            }
        };
        let moved = match self.id.step {
            Step::Decide | Step::Ask => "moved",
            Step::Peek | Step::Settle | Step::Undo => "(moved and v)",
        };
        let tells_all = self.id.step != Step::Decide && room.part("tell").is_empty();
        let unchanged = if tells_all { "else\n  value = sub(v, 23)\n" } else { "" };
        let tell = if self.id.step == Step::Decide { "told = ''\n" } else { room.tell() };
        format!(
            "{change}local value, gone, told\n\
             if takes or moved or not v then\n{}{unchanged}end\n\
             if takes or {moved} then\n{}end\n{tell}",
            room.part("keep"),
            self.keep(room),
        )
    }

    fn helpers(&self, text: &str) -> String {
        let needed = ["muldiv", "lowest", "rep", "digits"]
            .into_iter()
            .filter(|name| text.contains(&format!("{name}(")));
        needed.map(|name| paragraph(PRELUDE, name)).collect()
    }

    fn whole(&self, body: &str) -> String {
        let (names, clock) = (paragraph(PRELUDE, "names"), self.prelude("clock"));
        let since = if self.id.step == Step::Undo { self.prelude("since") } else { "" };
        format!("{names}{}{clock}{since}{body}", self.helpers(body))
    }

    fn one(&self) -> String {
        let Some(room) = self.rooms.first() else { return String::new() };
        let tell = match self.id.step {
            Step::Decide => "if verdict == 0 then return at end\nreturn -1 - at\n",
            Step::Ask => {
                "if takes and at == now then return told end\nreturn {verdict, now, at, told}\n"
            }
            Step::Peek | Step::Settle | Step::Undo => "return {verdict, now, at, told}\n",
        };
        let (look, finish) = (self.look(*room), self.finish(*room, "verdict == 0"));
        self.whole(&format!("local key, arg = KEYS[1], ARGV[1]\n{look}{finish}{tell}"))
    }

    /// Advance all, decide all, then take all: each room is a function that decides, and answers how
    /// to end the step.
    fn several(&self) -> String {
        let mut body = self.first_answer();
        if self.id.form == Form::Amending {
            body.push_str(&self.amend());
        }
        body.push_str("local rooms = {\n");
        for room in &self.rooms {
            let (look, finish) = (self.look(*room), self.finish(*room, "goes_on and verdict == 0"));
            let _ = write!(
                body,
                "[{}] = function(key, arg)\n{look}\
                 return verdict, function(goes_on)\n{finish}return at, told\nend\nend,\n",
                room.kind
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

    /// How many limiters there are; and the end, for a request that was answered before under its id.
    fn first_answer(&self) -> String {
        if !self.id.remembers {
            return "local count = #KEYS\n".to_owned();
        }
        let remember = match self.id.step {
            Step::Peek => paragraph(PRELUDE, "remember_peek"),
            Step::Decide | Step::Ask | Step::Settle | Step::Undo => self.prelude("remember"),
        };
        format!("{remember}{}", paragraph(PRELUDE, "first_answer"))
    }

    fn amend(&self) -> String {
        let old: String = self.rooms.iter().map(|room| room.settle_old()).collect();
        let charge: String = self.rooms.iter().map(|room| room.charge()).collect();
        let in_parts = self.rooms.iter().filter(|room| room.in_parts());
        let in_parts: String = in_parts.map(|room| format!("[{}] = true, ", room.kind)).collect();
        let amend = paragraph(PRELUDE, "amend");
        format!(
            "local in_parts = {{{in_parts}}}\nlocal old = {{\n{old}}}\nlocal charge = {{\n{charge}}}\n{amend}"
        )
    }
}
