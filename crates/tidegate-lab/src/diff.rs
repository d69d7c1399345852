//! The change from one policy to another: the rules, their callers, and the old and new values.
//!
//! `tidegate diff` prints it for two files, and a server reports it for rules that it takes over.

mod fields;

pub use fields::{FieldText, fields};

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tidegate::{Micros, Policy, PolicyRule, printable};

/// The maximum number of bytes of changes of rules that are shown; some 12,000 short ones.
const MOST_BYTES: usize = 2 << 20;
/// Bytes of a change besides its texts.
const LINE_BYTES: usize = 64;

/// The difference of two policies, in the words of a configuration. It displays as one line for
/// each change.
///
/// It is bounded for any policies: a long text is cut, and of many changes the first are shown and the others are
/// counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyDiff {
    /// Effects of the change that an operator may not expect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Changes next to the rules: the revision, and fields of sections.
    pub settings: Vec<Setting>,
    /// Changed and added rules in the order of the new policy, then removed ones.
    pub rules: Vec<RuleDiff>,
    /// True if rules that both policies have come in another order.
    pub reordered: bool,
    /// Changes of rules that are not shown, for want of room.
    pub left_out: usize,
    /// Rules that were added, changed and removed.
    #[serde(skip)]
    counts: [usize; 3],
}

/// A field outside of the rules that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The field, such as `revision` or `[memory] max_keys`.
    pub name: String,
    /// Its value; `None` where it is left out.
    pub old: Option<String>,
    /// Its value; `None` where it is left out.
    pub new: Option<String>,
    /// True if it has its effect only at the start of a server.
    pub needs_restart: bool,
}

/// A rule that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleDiff {
    /// The domain of the rule.
    pub domain: String,
    /// Its name.
    pub name: String,
    /// Whose requests it decides, such as ``each `user`, if plan=free``.
    pub whom: String,
    /// Says if it was added, changed or removed.
    pub change: Change,
    /// Its fields that differ; of an added or a removed rule, its limit.
    pub fields: Vec<FieldDiff>,
}

/// A change of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Only the new policy has it.
    Added,
    /// Both have it, with other fields.
    Changed,
    /// Only the old policy has it.
    Removed,
}

/// A field of a rule, or one of its overrides, that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldDiff {
    /// The field, such as `limit` or `override user=vip`.
    pub field: String,
    /// Its value; `None` where it is left out.
    pub old: Option<String>,
    /// Its value; `None` where it is left out.
    pub new: Option<String>,
    /// The effect on those who have used the rule, where there is one to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<&'static str>,
    /// The longest wait that the change causes, in microseconds, if it can cause a wait. Usage carries over, but counts
    /// for at most one new window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_wait_us: Option<u64>,
}

impl PolicyDiff {
    /// Compares two policies; rules are matched by domain and name.
    #[must_use]
    pub fn between(old: &Policy, new: &Policy) -> Self {
        let before = by_identity(old);
        let after = by_identity(new);
        let changed = new.rules().iter().filter_map(|rule| match before.get(&identity(rule)) {
            Some(before) => RuleDiff::changed(before, rule),
            None => Some(RuleDiff::whole(rule, Change::Added)),
        });
        let removed = old.rules().iter().filter(|rule| !after.contains_key(&identity(rule)));
        let removed = removed.map(|rule| RuleDiff::whole(rule, Change::Removed));
        let mut found = Self {
            warnings: fields::falling_revision(old, new).into_iter().collect(),
            settings: fields::of_policies(old, new),
            ..Self::default()
        };
        let mut space = MOST_BYTES;
        changed.chain(removed).for_each(|rule| found.add(rule, &mut space));
        // Added and removed rules move no other rule, so only the rules of both are compared in order.
        let kept = old.rules().iter().map(identity).filter(|name| after.contains_key(name));
        let common = new.rules().iter().map(identity).filter(|name| before.contains_key(name));
        found.reordered = kept.ne(common);
        found
    }

    /// Adds a rule that differs, as far as there is room.
    fn add(&mut self, mut rule: RuleDiff, space: &mut usize) {
        // Counted before the limit of bytes, so that the totals are true even if changes are left out.
        let [added, changed, removed] = &mut self.counts;
        match rule.change {
            Change::Added => *added += 1,
            Change::Changed => *changed += 1,
            Change::Removed => *removed += 1,
        }
        let all = rule.fields.len();
        // Each field is a line of its own that repeats the rule, so the rule counts with each.
        let of_rule = rule.domain.len() + rule.name.len() + rule.whom.len();
        // The first field without room uses up the rest, so that no later, shorter one is shown.
        let shown = rule.fields.iter().take_while(|field| {
            *space = space.saturating_sub(of_rule + field.bytes());
            *space > 0
        });
        let shown = shown.count();
        self.left_out += all - shown;
        rule.fields.truncate(shown);
        if shown > 0 {
            self.rules.push(rule);
        }
    }

    /// The difference without its rules, which are counted.
    #[must_use]
    pub fn without_rules(mut self) -> Self {
        self.left_out += self.rules.iter().map(|rule| rule.fields.len()).sum::<usize>();
        self.rules.clear();
        self
    }

