//! The step of the books: mdBook makes one site of two books, English and Chinese, with the pages that their contents
//! list.

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

/// One of the two books, which differ in their language and their contents.
struct Edition {
    language: &'static str,
    /// The name of the language in itself.
    name: &'static str,
    /// The folder of its contents, `SUMMARY.md`, and of its cover, `README.md`.
    folder: &'static str,
    /// Pairs of lines: mdBook's own words, and the words of this book for them.
    words: &'static str,
}

/// The English book comes last: a file that both have, such as the page of errors, is English.
const EDITIONS: [Edition; 2] = [CHINESE, ENGLISH];

const ENGLISH: Edition = Edition { language: "en", name: "English", folder: "docs", words: "" };

const CHINESE: Edition = Edition {
    language: "zh-CN",
    name: "中文",
    folder: "docs/zh",
    words: include_str!("../../book/zh-CN.txt"),
};

/// mdBook's bar at the top of a page, at whose end the other book is linked.
const BAR: &str = "<div class=\"right-buttons\">";

/// Files that pages link to, next to pages.
const LINKED: &str = "docs/img docs/zh/img docs/envoy packaging crates/tidegate-server/Cargo.toml examples \
                      crates/tidegate-lab/data LICENSE-APACHE LICENSE-MIT";

/// Builds the site in `target/book/html`. The pages of both books keep their paths below the root, so that all links
/// hold; each is there as text as well.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    let tool = MDBOOK.path(context)?;
    let site = context.metadata.target_directory.as_std_path().join("book");
    if site.exists() {
        fs::remove_dir_all(&site).with_context(|| format!("removing {}", site.display()))?;
    }
    let source = site.join("src");
    for page in tree::read(context.root())?.iter().filter(|file| file.is("md")) {
        write(&source.join(&page.path), &for_site(&page.text))?;
        write(&source.join(page.path.with_extension("txt")), &page.text)?;
    }
    for linked in LINKED.split(' ') {
        copy(&context.root().join(linked), &source.join(linked))?;
    }
    let ours = context.root().join("xtask/book");
    copy(&ours.join("book.css"), &site.join("book.css"))?;
    copy(&ours.join("theme.js"), &site.join("theme.js"))?;
    copy(&ours.join("favicon.svg"), &site.join("theme/favicon.svg"))?;
    let search = read(&ours.join("search.js"))?;
    let html = site.join("html");
    for book in EDITIONS {
        let built = site.join(book.language);
        let built_as_step = book.build(&tool, &site, &built)?;
        let Outcome::Passed(_) = built_as_step else { return Ok(built_as_step) };
        book.finish(&built, &site, &search)?;
        copy(&built, &html)?;
    }
    // The first page of the site opens the book in the reader's language.
    copy(&ours.join("index.html"), &html.join("index.html"))?;
    let dead = dead_links(&html)?;
    dead.iter().for_each(|link| println!("{link}"));
    Ok(if dead.is_empty() {
        Outcome::passed()
    } else {
        Outcome::Failed(format!("dead links: {}", dead.len()))
    })
}

impl Edition {
    fn build(&self, tool: &Path, site: &Path, built: &Path) -> Result<Outcome> {
        let Self { language, folder, .. } = self;
        let settings = include_str!("../../book/settings.toml");
        let named =
            format!("{settings}\n[book]\ntitle = \"Tidegate\"\nlanguage = \"{language}\"\n");
        write(&site.join("book.toml"), &named)?;
        let listed = read(&site.join("src").join(folder).join("SUMMARY.md"))?;
        write(&site.join("src/SUMMARY.md"), &contents(&listed, folder))?;
        let mut build = Command::new(tool);
        run_as_step(build.arg("build").arg(site).arg("--dest-dir").arg(built))
    }

    /// Gives the pages the words of their language and the link to the other book, and the index our search.
    fn finish(&self, built: &Path, site: &Path, search: &str) -> Result<()> {
        let source = site.join("src");
        for file in tree::files(built)? {
            let path = file.strip_prefix(built).unwrap_or(&file);
            let name = path.to_string_lossy();
            if name.ends_with(".html") {
                let same = translated(&name)
                    .filter(|page| source.join(page).with_extension("md").exists());
                write(&file, &self.page(&read(&file)?, &name, same))?;
            } else if name.starts_with("searchindex") {
                write(&file, &with_search(&read(&file)?, search))?;
            }
        }
        let list = format!("toc-{}.html", self.language);
        fs::rename(built.join("toc.html"), built.join(list)).context("renaming toc.html")
    }

