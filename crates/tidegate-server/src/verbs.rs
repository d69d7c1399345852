//! The verbs that clients may use at the public listeners, and where each is granted: to all clients, by a token, or
//! by a certificate. Every protocol maps its requests to these verbs.

use clap::ValueEnum;

use crate::refusal::{RefusalKind, RequestRefusal};

/// A verb of a public listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PublicVerb {
    Check,
    Peek,
    Reserve,
    Settle,
    Refund,
    Reset,
    Report,
    /// Hits that a gRPC call gives back.
    GrpcRefund,
}

/// The verbs by default, as the flag writes them: a client that gives units back can pass a limit by saying so.
pub(crate) const USUAL: &str = "check,peek";

impl PublicVerb {
    /// Its name in the setting.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Peek => "peek",
            Self::Reserve => "reserve",
            Self::Settle => "settle",
            Self::Refund => "refund",
            Self::Reset => "reset",
            Self::Report => "report",
            Self::GrpcRefund => "grpc-refund",
        }
    }

    /// The refusal at a listener that grants `all` clients these verbs, and each line that would grant it.
    pub(crate) fn refusal(self, all: PublicVerbs) -> RequestRefusal {
        let name = self.name();
        let listed = Self::value_variants().iter().filter(|verb| all.has(**verb) || **verb == self);
        let listed: Vec<_> = listed.map(|verb| format!("\"{}\"", verb.name())).collect();
        let detail = format!(
            "`{name}` is not granted to this client: expected `public_verbs = [{}]` in [server] (--public-verbs), \
             `verbs={name}` after its token in --token-file, or `certificate_verbs = [\"NAME={name}\"]` \
             (--certificate-verbs) with the name of its certificate{}",
            listed.join(", "),
            match self {
                Self::Check | Self::Reserve => "",
                Self::GrpcRefund => "; or the admin listener (POST /v1/refund)",
                _ => "; or the admin listener",
            }
        );
        RefusalKind::VerbForbidden.because(detail)
    }
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PublicVerbs(u8);

impl FromIterator<PublicVerb> for PublicVerbs {
    fn from_iter<I: IntoIterator<Item = PublicVerb>>(verbs: I) -> Self {
        // Eight verbs fill the eight bits; a ninth verb needs a wider number.
        Self(verbs.into_iter().fold(0, |set, verb| set | 1 << verb as u8))
    }
}

impl PublicVerbs {
    /// Reads names that are separated by commas.
    ///
    /// # Errors
    /// Returns the expected names in place of an unknown name.
    pub(crate) fn parse(names: &str) -> Result<Self, String> {
        names.split(',').map(verb).collect()
    }

    pub(crate) const fn has(self, verb: PublicVerb) -> bool {
        self.0 & 1 << verb as u8 != 0
    }

    /// The verbs of both sets.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns whether clients may undo what others took.
    pub(crate) const fn undo(self) -> bool {
        self.has(PublicVerb::Refund) || self.has(PublicVerb::Reset)
    }
}

impl subtle::ConditionallySelectable for PublicVerbs {
    fn conditional_select(one: &Self, other: &Self, choice: subtle::Choice) -> Self {
        Self(u8::conditional_select(&one.0, &other.0, choice))
    }
}

/// Reads the name of a verb.
///
/// # Errors
/// Returns the expected text.
pub(crate) fn verb(name: &str) -> Result<PublicVerb, String> {
    PublicVerb::from_str(name, false).map_err(|_| {
        let all: Vec<_> = PublicVerb::value_variants().iter().map(|verb| verb.name()).collect();
        format!("\"{name}\" is no verb: expected one of {}", all.join(", "))
    })
}

#[cfg(test)]
impl PublicVerbs {
    /// The verbs by default.
    pub(crate) fn usual() -> Self {
        Self::parse(USUAL).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in_and_names_are_those_of_the_flag() {
        let all = PublicVerb::value_variants();
        for verb in all {
            assert_eq!(verb.to_possible_value().unwrap().get_name(), verb.name());
            let alone = PublicVerbs::from_iter([*verb]);
            assert!(all.iter().all(|other| alone.has(*other) == (other == verb)));
            assert_eq!(PublicVerbs::parse(verb.name()), Ok(alone));
        }
        assert!(!PublicVerbs::usual().undo() && PublicVerbs::from_iter([PublicVerb::Reset]).undo());
        let both = PublicVerbs::parse("check").unwrap().and(PublicVerbs::parse("peek").unwrap());
        assert_eq!(both, PublicVerbs::usual());
        assert!(PublicVerbs::parse("check,,peek").unwrap_err().contains("\"\" is no verb"));
    }
}
