//! The data of every step: the folder of the workspace, its members, and the count of tests.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cargo_metadata::{Metadata, MetadataCommand};

use crate::tally::Tally;

/// Created once, before the first step.
pub(crate) struct Context {
    /// The members of the workspace, as reported by cargo, without their dependencies.
    pub(crate) metadata: Metadata,
    /// The results of the tests of this run so far; `None` until a step has run tests.
    pub(crate) tally: Option<Tally>,
}

impl Context {
    /// Asks cargo about the workspace.
    ///
    /// # Errors
    ///
    /// Returns an error if cargo cannot be run or a manifest cannot be read.
    pub(crate) fn load() -> Result<Self> {
        let metadata = MetadataCommand::new()
            .manifest_path(Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml"))
            .no_deps()
            .exec()
            .context("cargo metadata could not read the workspace; mend its Cargo.toml first")?;
        Ok(Self { metadata, tally: None })
    }

    /// The folder of the workspace.
    pub(crate) fn root(&self) -> &Path {
        self.metadata.workspace_root.as_std_path()
    }

    /// The folder for tools that are not part of a toolchain; it is as temporary as a build.
    pub(crate) fn tools(&self) -> PathBuf {
        self.metadata.target_directory.as_std_path().join("tools")
    }
}