    /// Adds the differences of a program's own section, such as `[server]`, given by name and value.
    /// `needs_restart` returns whether a field has its effect only at the start.
    #[must_use]
    pub fn with_section(
        mut self,
        section: &str,
        [old, new]: [&[(String, String)]; 2],
        needs_restart: impl Fn(&str) -> bool,
    ) -> Self {
        let mut names: Vec<_> = old.iter().chain(new).map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let old = joined(old, name);
            let new = joined(new, name);
            // Compared whole, and cut only to be shown.
            if old != new {
                self.settings.push(Setting {
                    name: format!("[{section}] {name}"),
                    old: old.map(fields::cut),
                    new: new.map(fields::cut),
                    needs_restart: needs_restart(name),
                });
            }
        }
        self
    }

    /// Returns whether both are the same.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        let [added, changed, removed] = self.counts;
        // Counts, and not `rules`, from which changes may be left out.
        self.settings.is_empty() && added + changed + removed == 0 && !self.reordered
    }

    /// The number of rules that were added, changed or removed.
    #[must_use]
    pub const fn count(&self, change: Change) -> usize {
        let [added, changed, removed] = self.counts;
        match change {
            Change::Added => added,
            Change::Changed => changed,
            Change::Removed => removed,
        }
    }

    /// The names of the settings that differ and have their effect only at the start of a server.
    #[must_use]
    pub fn needing_restart(&self) -> Vec<&str> {
        let settings = self.settings.iter().filter(|setting| setting.needs_restart);
        settings.map(|setting| setting.name.as_str()).collect()
    }
}

impl RuleDiff {
    fn whole(rule: &PolicyRule, change: Change) -> Self {
        let limit = Some(fields::summary(rule.spec()));
        let (old, new) = if change == Change::Added { (None, limit) } else { (limit, None) };
        let field = FieldDiff::plain("limit".to_owned(), old, new);
        Self::of(rule, change, vec![field])
    }

    fn changed(old: &PolicyRule, new: &PolicyRule) -> Option<Self> {
        let fields = fields::of_rules(old.spec(), new.spec());
        (!fields.is_empty()).then(|| Self::of(new, Change::Changed, fields))
    }

    fn of(rule: &PolicyRule, change: Change, fields: Vec<FieldDiff>) -> Self {
        Self {
            domain: fields::cut(rule.domain().to_owned()),
            name: rule.name().to_owned(),
            whom: fields::cut(fields::whom(rule.spec())),
            change,
            fields,
        }
    }
}

impl FieldDiff {
    /// A field with its values, which are cut if they are long.
    fn plain(field: String, old: Option<String>, new: Option<String>) -> Self {
        Self {
            field: fields::cut(field),
            old: old.map(fields::cut),
            new: new.map(fields::cut),
            effect: None,
            longest_wait_us: None,
        }
    }

    /// About the bytes that it takes as a line and as JSON, without the bytes of its rule.
    fn bytes(&self) -> usize {
        let values = [&self.old, &self.new].into_iter().flatten();
        let values = values.map(String::len).sum::<usize>();
        LINE_BYTES + self.field.len() + values + self.effect.map_or(0, str::len)
    }
}

/// The rules of a policy by domain and name.
fn by_identity(policy: &Policy) -> BTreeMap<(&str, &str), &PolicyRule> {
    policy.rules().iter().map(|rule| (identity(rule), rule)).collect()
}

/// All values of a name, which a list has several times.
fn joined(values: &[(String, String)], name: &str) -> Option<String> {
    let all = values.iter().filter(|(other, _)| other == name);
    let all: Vec<_> = all.map(|(_, value)| value.as_str()).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn identity(rule: &PolicyRule) -> (&str, &str) {
    (rule.domain(), rule.name())
}

impl fmt::Display for PolicyDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Setting { name, old, new, needs_restart } in &self.settings {
            let restart = if *needs_restart { "; needs a restart" } else { "" };
            let line = format!("~ {name}: {}{restart}", BeforeAndAfter(old.as_ref(), new.as_ref()));
            writeln!(f, "{}", printable::line(&line))?;
        }
        self.rules.iter().try_for_each(|rule| rule.fmt(f))?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))?;
        if self.reordered {
            writeln!(f, "~ the order of the rules")?;
        }
        if self.left_out > 0 {
            writeln!(f, "and {} more changes, which are not shown", self.left_out)?;
        }
        if self.is_empty() {
            return f.write_str("no difference");
        }
        let [added, changed, removed] =
            [Change::Added, Change::Changed, Change::Removed].map(|change| self.count(change));
        write!(f, "rules: {added} added, {changed} changed, {removed} removed")
    }
}

impl fmt::Display for RuleDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, name, whom, change, fields } = self;
        let (mark, effect) = match change {
            Change::Added => ('+', "; starts fresh"),
            Change::Changed => ('~', ""),
            Change::Removed => ('-', "; decides nothing, and is kept until it is idle"),
        };
        for FieldDiff { field, old, new, effect: own, longest_wait_us } in fields {
            let values = BeforeAndAfter(old.as_ref(), new.as_ref());
            // There is nothing to compare where only one policy has the rule, so its limit stands alone.
            let values = match (change, old, new) {
                (Change::Added, _, Some(limit)) | (Change::Removed, Some(limit), _) => {
                    limit.clone()
                }
                _ => format!("{field} {values}"),
            };
            let own = own.map_or_else(String::new, |own| format!("; {own}"));
            let wait = longest_wait_us.map_or_else(String::new, |us| {
                format!("; a caller waits at most {} because of it", Micros::from_micros(us))
            });
            let line = format!("{mark} rule {domain}/{name} ({whom}): {values}{effect}{own}{wait}");
            // Domains and entries may have any character.
            writeln!(f, "{}", printable::line(&line))?;
        }
        Ok(())
    }
}

/// A value before and after.
struct BeforeAndAfter<'a>(Option<&'a String>, Option<&'a String>);

impl fmt::Display for BeforeAndAfter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (None, Some(new)) => write!(f, "added: {new}"),
            (Some(old), None) => write!(f, "removed, which was {old}"),
            // Both texts may be the same: a URL whose password alone differs hides the password.
            (old, new) => {
                let old = old.map_or("", String::as_str);
                write!(f, "{old} -> {}", new.map_or("", String::as_str))
            }
        }
    }
}

#[cfg(test)]
mod tests;
