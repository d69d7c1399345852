//! The rule of arrows: core <- engine <- lab <- server, and no dependency the other way.

use cargo_metadata::{Dependency, DependencyKind, Metadata};

use super::{Findings, House};

/// Each crate of the workspace, and the crates of the workspace that it may depend on.
const HOUSE: &[(&str, &[&str])] = &[
    ("tidegate-core", &[]),
    ("tidegate-rules", &["tidegate-core"]),
    ("tidegate-config", &["tidegate-core", "tidegate-rules"]),
    ("tidegate-store", &["tidegate-core", "tidegate-rules"]),
    ("tidegate-redis", &["tidegate-core", "tidegate-rules", "tidegate-store"]),
    (
        "tidegate",
        &["tidegate-core", "tidegate-rules", "tidegate-config", "tidegate-store", "tidegate-redis"],
    ),
    ("tidegate-lab", &["tidegate-core", "tidegate"]),
    ("tidegate-server", &["tidegate-core", "tidegate", "tidegate-lab"]),
    ("testkit", &["tidegate-core", "tidegate"]),
    ("xtask", &[]),
];

/// The crate without any dependency.
const BARE: &str = "tidegate-core";

/// The crate that programs depend on, with its parts. A part is a crate by itself that only this crate and other parts
/// import; the examples of its documentation use the names under which programs know its items.
pub(super) const FACADE: &str = "tidegate";
const PARTS: &[&str] = &["tidegate-rules", "tidegate-config", "tidegate-store", "tidegate-redis"];

/// The crate for tests only.
const TEST_ONLY: &str = "testkit";

/// One dependency of one member.
#[derive(Clone, Copy)]
struct Arrow<'a> {
    from: &'a str,
    to: &'a str,
    in_tests: bool,
    in_workspace: bool,
}

/// Checks every dependency of every member.
pub(super) fn check(house: &House<'_>) -> Findings {
    let strangers = members(house.metadata).filter(|name| allowed(name).is_none()).map(stranger);
    let bad = arrows(house.metadata).into_iter().filter_map(complaint);
    strangers.chain(bad).collect::<Vec<_>>().into()
}

fn members(metadata: &Metadata) -> impl Iterator<Item = &str> {
    metadata.packages.iter().map(|package| package.name.as_str())
}

fn arrows(metadata: &Metadata) -> Vec<Arrow<'_>> {
    let packages = metadata.packages.iter();
    packages
        .flat_map(|package| package.dependencies.iter().map(|to| arrow(&package.name, to)))
        .collect()
}

fn arrow<'a>(from: &'a str, to: &'a Dependency) -> Arrow<'a> {
    Arrow {
        from,
        to: &to.name,
        in_tests: to.kind == DependencyKind::Development,
        in_workspace: to.path.is_some(),
    }
}

fn allowed(name: &str) -> Option<&'static [&'static str]> {
    HOUSE.iter().find(|(own, _)| *own == name).map(|(_, below)| *below)
}

fn complaint(arrow: Arrow<'_>) -> Option<String> {
    let Arrow { from, to, in_tests, in_workspace } = arrow;
    if from == BARE && !in_tests {
        return Some(format!("{from} depends on {to}: the core has no dependencies at all"));
    }
    let is_for_examples = to == FACADE && PARTS.contains(&from);
    if !in_workspace || (in_tests && (to == TEST_ONLY || is_for_examples)) {
        return None;
    }
    if to == TEST_ONLY {
        return Some(format!("{from} depends on {to}: move it to [dev-dependencies]"));
    }
    let below = allowed(from)?;
    (!below.contains(&to)).then(|| upward(from, to, below))
}

fn upward(from: &str, to: &str, below: &[&str]) -> String {
    let may = if below.is_empty() { "nothing".into() } else { below.join(" and ") };
    format!("{from} depends on {to}: of the workspace it may stand on {may}; move the code down")
}

fn stranger(name: &str) -> String {
    format!("{name} has no place in the house: add it to HOUSE in {}", file!())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each arrow, and a part of the complaint about it; nothing of an arrow that points down.
    #[test]
    fn arrows_point_down() {
        for (from, to, in_tests, in_workspace, expected) in [
            ("tidegate-server", "tidegate-core", false, true, None),
            ("tidegate", "tidegate-lab", false, true, Some("may stand on tidegate-core")),
            ("tidegate-core", "tidegate", true, true, Some("may stand on nothing")),
            // A part knows the whole in its examples alone.
            ("tidegate-rules", "tidegate", true, true, None),
            ("tidegate-rules", "tidegate", false, true, Some("may stand on")),
            ("tidegate-server", "tidegate-rules", false, true, Some("may stand on")),
            ("tidegate-core", "libm", false, false, Some("no dependencies at all")),
            ("tidegate-core", "proptest", true, false, None),
            ("tidegate", "toml", false, false, None),
            ("tidegate-core", "testkit", true, true, None),
            ("tidegate", "testkit", false, true, Some("[dev-dependencies]")),
        ] {
            let found = complaint(Arrow { from, to, in_tests, in_workspace });
            assert_eq!(found.is_some(), expected.is_some(), "{from} {to}: {found:?}");
            assert!(found.is_none_or(|found| found.contains(expected.unwrap())), "{from} {to}");
        }
    }

    #[test]
    fn every_crate_stands_only_on_crates_listed_before_it() {
        for (at, (name, below)) in HOUSE.iter().enumerate() {
            let before: Vec<_> = HOUSE[..at].iter().map(|(name, _)| name).collect();
            assert!(below.iter().all(|lower| before.contains(&lower)), "{name}");
        }
    }
}
