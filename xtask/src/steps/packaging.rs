//! The packaging step: holds each file that installs or runs the server to its format, and packs the crates.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::programs::{ENVOY, LINTERS, need_all};
use crate::context::Context;
use crate::process::{answers, cargo, succeeds};
use crate::step::Outcome;

/// Files with the name of their schema.
const SCHEMAS: &[(&str, &[&str])] = &[
    ("vendor.compose-spec", &["packaging/compose/compose.yaml"]),
    ("vendor.github-workflows", &[".github/workflows/ci.yml"]),
    (
        "vendor.github-issue-forms",
        &[".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/feature.yml"],
    ),
    ("vendor.github-issue-config", &[".github/ISSUE_TEMPLATE/config.yml"]),
];

/// The crates that others depend on or install, which depend on nothing that is not published.
const PUBLISHED: &str = "tidegate-core tidegate-rules tidegate-config tidegate-store tidegate-redis tidegate \
                         tidegate-lab tidegate-server";

/// Configurations that editors are to find no mistake in.
const CONFIGURATIONS: [&str; 4] = [
    "examples/rules.toml",
    "crates/tidegate-server/example.toml",
    "crates/tidegate-server/src/init.toml",
    "packaging/compose/rules.toml",
];

/// Builds the program that prints the schema of a configuration, just as the step `tests` does: in a whole run nothing is
/// left to build.
const BUILD: &str = "test --workspace --all-features --locked --no-run";

const CONTAINERFILE: &str = "packaging/Containerfile";
const KUBERNETES: &str = "packaging/kubernetes.yaml";
const PROXY: &str = "packaging/compose/envoy.yaml";
const SERVICE: &str = "packaging/tidegate.service";
const SOCKET: &str = "packaging/tidegate.socket";
const ALERTS: &str = "packaging/prometheus/alerts.yml";
const ALERTS_TEST: &str = "packaging/prometheus/alerts.test.yml";

/// Asks a program that knows the format about each file.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    need_all(context)?;
    let tools = context.tools();
    LINTERS.need(&tools)?;
    let root = context.root().to_owned();
    let mut failed = Vec::new();
    let mut hold = |file: &str, command: &mut Command| -> Result<()> {
        if !succeeds(command.current_dir(&root))? {
            failed.push(file.to_owned());
        }
        Ok(())
    };
    for (schema, files) in SCHEMAS {
        let mut check = LINTERS.program(&tools, "check-jsonschema");
        hold(schema, check.args(["--builtin-schema", schema]).args(*files))?;
    }
    let mut crates = cargo(context, "package --quiet --allow-dirty --no-verify");
    hold("the crates", crates.args(PUBLISHED.split(' ').flat_map(|name| ["--package", name])))?;
    let mut validate = LINTERS.program(&tools, "kubernetes-validate");
    hold(KUBERNETES, validate.args(["--strict", KUBERNETES]))?;
    hold(CONTAINERFILE, LINTERS.program(&tools, "hadolint").arg(CONTAINERFILE))?;
    hold("the configurations", &mut taplo(context)?)?;
    let mut proxy = Command::new(ENVOY.path(&tools));
    hold(PROXY, proxy.args(["--mode", "validate", "--log-level", "warning", "-c", PROXY]))?;
    let mut unchecked = Vec::new();
    let promtool = || Command::new("promtool");
    hold(ALERTS, promtool().args(["check", "rules", ALERTS]))?;
    hold(ALERTS_TEST, promtool().args(["test", "rules", ALERTS_TEST]))?;
    match service(&root)? {
        None => unchecked.push(format!("{SERVICE} was not checked: there is no systemd-analyze")),
        Some(errors) if errors.is_empty() => {}
        Some(errors) => {
            println!("{errors}");
            failed.push(SERVICE.to_owned());
        }
    }
    let remark = unchecked.join("; ");
    Ok(if failed.is_empty() { Outcome::Passed(remark) } else { Outcome::from_failures(&failed) })
}

/// Checks the configurations by the schema that `tidegate schema` prints.
fn taplo(context: &Context) -> Result<Command> {
    if !succeeds(&mut cargo(context, BUILD))? {
        bail!("the server does not build");
    }
    let target = context.metadata.target_directory.as_std_path();
    let program = target.join("debug/tidegate").with_extension(std::env::consts::EXE_EXTENSION);
    let printed = Command::new(program).arg("schema").output().context("tidegate schema")?;
    let schema = target.join("tidegate.schema.json");
    fs::write(&schema, printed.stdout).context("the schema cannot be written")?;
    let mut taplo = LINTERS.program(&context.tools(), "taplo");
    taplo.args(["check", "--schema", &format!("file://{}", schema.display())]).args(CONFIGURATIONS);
    Ok(taplo)
}

/// The complaints of systemd about the service, but that the program is not installed here; nothing where there is no systemd.
fn service(root: &Path) -> Result<Option<String>> {
    let analyze = || Command::new("systemd-analyze");
    if !answers(analyze().arg("--version")) {
        return Ok(None);
    }
    let checked =
        analyze().args(["verify", "--man=no", SERVICE, SOCKET]).current_dir(root).output();
    let said = checked.context("systemd-analyze cannot be run")?.stderr;
    let said = String::from_utf8_lossy(&said);
    let errors = said.lines().filter(|line| !line.contains("/usr/bin/tidegate is not executable"));
    Ok(Some(errors.collect::<Vec<_>>().join("\n")))
}
