//! The rule of links: a link to a file of this project leads to an existing file.

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
            if let Some(why) = fault(root, document, &target) {
                complaints.push(format!("{}:{line}: `{target}` {why}", document.display()));
            }
        }
    }
    complaints
}

fn fault(root: &Path, document: &Path, target: &str) -> Option<&'static str> {
    let path = local(target)?;
    let Some(path) = resolve(document, path) else {
        return Some("leads out of the project");
    };
    (!root.join(path).exists()).then_some("leads nowhere: mend the path or add the file")
}

/// The path of a link into this project; `None` for addresses, anchors in the same document and
/// names that rustdoc resolves.
fn local(target: &str) -> Option<&str> {
    let elsewhere =
        target.contains("://") || target.contains("::") || target.starts_with("mailto:");
    let path = target.split(['#', '?']).next().unwrap_or_default();
    (!elsewhere && !path.is_empty()).then_some(path)
}

/// The path from the root, with dots resolved; `None` if it climbs above the root.
fn resolve(document: &Path, path: &str) -> Option<PathBuf> {
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
    use std::fs;

    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs")).unwrap();
        fs::write(root.path().join("README.md"), "").unwrap();
        fs::write(root.path().join("docs/plot.svg"), "").unwrap();
        judge(root.path(), Path::new("docs/guide.md"), text)
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "[a](../README.md#part) ![b](plot.svg) [c](/docs/plot.svg) [d](.) [e](#here)";
        assert_eq!(complaints(text), [""; 0]);
    }

    #[test]
    fn addresses_and_names_for_rustdoc_are_not_followed() {
        let text = "[a](https://example.org/x.md) [b](mailto:a@example.org) [c](crate::Limit)";
        assert_eq!(complaints(text), [""; 0]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found_with_its_line() {
        let found = complaints("# Guide\n\n[a](gone.md) and [b](../docs/gone/x.png)\n");
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("docs/guide.md:3: `gone.md` leads nowhere"), "{found:?}");
    }

    #[test]
    fn a_link_may_not_leave_the_project() {
        let found = complaints("[a](../../secret.md)");
        assert!(found[0].ends_with("leads out of the project"), "{found:?}");
    }

    #[test]
    fn links_in_code_are_not_links() {
        assert!(complaints("`[a](gone.md)`\n```md\n[a](gone.md)\n```\n").is_empty());
    }
}
