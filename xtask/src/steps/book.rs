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

/// Lines of code fit the width, tables too, in which only long names break; characters have their Chinese form;
/// links can be read on dark pages.
const STYLE: &str = ":root { --content-max-width: 900px; }\n\
                     html { font-family: \"Open Sans\", \"PingFang SC\", \"Microsoft YaHei\", \"Noto Sans CJK SC\", sans-serif; }\n\
                     .ayu, .coal, .navy { --links: #6cb0f5; }\n\
                     .content pre > code { font-size: 1.28rem; }\n\
                     .table-wrapper { margin: 1em 0; }\n\
                     .content th, .content td { text-align: start; }\n\
                     .content td:not(:first-child) code { overflow-wrap: anywhere; }\n\
                     .content td:not(:first-child):has(code) { min-width: 9em; }\n";

/// Files that pages link to, next to pages.
const LINKED: [&str; 8] = [
    "docs/img",
    "docs/envoy",
    "packaging",
    "crates/tidegate-server/Cargo.toml",
    "examples",
    "crates/tidegate-lab/data",
    "LICENSE-APACHE",
    "LICENSE-MIT",
];

/// Builds the site in `target/book/html`. The pages keep their paths below the root, so that their links hold; each is
/// there as text as well.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    let tool = MDBOOK.path(context)?;
    let book = context.metadata.target_directory.as_std_path().join("book");
    if book.exists() {
        fs::remove_dir_all(&book).with_context(|| format!("removing {}", book.display()))?;
    }
    let source = book.join("src");
    for page in tree::read(context.root())?.iter().filter(|file| file.is("md")) {
        write(&source.join(&page.path), &for_site(&page.text))?;
        write(&source.join(page.path.with_extension("txt")), &page.text)?;
        if page.path == Path::new("docs/SUMMARY.md") {
            write(&source.join("SUMMARY.md"), &contents(&page.text))?;
        }
    }
    for linked in LINKED {
        copy(&context.root().join(linked), &source.join(linked))?;
    }
    write(&book.join("book.toml"), SETTINGS)?;
    write(&book.join("book.css"), STYLE)?;
    let built = run_as_step(Command::new(tool).arg("build").arg(&book))?;
    let Outcome::Passed(_) = built else { return Ok(built) };
    let mut dead = Vec::new();
    dead_links(&book.join("html"), &mut dead)?;
    dead.iter().for_each(|link| println!("{link}"));
    Ok(if dead.is_empty() { built } else { Outcome::Failed(format!("dead links: {}", dead.len())) })
}

/// The links of the pages in a folder that lead to no file of the site.
fn dead_links(folder: &Path, dead: &mut Vec<String>) -> Result<()> {
    let reading = || format!("reading {}", folder.display());
    for entry in fs::read_dir(folder).with_context(reading)? {
        let path = entry.with_context(reading)?.path();
        if path.is_dir() {
            dead_links(&path, dead)?;
        } else if path.extension().is_some_and(|own| own == "html") && !path.ends_with("404.html") {
            let page = fs::read_to_string(&path).with_context(reading)?;
            let is_dead = |target: &&str| !folder.join(target).exists();
            let found = targets(&page).into_iter().filter(is_dead);
            dead.extend(found.map(|target| format!("{}: {target}", path.display())));
        }
    }
    Ok(())
}

/// The files of the site that a page links to or shows, without anchors.
fn targets(page: &str) -> Vec<&str> {
    let starts = ["href=\"", "src=\""].into_iter().flat_map(|start| page.split(start).skip(1));
    let links = starts.filter_map(|rest| rest.split('"').next());
    let files = links.filter_map(|link| link.split('#').next());
    files
        .filter(|file| !file.is_empty() && !file.contains(':') && !file.starts_with("//"))
        .collect()
}

/// The contents as seen from the root.
fn contents(text: &str) -> String {
    text.replace("](", "](docs/").replace("](docs/../", "](")
}

/// A page with links as the site has them: mdBook makes `index.html` of a README, and a list of its own of the contents.
/// Pages of the laboratory are not in the contents, so links to them lead to their text.
fn for_site(text: &str) -> String {
    let links = [
        ("bench/README.md", "bench/README.txt"),
        ("results/faults.md", "results/faults.txt"),
        ("results/measurements.md", "results/measurements.txt"),
        ("results/performance.md", "results/performance.txt"),
        ("results/promises.md", "results/promises.txt"),
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
    if from.extension().is_some_and(|own| own == "md") {
        return Ok(()); // a page, which is there already
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
    fn targets_are_files_of_the_site() {
        let page = "<a href=\"../a.html#b\"> <img src=\"i.svg\"> <a href=\"#b\"> <a href=\"https://c.d/\">";
        assert_eq!(targets(page), ["../a.html", "i.svg"]);
    }

    #[test]
    fn links_to_readmes_lead_to_the_pages_made_of_them() {
        let text = "[a](README.md#b) [b/README.md](../packaging/README.md) [e](../bench/README.md#f) [c](docs/SUMMARY.md) [d](../README.zh-CN.md)";
        let expected = "[a](index.md#b) [b/README.md](../packaging/index.md) [e](../bench/README.txt#f) [c](toc.html) [d](../README.zh-CN.md)";
        assert_eq!(for_site(text), expected);
    }
}
