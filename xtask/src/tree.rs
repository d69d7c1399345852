//! The files of the workspace that people write, read once for all house checks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

pub(crate) struct SourceFile {
    /// Its path, from the root of the workspace.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl SourceFile {
    /// Returns whether its name has this extension, given without a dot.
    pub(crate) fn is(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|own| own == extension)
    }
}

/// Every Rust, Lua and Markdown file below a folder, in the order of their paths.
///
/// Hidden folders and generated ones (`target`, a fuzzer's `corpus` and `artifacts`) are left out.
///
/// # Errors
///
/// Returns an error if a folder or file cannot be read, or is not UTF-8.
pub(crate) fn read(root: &Path) -> Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    walk(root, root, &mut files)?;
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

/// The text of the file with a path; empty if there is none.
pub(crate) fn text_of<'a>(files: &'a [SourceFile], path: &str) -> &'a str {
    let file = files.iter().find(|file| file.path == Path::new(path));
    file.map_or("", |file| &file.text)
}

/// Every file below a folder, or the file itself.
///
/// # Errors
///
/// Returns an error if a folder cannot be read.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let reading = || format!("reading {}", path.display());
    let mut found = Vec::new();
    for entry in fs::read_dir(path).with_context(reading)? {
        found.extend(files(&entry.with_context(reading)?.path())?);
    }
    Ok(found)
}

fn walk(root: &Path, folder: &Path, files: &mut Vec<SourceFile>) -> Result<()> {
    let reading = || format!("reading {}", folder.display());
    for entry in fs::read_dir(folder).with_context(reading)? {
        let entry = entry.with_context(reading)?;
        let (path, kind) = (entry.path(), entry.file_type().with_context(reading)?);
        if kind.is_dir() && is_ours(&path) {
            walk(root, &path, files)?;
        } else if kind.is_file() && is_written(&path) {
            files.push(load(root, &path)?);
        }
    }
    Ok(())
}

fn load(root: &Path, path: &Path) -> Result<SourceFile> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(SourceFile { path: path.strip_prefix(root).unwrap_or(path).to_owned(), text })
}

fn is_ours(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with('.') && !["target", "corpus", "artifacts"].contains(&&*name)
}

fn is_written(file: &Path) -> bool {
    file.extension().is_some_and(|own| ["rs", "lua", "md"].iter().any(|written| own == *written))
}

/// A file that was not read from disk, for tests of the rules.
#[cfg(test)]
pub(crate) fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.into(), text: text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_files_are_found_and_built_ones_are_not() {
        let root = tempfile::tempdir().unwrap();
        for path in ["b.rs", "a/guide.md", "a/cases.txt", "c.lua", "target/x.rs", ".git/y.md"] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        let found: Vec<_> =
            read(root.path()).unwrap().into_iter().map(|file| (file.path, file.text)).collect();
        let text = || "text".to_owned();
        assert_eq!(
            found,
            [("a/guide.md".into(), text()), ("b.rs".into(), text()), ("c.lua".into(), text())]
        );
    }
}