    /// A page of this book, as a reader gets it; `same` is the same page in the other book.
    fn page(&self, text: &str, path: &str, same: Option<String>) -> String {
        let other = if self.language == ENGLISH.language { CHINESE } else { ENGLISH };
        let target = same.unwrap_or_else(|| format!("{}/README.html", other.folder));
        let root = "../".repeat(path.matches('/').count());
        let Self { language, name, .. } = other;
        let attributes = format!("class=\"language\" lang=\"{language}\" hreflang=\"{language}\"");
        let link = format!("{BAR}<a {attributes} href=\"{root}{target}\">{name}</a>");
        let list = format!("toc-{}.html\"", self.language);
        let text = text.replace(BAR, &link).replace("toc.html\"", &list);
        let words = self.words.split("\n\n").filter_map(|pair| pair.trim_end().split_once('\n'));
        words.fold(text, |text, (from, to)| text.replace(from, to))
    }
}

/// The path of the same page in the other book, whether or not it is there.
fn translated(page: &str) -> Option<String> {
    match page {
        "README.html" => Some("README.zh-CN.html".to_owned()),
        "README.zh-CN.html" => Some("README.html".to_owned()),
        _ => {
            let below = page.strip_prefix("docs/")?;
            let chinese = format!("docs/zh/{below}");
            Some(below.strip_prefix("zh/").map_or(chinese, |below| format!("docs/{below}")))
        }
    }
}

/// The index with our search at its end, and without mdBook's table of words, which that search does not need.
fn with_search(index: &str, search: &str) -> String {
    let texts = index.split_once("\"index\":{\"body\":").and_then(|(start, rest)| {
        let (_, texts) = rest.split_once("\"documentStore\":")?;
        Some(format!("{start}\"documentStore\":{texts}"))
    });
    texts.unwrap_or_else(|| index.to_owned()) + search
}

/// The links of the pages in a folder that lead to no file of the site, or to no heading of a page.
fn dead_links(html: &Path) -> Result<Vec<String>> {
    let mut dead = Vec::new();
    for page in
        tree::files(html)?.iter().filter(|file| file.extension().is_some_and(|own| own == "html"))
    {
        if page.ends_with("404.html") {
            continue; // its links begin at the root of a host
        }
        let text = read(page)?;
        for target in targets(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = if path.is_empty() { page.clone() } else { page.with_file_name(path) };
            let is_page = file.extension().is_some_and(|own| own == "html");
            let id = format!("id=\"{anchor}\"");
            let leads = if anchor.is_empty() || !is_page {
                file.exists()
            } else {
                read(&file).is_ok_and(|text| text.contains(&id))
            };
            if !leads {
                dead.push(format!("{}: {target}", page.display()));
            }
        }
    }
    Ok(dead)
}

/// The files and headings of the site that a page links to or shows.
fn targets(page: &str) -> Vec<&str> {
    let starts = ["href=\"", "src=\""].into_iter().flat_map(|start| page.split(start).skip(1));
    let links = starts.filter_map(|rest| rest.split('"').next());
    let is_ours = |link: &&str| !link.is_empty() && !link.contains(':') && !link.starts_with("//");
    links.filter(is_ours).collect()
}

/// The contents of a book as seen from the root.
fn contents(text: &str, folder: &str) -> String {
    let below = text.replace("](", &format!("]({folder}/"));
    below
        .replace("(docs/zh/../../", "(")
        .replace("(docs/zh/../", "(docs/")
        .replace("(docs/../", "(")
}

