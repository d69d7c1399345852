//! Keys that are counted, for a rule that keeps a bounded number of them.

use super::limiter::{Among, ScriptLimiter};
use super::step::ScriptStep;

/// A key that is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CountedKey {
    /// Its index among the call's keys.
    pub(super) key: usize,
    pub(super) name: (String, String),
    pub(super) most: usize,
}

impl CountedKey {
    /// The counted keys of a step; a step that gives back or settles always has space.
    pub(super) fn of(limiters: &[ScriptLimiter<'_>], step: ScriptStep) -> Vec<Self> {
        let settles = step.settles() || step == ScriptStep::Renew;
        let each = limiters.iter().enumerate().filter_map(|(key, one)| Some((key, one.among?)));
        let each = each.map(|(key, Among { name: (prefix, name), most, .. })| Self {
            key,
            name: (prefix.to_owned(), name.to_owned()),
            most: if settles { usize::MAX } else { most },
        });
        each.collect()
    }

    /// The last arguments of a script that counts: which keys, and the part of a cluster's node,
    /// filled in when the call is sent there. None if nothing is counted.
    pub(super) fn arguments(counts: &[Self]) -> impl Iterator<Item = Vec<u8>> + use<> {
        let mut args = Vec::new();
        for Self { key, name: (prefix, name), most } in counts {
            args.extend(u32::try_from(key + 1).unwrap_or(u32::MAX).to_le_bytes());
            args.extend((*most as f64).to_le_bytes());
            for text in [prefix, name] {
                // The script reads the length from two bytes.
                let text = &text.as_bytes()[..text.len().min(usize::from(u16::MAX))];
                args.extend(u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
                args.extend(text);
            }
        }
        let all = (!counts.is_empty()).then(|| [args, Vec::new()]);
        all.into_iter().flatten()
    }
}
