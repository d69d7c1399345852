//! The mutants of units that are carried to a store that lost them.

use super::Mutant;

const KNOWN: &str = "crates/tidegate/src/layers/carry/known.rs";
const STORE: &str = "crates/tidegate/src/store/fake/limiters/carried.rs";

pub(super) const CARRIED: &[Mutant] = &[
    Mutant {
        name: "nothing is carried to a store that lost units",
        file: KNOWN,
        replacements: &[(
            "KnownUse::Carried { used: one.used.as_slice().into(), reported: one.at, last }",
            "if last.is_none() { KnownUse::Nothing } else { KnownUse::Nothing }",
        )],
    },
    Mutant {
        name: "a question does not say that a state must be there",
        file: KNOWN,
        replacements: &[(
            "return KnownUse::Stored { server: data.server };",
            "let _ = data;\n            return KnownUse::Nothing;",
        )],
    },
    Mutant {
        name: "a state that must be there begins again",
        file: STORE,
        replacements: &[("known != server || !exists", "known != server")],
    },
];
