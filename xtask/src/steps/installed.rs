//! Tools from crates.io, each of a pinned version, installed below the target directory when they are first used.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::context::Context;
use crate::process::{answers, cargo, succeeds};

/// A program of a crate; the version is pinned, so that a new release cannot change the results.
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// Further arguments of `cargo install`, such as features.
    pub(super) arguments: &'static [&'static str],
}

impl Tool {
    /// The path of the program, which is installed if it is missing.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be installed.
    pub(super) fn path(&self, context: &Context) -> Result<PathBuf> {
        let tool = self.binary(&context.tools());
        if answers(Command::new(&tool).arg("--version")) {
            return Ok(tool);
        }
        let Self { name, version, arguments } = self;
        let words = format!("install --locked {name} --version {version}");
        let mut install = cargo(context, &words);
        install.args(*arguments).arg("--root").arg(self.folder(&context.tools()));
        if !succeeds(&mut install)? {
            bail!("{name} {version} could not be installed; is crates.io within reach?");
        }
        Ok(tool)
    }

    /// One folder for each version, so that a new pin is a new installation.
    fn folder(&self, tools: &Path) -> PathBuf {
        tools.join(format!("{}-{}", self.name, self.version))
    }

    fn binary(&self, tools: &Path) -> PathBuf {
        self.folder(tools).join("bin").join(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_a_tool_has_its_own_place() {
        let tool = Tool { name: "cargo-deny", version: "0.20.2", arguments: &[] };
        let path = tool.binary(Path::new("target/tools"));
        assert!(path.starts_with("target/tools/cargo-deny-0.20.2/bin"), "{}", path.display());
    }
}
