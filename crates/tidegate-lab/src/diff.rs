//! The change from one policy to another: which rules, for whom, and from what to what.

mod fields;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use tidegate::{Policy, PolicyRule};

/// The difference of two policies, in the words of a configuration. It displays as one line for
/// each change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PolicyDiff {
    /// Changes beside the rules: the revision, and fields of sections.
    pub settings: Vec<Setting>,
    /// Changed and added rules in the order of the new policy, then removed ones.
    pub rules: Vec<RuleDiff>,
    /// Whether rules that both policies have come in another order.
    pub reordered: bool,
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
    /// Whether it has its effect only at the start of a server.
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
    /// Whether it was added, changed or removed.
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
}

impl PolicyDiff {
    /// Compares two policies; rules are matched by domain and name.
    #[must_use]
    pub fn between(old: &Policy, new: &Policy) -> Self {
        let (before, after) = (by_identity(old), by_identity(new));
        let changed = new.rules().iter().filter_map(|rule| match before.get(&identity(rule)) {
            Some(before) => RuleDiff::changed(before, rule),
            None => Some(RuleDiff::whole(rule, Change::Added)),
        });
        let removed = old.rules().iter().filter(|rule| !after.contains_key(&identity(rule)));
        let removed = removed.map(|rule| RuleDiff::whole(rule, Change::Removed));
        let kept = old.rules().iter().map(identity).filter(|name| after.contains_key(name));
        let common = new.rules().iter().map(identity).filter(|name| before.contains_key(name));
        let reordered = kept.ne(common);
        let rules = changed.chain(removed).collect();
        Self { settings: fields::of_policies(old, new), rules, reordered }
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
        let value = |values: &[(String, String)], name: &str| {
            let all = values.iter().filter(|(other, _)| other == name);
            let all: Vec<_> = all.map(|(_, value)| value.as_str()).collect();
            (!all.is_empty()).then(|| all.join(", "))
        };
        for name in names {
            let (old, new) = (value(old, name), value(new, name));
            if old != new {
                let needs_restart = needs_restart(name);
                let name = format!("[{section}] {name}");
                self.settings.push(Setting { name, old, new, needs_restart });
            }
        }
        self
    }

    /// Returns whether both are the same.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.settings.is_empty() && self.rules.is_empty() && !self.reordered
    }

    /// How many rules were added, changed or removed.
    #[must_use]
    pub fn count(&self, change: Change) -> usize {
        self.rules.iter().filter(|rule| rule.change == change).count()
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
        let field = FieldDiff { field: "limit".to_owned(), old, new, effect: None };
        Self::of(rule, change, vec![field])
    }

    fn changed(old: &PolicyRule, new: &PolicyRule) -> Option<Self> {
        let fields = fields::of_rules(old.spec(), new.spec());
        (!fields.is_empty()).then(|| Self::of(new, Change::Changed, fields))
    }

    fn of(rule: &PolicyRule, change: Change, fields: Vec<FieldDiff>) -> Self {
        let (domain, name) = (rule.domain().to_owned(), rule.name().to_owned());
        Self { domain, name, whom: fields::whom(rule.spec()), change, fields }
    }
}

/// The rules of a policy by domain and name.
fn by_identity(policy: &Policy) -> BTreeMap<(&str, &str), &PolicyRule> {
    policy.rules().iter().map(|rule| (identity(rule), rule)).collect()
}

fn identity(rule: &PolicyRule) -> (&str, &str) {
    (rule.domain(), rule.name())
}

impl fmt::Display for PolicyDiff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Setting { name, old, new, needs_restart } in &self.settings {
            let restart = if *needs_restart { "; needs a restart" } else { "" };
            writeln!(f, "~ {name}: {}{restart}", Values(old.as_ref(), new.as_ref()))?;
        }
        self.rules.iter().try_for_each(|rule| rule.fmt(f))?;
        if self.reordered {
            writeln!(f, "~ the order of the rules")?;
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
        for FieldDiff { field, old, new, effect: own } in fields {
            let values = Values(old.as_ref(), new.as_ref());
            let values = match (change, old, new) {
                (Change::Added, _, Some(limit)) | (Change::Removed, Some(limit), _) => {
                    limit.clone()
                }
                _ => format!("{field} {values}"),
            };
            write!(f, "{mark} rule {domain}/{name} ({whom}): {values}{effect}")?;
            own.iter().try_for_each(|own| write!(f, "; {own}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

/// A value before and after.
struct Values<'a>(Option<&'a String>, Option<&'a String>);

impl fmt::Display for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (None, Some(new)) => write!(f, "added: {new}"),
            (Some(old), None) => write!(f, "removed, which was {old}"),
            (old, new) => {
                let shown = |value: Option<&String>| value.map_or("", String::as_str).to_owned();
                write!(f, "{} -> {}", shown(old), shown(new))
            }
        }
    }
}