/// A page with links as the site has them: mdBook makes a list of its own of the contents, and pages of the laboratory are
/// not in the contents, so links to them lead to their text.
fn for_site(text: &str) -> String {
    let links = [
        ("bench/README.md", "bench/README.txt"),
        ("results/faults.md", "results/faults.txt"),
        ("results/measurements.md", "results/measurements.txt"),
        ("results/performance.md", "results/performance.txt"),
        ("results/promises.md", "results/promises.txt"),
        ("(docs/SUMMARY.md", "(toc-en.html"),
        ("(docs/zh/SUMMARY.md", "(toc-zh-CN.html"),
    ];
    links.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    let writing = || format!("writing {}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).with_context(writing)?;
    fs::write(path, text).with_context(writing)
}

/// Copies a file, or what is below a folder except pages, which are there already.
fn copy(from: &Path, to: &Path) -> Result<()> {
    for file in
        tree::files(from)?.iter().filter(|file| file.extension().is_none_or(|own| own != "md"))
    {
        let copying = || format!("copying {}", file.display());
        let below = file.strip_prefix(from).unwrap_or(file);
        let copy = if file == from { to.to_owned() } else { to.join(below) };
        fs::create_dir_all(copy.parent().unwrap_or(to)).with_context(copying)?;
        fs::copy(file, copy).with_context(copying)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_are_seen_from_the_root() {
        let text = "[T](../README.md)\n- [A](a/b.md)\n";
        assert_eq!(contents(text, "docs"), "[T](README.md)\n- [A](docs/a/b.md)\n");
        let text = "[T](../../README.zh-CN.md)\n- [A](a.md)\n- [B](../b.md)\n";
        let expected = "[T](README.zh-CN.md)\n- [A](docs/zh/a.md)\n- [B](docs/b.md)\n";
        assert_eq!(contents(text, "docs/zh"), expected);
    }

    #[test]
    fn a_link_to_no_file_and_a_link_to_no_heading_are_dead() {
        let site = tempfile::tempdir().unwrap();
        let page = "<h1 id=\"a\"> <a href=\"#a\"> <a href=\"c/d.html#e\"> <a href=\"c/f.html\"> <a href=\"#g\"> \
                    <img src=\"c/i.svg\"> <a href=\"https://c.d/\">";
        write(&site.path().join("b.html"), page).unwrap();
        write(&site.path().join("c/d.html"), "<h2 id=\"e\">").unwrap();
        let dead = dead_links(site.path()).unwrap();
        let targets: Vec<_> = dead.iter().filter_map(|dead| dead.rsplit_once("b.html: ")).collect();
        assert!(
            targets.iter().map(|(_, target)| *target).eq(["c/f.html", "#g", "c/i.svg"]),
            "{dead:?}"
        );
    }

    #[test]
    fn links_to_contents_and_to_the_laboratory_lead_to_files_of_the_site() {
        let text = "[a](README.md#b) [e](../bench/README.md#f) [c](docs/SUMMARY.md) [d](docs/zh/SUMMARY.md)";
        let expected =
            "[a](README.md#b) [e](../bench/README.txt#f) [c](toc-en.html) [d](toc-zh-CN.html)";
        assert_eq!(for_site(text), expected);
    }

    #[test]
    fn a_page_links_to_the_same_page_of_the_other_book_or_to_its_cover() {
        let cases = [
            (ENGLISH, "docs/a/c.html", Some("docs/zh/a/c.html"), "../../docs/zh/a/c.html"),
            (ENGLISH, "DESIGN.html", None, "docs/zh/README.html"),
            (ENGLISH, "README.html", Some("README.zh-CN.html"), "README.zh-CN.html"),
            (CHINESE, "docs/zh/c.html", Some("docs/c.html"), "../../docs/c.html"),
            (CHINESE, "README.zh-CN.html", Some("README.html"), "README.html"),
        ];
        for (book, path, same, target) in cases {
            assert_eq!(translated(path).as_deref(), same);
            let page = book.page(BAR, path, translated(path));
            assert!(page.contains(&format!(" href=\"{target}\">")), "{path}: {page}");
        }
    }

    #[test]
    fn a_chinese_page_has_chinese_words() {
        let page = "<button>Auto</button> <h2>Keyboard shortcuts</h2>";
        let written = CHINESE.page(page, "docs/zh/c.html", None);
        assert_eq!(written, "<button>自动</button> <h2>快捷键</h2>");
        assert_eq!(ENGLISH.page(page, "docs/c.html", None), page);
    }

    #[test]
    fn the_index_keeps_its_texts() {
        let index = r#"{"index":{"version":"1","index":{"body":{"root":{}}},"documentStore":{"docs":{}}}};"#;
        let texts = r#"{"index":{"version":"1","documentStore":{"docs":{}}}};"#;
        assert_eq!(with_search(index, "f();"), format!("{texts}f();"));
    }
}
