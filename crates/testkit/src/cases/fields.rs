//! The fields of a table's rule, as a policy for the models.
//!
//! A row with `amend` changes them in the middle of a table.

use super::Case;
use super::duration::{parse_count, parse_duration_us};
use crate::model::{AlgorithmKind, Policy};

impl Case {
    /// The case's rule.
    ///
    /// # Errors
    /// Returns an error if a field is unknown or unreadable, if `algorithm`, `limit` or `window` is
    /// missing, or `capacity` for a queue, and if the fields are not valid together.
    pub fn policy(&self) -> Result<Policy, String> {
        let field = |key: &str| self.rule.iter().find(|(known, _)| known == key);
        for key in ["algorithm", "limit", "window"] {
            field(key).ok_or_else(|| format!("the rule has no `{key}`"))?;
        }
        let mut policy = Policy::new(AlgorithmKind::FixedWindow, 0, 1);
        policy.apply_fields(&self.rule)?;
        Ok(policy)
    }
}

impl Policy {
    /// Changes these fields and keeps the rest; on an error nothing is changed.
    ///
    /// # Errors
    /// Returns an error if a field is unknown or unreadable, and if the fields are not valid
    /// together.
    pub fn apply_fields(&mut self, fields: &[(String, String)]) -> Result<(), String> {
        // On a copy, so that fields are checked together, in any order.
        let mut changed = self.clone();
        for (key, value) in fields {
            changed.apply(key, value).map_err(|why| format!("{key}: {why}"))?;
        }
        changed.check()?;
        *self = changed;
        Ok(())
    }

    fn apply(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "algorithm" => self.algorithm = parse_algorithm(value)?,
            "limit" => self.limit = parse_count(value)?,
            "window" => self.window_us = parse_duration_us(value)?,
            "buckets" => self.buckets = parse_count(value)?,
            "strict" => self.strict = parse_one_of(value, ["false", "true"])?,
            "anchor" => {
                self.anchor_first_request = parse_one_of(value, ["aligned", "first_request"])?;
            }
            "capacity" => self.capacity = Some(parse_count(value)?),
            "initial" => self.initial = Some(parse_count(value)?),
            "max_debt" => self.max_debt = Some(parse_count(value)?),
            "resolution" => self.resolution_us = parse_duration_us(value)?,
            _ => return Err("is no field of a rule".into()),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let sliding = self.algorithm == AlgorithmKind::SlidingWindow;
        let wrong = [
            (self.window_us == 0 && self.limit > 0, "window must be above 0 unless limit is 0"),
            (self.resolution_us == 0, "resolution must be above 0"),
            (self.buckets == 0, "buckets must be above 0"),
            (
                sliding && !self.window_us.is_multiple_of(self.buckets.max(1)),
                "buckets must divide window",
            ),
            (
                self.algorithm == AlgorithmKind::LeakyQueue && self.capacity.is_none(),
                "a leaky_queue needs a capacity",
            ),
        ];
        match wrong.into_iter().find(|(is, _)| *is) {
            Some((_, why)) => Err(why.into()),
            None => Ok(()),
        }
    }
}

fn parse_algorithm(name: &str) -> Result<AlgorithmKind, String> {
    let names = AlgorithmKind::ALL.map(AlgorithmKind::name).join(", ");
    AlgorithmKind::named(name).ok_or_else(|| format!("`{name}` is none of {names}"))
}

/// Returns whether the value is the second of the two.
fn parse_one_of(value: &str, [first, second]: [&str; 2]) -> Result<bool, String> {
    match value {
        _ if value == first => Ok(false),
        _ if value == second => Ok(true),
        _ => Err(format!("`{value}` is neither {first} nor {second}")),
    }
}
