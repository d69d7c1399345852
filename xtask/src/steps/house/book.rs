//! The rule of the book: every page is in its contents, and the Rust of every page is compiled.

use std::path::Path;

use super::{Findings, House, links, markdown, translations};
use crate::tree::SourceFile;

const CONTENTS: &str = "docs/SUMMARY.md";
/// The file that includes pages as documentation tests.
const TESTED: &str = "crates/tidegate/src/lib.rs";

/// Looks at every page of `docs`, and at the READMEs at the root.
pub(super) fn check(house: &House<'_>) -> Findings {
    judge(&house.files).into()
}

fn judge(files: &[SourceFile]) -> Vec<String> {
    let text = |path: &str| {
        let file = files.iter().find(|file| file.path == Path::new(path));
        file.map_or("", |file| file.text.as_str())
    };
    let (contents, tested) = (text(CONTENTS), text(TESTED));
    let prose = markdown::read(contents).prose;
    let listed: Vec<_> = prose.iter().flat_map(|(_, line)| markdown::targets(line)).collect();
    let is_listed = |page: &Path| {
        listed.iter().any(|path| links::resolve(Path::new(CONTENTS), path).as_deref() == Some(page))
    };
    let mut complaints = Vec::new();
    for page in files.iter().filter(|file| is_page(file)) {
        let path = page.path.display();
        if page.path != Path::new(CONTENTS)
            && page.path.starts_with("docs")
            && !is_listed(&page.path)
        {
            complaints.push(format!("{path} is not in {CONTENTS}: add a line"));
        }
        if !is_translation(page) && has_rust(&page.text) && !tested.contains(&format!("\"{path}\""))
        {
            complaints.push(format!("{path} has code in Rust: add it to `pages` in {TESTED}"));
        }
    }
    complaints
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
    fn a_page_that_is_listed_and_compiled_passes() {
        let contents = file(CONTENTS, "- [A](a/b.md)\n- [C](c.md)\n");
        let pages = [file("docs/a/b.md", RUST), file("docs/c.md", "```sh\nls\n```\n")];
        let tested = file(TESTED, "b \"docs/a/b.md\"");
        let [one, other] = pages;
        let chinese = file(translations::CHINESE, RUST);
        assert_eq!(judge(&[contents, one, other, chinese, tested]), [""; 0]);
    }

    #[test]
    fn a_page_outside_the_contents_and_code_that_nobody_compiles_are_found() {
        let found = judge(&[
            file("docs/a.md", RUST),
            file("README.md", RUST),
            file("bench/README.md", RUST),
        ]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("docs/a.md is not in docs/SUMMARY.md"), "{found:?}");
        assert!(found[1].starts_with("docs/a.md has code in Rust"), "{found:?}");
        assert!(found[2].starts_with("README.md has code in Rust"), "{found:?}");
    }
}
