//! The rule of the books: every page is in the contents of its book, and the Rust of every page is compiled.

use std::path::{Path, PathBuf};

use super::{Findings, House, links, markdown, translations};
use crate::tree::{self, SourceFile};

const CONTENTS: &str = "docs/SUMMARY.md";
const CHINESE_CONTENTS: &str = "docs/zh/SUMMARY.md";
/// The file that includes pages as documentation tests.
const TESTED: &str = "crates/tidegate/src/lib.rs";

/// Looks at every page of `docs`, and at the READMEs at the root.
pub(super) fn check(house: &House<'_>) -> Findings {
    judge(&house.files).into()
}

fn judge(files: &[SourceFile]) -> Vec<String> {
    let tested = tree::text_of(files, TESTED);
    let english = listed(CONTENTS, tree::text_of(files, CONTENTS));
    let chinese = listed(CHINESE_CONTENTS, tree::text_of(files, CHINESE_CONTENTS));
    let mut complaints = Vec::new();
    for page in files.iter().filter(|file| is_page(file)) {
        let path = page.path.display();
        let is_chinese = page.path.starts_with(translations::TRANSLATED);
        let (contents, pages) =
            if is_chinese { (CHINESE_CONTENTS, &chinese) } else { (CONTENTS, &english) };
        let is_contents = page.path.ends_with("SUMMARY.md");
        if page.path.starts_with("docs") && !is_contents && !pages.contains(&page.path) {
            complaints.push(format!("{path} is not in {contents}: add a line"));
        }
        if !is_translation(page) && has_rust(&page.text) && !tested.contains(&format!("\"{path}\""))
        {
            complaints.push(format!("{path} has code in Rust: add it to `pages` in {TESTED}"));
        }
    }
    complaints
}

/// The pages in the contents of a book.
fn listed(contents: &str, text: &str) -> Vec<PathBuf> {
    let prose = markdown::read(text).prose;
    let targets = prose.iter().flat_map(|(_, line)| markdown::targets(line));
    targets.filter_map(|target| links::resolve(Path::new(contents), &target)).collect()
}

fn is_page(file: &SourceFile) -> bool {
    let is_readme = file.path.to_string_lossy().starts_with("README");
    file.is("md") && (is_readme || file.path.starts_with("docs"))
}

/// Returns whether the page has the code of another page, which is compiled there.
fn is_translation(file: &SourceFile) -> bool {
    file.path == Path::new(translations::CHINESE) || file.path.starts_with(translations::TRANSLATED)
}

fn has_rust(text: &str) -> bool {
    let blocks = markdown::read(text).blocks;
    blocks.iter().any(|block| block.language.split(',').next() == Some("rust"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    const RUST: &str = "```rust,no_run\nfn main() {}\n```\n";

    #[test]
    fn a_page_outside_the_contents_and_code_that_nobody_compiles_are_found() {
        let found = judge(&[
            file("docs/a.md", RUST),
            file("README.md", RUST),
            file("bench/README.md", RUST),
            file("docs/zh/a.md", ""),
        ]);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].starts_with("docs/a.md is not in docs/SUMMARY.md"), "{found:?}");
        assert!(found[1].starts_with("docs/a.md has code in Rust"), "{found:?}");
        assert!(found[2].starts_with("README.md has code in Rust"), "{found:?}");
        assert!(found[3].starts_with("docs/zh/a.md is not in docs/zh/SUMMARY.md"), "{found:?}");
    }
}
