//! The key that a decision was about, as operators see it: in the tail of decisions, the top keys and the list of
//! reservations. A rule that hides its keys shows a fingerprint in their place.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;

use serde::{Serialize, Serializer};
use tidegate::{Descriptor, PolicyRule};

use crate::ordered_map::OrderedMap;

/// The longest text of a value that is kept, in characters.
const VALUE_CHARS: usize = 120;

/// Differs from process to process, so that the fingerprint of a key cannot be computed outside.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// A rule and one of its keys.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct KeyLabel {
    domain: String,
    pub(crate) rule: String,
    key: LabelKey,
}

/// The entries of a key, or its fingerprint if the rule hides its keys.
#[derive(Clone, Debug)]
enum LabelKey {
    Entries(Vec<(String, String)>),
    Hidden(u64),
}

/// The fingerprint of a rule's key.
pub(super) fn fingerprint(rule: &PolicyRule, descriptor: &Descriptor<'_>) -> u64 {
    let mut hasher = HASHER.build_hasher();
    // Rules may have equal keys: their counts must not be added up.
    (rule.domain(), rule.name()).hash(&mut hasher);
    rule.key(descriptor).for_each(|value| value.hash(&mut hasher));
    hasher.finish()
}

impl KeyLabel {
    /// Becomes the label of another key, in the same memory.
    pub(super) fn write(
        &mut self,
        fingerprint: u64,
        rule: &PolicyRule,
        descriptor: &Descriptor<'_>,
    ) {
        let spec = rule.spec();
        spec.domain.clone_into(&mut self.domain);
        spec.name.clone_into(&mut self.rule);
        if spec.hide_keys {
            self.key = LabelKey::Hidden(fingerprint);
            return;
        }
        if let LabelKey::Hidden(_) = self.key {
            self.key = LabelKey::default();
        }
        // A hidden key was replaced above, so these are entries.
        let LabelKey::Entries(entries) = &mut self.key else { return };
        entries.resize_with(spec.key.len(), Default::default);
        let key = spec.key.iter().zip(rule.key(descriptor));
        for ((name, value), (of_key, given)) in entries.iter_mut().zip(key) {
            of_key.clone_into(name);
            let end = given.char_indices().nth(VALUE_CHARS);
            let cut = end.map(|(end, _)| before_escape(given, end));
            cut.and_then(|end| given.get(..end)).unwrap_or(given).clone_into(value);
            value.extend(cut.map(|_| '…'));
        }
    }
}

/// Returns `end`, or where the escape of a byte, such as `\xff`, begins that would be cut there.
fn before_escape(text: &str, end: usize) -> usize {
    // An escape has four characters, so a cut that divides it is at most three after its beginning.
    for at in end.saturating_sub(3)..end {
        if let Some([b'\\', b'x', high, low, ..]) = text.as_bytes().get(at..)
            && high.is_ascii_hexdigit()
            && low.is_ascii_hexdigit()
        {
            return at;
        }
    }
    end
}

impl Default for LabelKey {
    fn default() -> Self {
        Self::Entries(Vec::new())
    }
}

impl Serialize for LabelKey {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Entries(entries) => OrderedMap(entries).serialize(to),
            Self::Hidden(fingerprint) => to.collect_str(&format_args!("{fingerprint:016x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::{Gate, Policy, RuleSpec};

    #[test]
    fn a_value_is_not_cut_within_the_escape_of_a_byte() {
        let policy = Policy::new(vec![RuleSpec::new("user", "9/d").key(["user"])]).unwrap();
        let gate = Gate::new(policy);
        for before in 114..=121 {
            let value = "a".repeat(before) + r"\xff" + &"b".repeat(9);
            let entries = [("user", value.as_str())];
            let answer = gate.check(&entries);
            let matched = answer.enforced().next().unwrap();
            let mut label = KeyLabel::default();
            label.write(0, matched.rule(), &Descriptor::new(&entries));
            let LabelKey::Entries(entries) = label.key else { panic!("the key is not hidden") };
            let kept = match before {
                114..=116 => 120,
                117..=119 => before,
                _ => 120,
            };
            assert_eq!(entries[0].1, format!("{}…", &value[..kept]), "{before}");
        }
    }
}
