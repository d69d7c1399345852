//! The header fields of an answer that the proxy passes on to a caller, in the families that the settings choose
//! (`--grpc-headers`). `decide.rs` adds them to its response.

use tidegate::{Answer, headers};

use super::response::HeaderValue;

/// A family of header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Family {
    /// X-RateLimit-Limit, -Remaining and -Reset, as on the HTTP listener
    XRatelimit,
    /// RateLimit-Policy and RateLimit of the IETF draft
    Ratelimit,
    /// Retry-After, with a refusal that will pass
    RetryAfter,
}

/// The families in answers, each at its number; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GrpcFields([bool; 3]);

impl GrpcFields {
    /// The header fields of an answer.
    pub(super) fn of(self, answer: &Answer<'_>) -> Vec<HeaderValue> {
        // The default: no field is written to be dropped again.
        if self == Self::default() {
            return Vec::new();
        }
        let all = headers::of(answer).into_iter();
        let wanted = all.filter(|(name, _)| self.0[family(name) as usize]);
        wanted.map(|(name, value)| field(name, value)).collect()
    }
}

impl FromIterator<Family> for GrpcFields {
    fn from_iter<T: IntoIterator<Item = Family>>(families: T) -> Self {
        let mut fields = Self::default();
        families.into_iter().for_each(|family| fields.0[family as usize] = true);
        fields
    }
}

fn family(name: &str) -> Family {
    match name {
        "Retry-After" => Family::RetryAfter,
        name if name.starts_with("X-") => Family::XRatelimit,
        _ => Family::Ratelimit,
    }
}

fn field(name: &str, value: String) -> HeaderValue {
    // HTTP/2 names are in lower case.
    HeaderValue { key: name.to_ascii_lowercase(), value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate::{AlgorithmKind, Descriptor, Gate, ManualClock, Policy, Request, RuleSpec, Spec};

    #[test]
    fn a_refusal_has_the_families_that_were_asked_for() {
        let spec = Spec::new(AlgorithmKind::SlidingLog, 3, Duration::from_secs(60));
        let policy = Policy::new(vec![RuleSpec::new("all", spec)]).unwrap();
        let gate = Gate::with_clock(policy, ManualClock::new());
        let request = Request::from(Descriptor::new(&[]).cost(2));
        let _ = gate.check(&request);
        let refused = gate.check(&request);
        for (families, expected) in [
            (&[][..], &[][..]),
            (&[Family::RetryAfter], &["retry-after: 60"]),
            (
                &[Family::Ratelimit],
                &[r#"ratelimit-policy: "all";q=3;w=60"#, r#"ratelimit: "all";r=1;t=60"#],
            ),
            (
                &[Family::XRatelimit],
                &["x-ratelimit-limit: 3", "x-ratelimit-remaining: 1", "x-ratelimit-reset: 60"],
            ),
        ] {
            let fields = families.iter().copied().collect::<GrpcFields>().of(&refused);
            let fields = fields.iter().map(|field| format!("{}: {}", field.key, field.value));
            assert_eq!(fields.collect::<Vec<_>>(), expected);
        }
    }
}
