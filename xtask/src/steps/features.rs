//! The bare and features steps: every library builds without a warning without features, and every crate with each
//! feature alone; the models build as well.

use std::thread;

use anyhow::{Result, bail};
use cargo_metadata::{Package, Target};

use super::loom;
use crate::context::Context;
use crate::process::{cargo, succeeds};
use crate::step::Outcome;

/// Libraries that are checked without features even if they have none.
const LIBRARIES: &str = "\
    tidegate-core tidegate-rules tidegate-config tidegate-store tidegate-redis tidegate";

/// Builds each library without features. The server, which needs half a minute and rarely fails where clippy has passed,
/// is left to the features step.
pub(super) fn bare(context: &mut Context) -> Result<Outcome> {
    let failed = failed_builds(context, |package, feature| {
        feature.is_none() && package.targets.iter().any(Target::is_lib)
    })?;
    Ok(match Outcome::from_failures(&failed) {
        Outcome::Passed(_) => Outcome::Passed("the server's: with --all".to_owned()),
        outcome => outcome,
    })
}

/// Runs one build after another, and continues after a failure; the models, in a target folder of
/// their own, are checked at the same time.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    let context = &*context;
    let (failed, models) = thread::scope(|scope| {
        let models = scope.spawn(|| loom::builds(context));
        let failed = failed_builds(context, |_, _| true);
        let models = models.join();
        (failed, models.unwrap_or_else(|_| bail!("the check of the models of loom panicked")))
    });
    let mut failed = failed?;
    if !models? {
        failed.push("the models of loom".to_owned());
    }
    Ok(Outcome::from_failures(&failed))
}

/// The builds that fail, of those that are wanted.
fn failed_builds(
    context: &Context,
    is_wanted: impl Fn(&Package, Option<&str>) -> bool,
) -> Result<Vec<String>> {
    let mut failed = Vec::new();
    for package in &context.metadata.packages {
        for feature in builds(&package.name, package.features.keys()) {
            if is_wanted(package, feature) && !check(context, &package.name, feature)? {
                failed.push(format!("{} {}", package.name, feature.unwrap_or("without features")));
            }
        }
    }
    Ok(failed)
}

/// The builds of a package; `None` is the build without features.
fn builds<'a>(name: &str, features: impl Iterator<Item = &'a String>) -> Vec<Option<&'a str>> {
    let mut builds: Vec<_> = features.map(|feature| Some(feature.as_str())).collect();
    if builds.is_empty() && !LIBRARIES.split(' ').any(|library| library == name) {
        return builds;
    }
    builds.retain(|feature| *feature != Some("default"));
    builds.insert(0, None);
    builds
}

fn check(context: &Context, package: &str, feature: Option<&str>) -> Result<bool> {
    let words = format!("clippy --package {package} --no-default-features");
    let mut check = cargo(context, &words);
    if let Some(feature) = feature {
        check.args(["--features", feature]);
    }
    succeeds(check.args(["--", "-D", "warnings"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_built_bare_and_each_feature_alone_but_for_default() {
        let features = ["default", "redis", "tower"].map(String::from);
        for (name, features, expected) in [
            ("tidegate-core", &[][..], &[None][..]),
            ("xtask", &[], &[]),
            ("tidegate", &features, &[None, Some("redis"), Some("tower")]),
        ] {
            assert_eq!(builds(name, features.iter()), expected, "{name}");
        }
    }
}
