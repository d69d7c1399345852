//! The verbs that clients may use at the public listeners, a setting.

use clap::ValueEnum;

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

/// The verbs by default, as the flag writes them.
pub(crate) const USUAL: &str = "check,peek,reserve,settle,grpc-refund";

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

    /// Why it is refused, and the setting to change.
    pub(crate) fn refusal(self) -> String {
        let name = self.name();
        format!(
            "`{name}` is not among the verbs of this listener: expected a server whose `public_verbs` \
             (--public-verbs) has it{}",
            match self {
                Self::Check | Self::Reserve => "",
                _ => ", or the admin listener",
            }
        )
    }
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PublicVerbs(u8);

impl FromIterator<PublicVerb> for PublicVerbs {
    fn from_iter<I: IntoIterator<Item = PublicVerb>>(verbs: I) -> Self {
        Self(verbs.into_iter().fold(0, |set, verb| set | 1 << verb as u8))
    }
}

impl PublicVerbs {
    /// The verbs by default.
    #[cfg(test)]
    pub(crate) fn usual() -> Self {
        USUAL.split(',').filter_map(|name| PublicVerb::from_str(name, false).ok()).collect()
    }

    pub(crate) const fn has(self, verb: PublicVerb) -> bool {
        self.0 & 1 << verb as u8 != 0
    }

    /// Returns whether clients may undo what others took.
    pub(crate) const fn undo(self) -> bool {
        self.has(PublicVerb::Refund) || self.has(PublicVerb::Reset)
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
            assert!(verb.refusal().contains("--public-verbs"));
        }
        assert!(!PublicVerbs::usual().undo() && PublicVerbs::from_iter([PublicVerb::Reset]).undo());
        assert!(USUAL.split(',').all(|name| PublicVerb::from_str(name, false).is_ok()));
    }
}
