//! The step of the book: mdBook makes a site of the pages that `docs/SUMMARY.md` lists.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::installed::Tool;
use crate::context::Context;
use crate::process::run_as_step;
use crate::step::Outcome;
use crate::tree;

const MDBOOK: Tool = Tool {
    name: "mdbook",
    version: "0.5.4",
    arguments: &["--no-default-features", "--features", "search"],
};

const SETTINGS: &str = "[book]\ntitle = \"Tidegate\"\nsrc = \"src\"\n\n[build]\nbuild-dir = \"html\"\n\
                        create-missing = false\n\n[output.html]\nadditional-css = [\"book.css\"]\n";

/// Lines of code fit the width, tables too, and characters have their Chinese form.
const STYLE: &str = ":root { --content-max-width: 900px; }\n\
                     html { font-family: \"Open Sans\", \"PingFang SC\", \"Microsoft YaHei\", \"Noto Sans CJK SC\", sans-serif; }\n\
                     .table-wrapper { margin: 1em 0; }\n\
                     .content th, .content td { text-align: start; }\n\
                     .content td:not(:first-child) code { overflow-wrap: anywhere; }\n";

/// Files that pages link to, beside pages.
const LINKED: [&str; 9] = [
    "docs/img",
    "docs/envoy",
    "examples",
    "crates/tidegate-lab/data",
    "bench/src/server/rules.toml",
    "bench/src/server/nginx.conf",
    "bench/src/overload/rules.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];

/// Builds the site in `target/book/html`. The pages keep their paths below the root, so that their links hold.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    let tool = MDBOOK.path(context)?;
    let book = context.metadata.target_directory.as_std_path().join("book");
    if book.exists() {
        fs::remove_dir_all(&book).with_context(|| format!("removing {}", book.display()))?;
    }
    let source = book.join("src");
    for page in tree::read(context.root())?.iter().filter(|file| file.is("md")) {
        write(&source.join(&page.path), &for_site(&page.text))?;
        if page.path == Path::new("docs/SUMMARY.md") {
            write(&source.join("SUMMARY.md"), &contents(&page.text))?;
        }
    }
    for linked in LINKED {
        copy(&context.root().join(linked), &source.join(linked))?;
    }
    write(&book.join("book.toml"), SETTINGS)?;
    write(&book.join("book.css"), STYLE)?;
    run_as_step(Command::new(tool).arg("build").arg(book))
}

/// The contents as seen from the root.
fn contents(text: &str) -> String {
    text.replace("](", "](docs/").replace("](docs/../", "](")
}

/// A page with links as the site has them: mdBook makes `index.html` of a README, and a list of its own of the contents.
fn for_site(text: &str) -> String {
    let links = [
        ("(README.md", "(index.md"),
        ("/README.md)", "/index.md)"),
        ("/README.md#", "/index.md#"),
        ("(docs/SUMMARY.md", "(toc.html"),
    ];
    links.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let writing = || format!("writing {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).with_context(writing)?;
    fs::write(path, text).with_context(writing)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copying = || format!("copying {}", from.display());
    if from.is_dir() {
        for entry in fs::read_dir(from).with_context(copying)? {
            let name = entry.with_context(copying)?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    fs::create_dir_all(to.parent().unwrap_or(to)).with_context(copying)?;
    fs::copy(from, to).with_context(copying).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_are_seen_from_the_root() {
        let text = "[T](../README.md)\n- [A](a/b.md)\n";
        assert_eq!(contents(text), "[T](README.md)\n- [A](docs/a/b.md)\n");
    }

    #[test]
    fn links_to_readmes_lead_to_the_pages_made_of_them() {
        let text = "[a](README.md#b) [b/README.md](../bench/README.md) [c](docs/SUMMARY.md) [d](../README.zh-CN.md)";
        let expected = "[a](index.md#b) [b/README.md](../bench/index.md) [c](toc.html) [d](../README.zh-CN.md)";
        assert_eq!(for_site(text), expected);
    }
}
