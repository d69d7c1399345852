//! The rule of links: a link to a file of this project leads to an existing file, and to a heading in it.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{Findings, House, markdown};

/// Follows every local link of every document; other addresses are not visited.
pub(super) fn check(house: &House<'_>) -> Findings {
    let root = house.metadata.workspace_root.as_std_path();
    let documents = house.files.iter().filter(|file| file.is("md"));
    let complaints = documents.flat_map(|file| judge(root, &file.path, &file.text));
    complaints.collect::<Vec<_>>().into()
}

fn judge(root: &Path, document: &Path, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (line, prose) in markdown::read(text).prose {
        for target in markdown::targets(prose) {
            if let Some(why) = fault(root, document, text, &target) {
                complaints.push(format!("{}:{line}: `{target}` {why}", document.display()));
            }
        }
    }
    complaints
}

fn fault(root: &Path, document: &Path, text: &str, target: &str) -> Option<&'static str> {
    if is_elsewhere(target) {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    if path.is_empty() {
        return (!has_anchor(text, anchor)).then_some(NO_HEADING);
    }
    let path = path.split('?').next().unwrap_or_default();
    let Some(path) = resolve(document, path) else {
        return Some("leads out of the project");
    };
    if path.starts_with("docs/img") && document.to_string_lossy().contains("zh") {
        return Some("has English words: show the picture in docs/zh/img");
    }
    let path = root.join(path);
    if !path.exists() {
        return Some("leads nowhere: mend the path or add the file");
    }
    let is_page = path.extension().is_some_and(|own| own == "md");
    let leads = !is_page || fs::read_to_string(path).is_ok_and(|text| has_anchor(&text, anchor));
    (!leads).then_some(NO_HEADING)
}

const NO_HEADING: &str = "names no heading of the page: mend the part after `#`";

fn has_anchor(text: &str, anchor: &str) -> bool {
    anchor.is_empty() || markdown::anchors(&markdown::read(text)).iter().any(|one| one == anchor)
}

/// Returns whether the target is no file of this project: an address, or a name that rustdoc resolves.
fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.contains("::") || target.starts_with("mailto:")
}

/// The path from the root, with dots resolved; `None` if it climbs above the root.
pub(super) fn resolve(document: &Path, path: &str) -> Option<PathBuf> {
    let mut resolved = match path.strip_prefix('/') {
        Some(_) => PathBuf::new(),
        None => document.parent().unwrap_or(document).to_owned(),
    };
    for component in Path::new(path).components() {
        match component {
            Component::Normal(name) => resolved.push(name),
            Component::ParentDir if !resolved.pop() => return None,
            _ => {}
        }
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs")).unwrap();
        fs::write(root.path().join("README.md"), "# A part\n# A part\n").unwrap();
        fs::write(root.path().join("docs/plot.svg"), "").unwrap();
        judge(root.path(), Path::new("docs/guide.md"), text)
    }

    /// Each text, and a part of the complaint about each of its links.
    #[test]
    fn a_link_that_leads_nowhere_or_out_is_found_with_its_line() {
        for (text, expected) in [
            ("[a](https://example.org/x.md) [b](mailto:a@example.org) [c](crate::Limit)", &[][..]),
            ("`[a](gone.md)`\n```md\n[a](gone.md)\n```\n", &[]),
            (
                "# Guide\n\n[a](gone.md) and [b](../docs/gone/x.png)\n",
                &["docs/guide.md:3: `gone.md` leads nowhere", "`../docs/gone/x.png` leads nowhere"],
            ),
            (
                "# Here\n[a](../README.md#part) [b](#there) [c](#here)",
                &["`../README.md#part` names no heading", "`#there` names no heading"],
            ),
            ("[a](../../secret.md)", &["leads out of the project"]),
        ] {
            let found = complaints(text);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            let mut parts = found.iter().zip(expected);
            assert!(parts.all(|(found, part)| found.contains(part)), "{found:?}");
        }
    }

    #[test]
    fn a_chinese_page_shows_no_english_picture() {
        let found = judge(Path::new(""), Path::new("docs/zh/a.md"), "![a](../img/b.svg)");
        assert!(found[0].contains("has English words"), "{found:?}");
    }
}
