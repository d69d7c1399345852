//! A file as the counters read it: its tokens, its syntax, and which lines are tests.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use anyhow::{Context as _, Result, anyhow};
use proc_macro2::TokenStream;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItem, Item};

use super::tokens::{self, Token};
use crate::tree::SourceFile;

/// The suffix of a crate's or tool's name in the name of its tests.
pub(super) const TESTS: &str = "-tests";

pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(super) text: String,
    /// The crate or tool, by its folder; the examples of all crates are one tool.
    pub(super) area: String,
    pub(super) tokens: Vec<Token>,
    /// The lines that hold a token.
    pub(super) code: BTreeSet<usize>,
    /// `None` for Lua, and for code that is only for tests.
    pub(crate) syntax: Option<syn::File>,
    /// True if the file as a whole is a test.
    pub(crate) is_test: bool,
    /// The lines of the items that are only for tests.
    test_items: Vec<RangeInclusive<usize>>,
}

impl Source {
    /// The name under which a line is counted: the name of the crate or tool, or the name of its tests.
    pub(super) fn owner(&self, line: usize) -> String {
        format!("{}{}", self.area, if self.is_tested_on(line) { TESTS } else { "" })
    }

    pub(super) fn is_tested_on(&self, line: usize) -> bool {
        self.is_test || self.test_items.iter().any(|lines| lines.contains(&line))
    }

    /// Returns whether users get the file: not a tool, nor a test.
    pub(super) fn is_product(&self) -> bool {
        is_product(&self.area) && !self.is_test
    }
}

/// Returns whether an area is a crate that users get.
pub(super) fn is_product(area: &str) -> bool {
    area.starts_with("tidegate")
}

/// Reads all Rust and Lua.
///
/// # Errors
/// Returns an error for a file that is not Rust.
pub(crate) fn read(files: &[SourceFile]) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    let mut for_tests = Vec::new();
    for file in files.iter().filter(|file| file.is("rs") || file.is("lua")) {
        sources.push(source(file, &mut for_tests)?);
    }
    for source in &mut sources {
        let module = source.path.with_extension("");
        source.is_test |= for_tests.iter().any(|home| module.starts_with(home));
    }
    Ok(sources)
}

fn source(file: &SourceFile, for_tests: &mut Vec<PathBuf>) -> Result<Source> {
    let path = file.path.clone();
    let mut source = Source {
        area: area(&path),
        is_test: path.parent().is_some_and(|folder| folder.iter().any(|part| part == "tests")),
        path,
        text: file.text.clone(),
        tokens: Vec::new(),
        code: BTreeSet::new(),
        syntax: None,
        test_items: Vec::new(),
    };
    if file.is("lua") {
        source.tokens = tokens::of_lua(&file.text);
    } else {
        let not_rust = format!("{} is not Rust", file.path.display());
        let stream =
            TokenStream::from_str(&file.text).map_err(|error| anyhow!("{not_rust}: {error}"))?;
        tokens::of_rust(stream.clone(), &mut source.tokens);
        if !source.is_test {
            let syntax = syn::parse2::<syn::File>(stream).context(not_rust)?;
            source.is_test = syntax.attrs.iter().any(is_for_tests);
            let mut finder = TestFinder { path: &file.path, items: Vec::new(), modules: for_tests };
            finder.visit_file(&syntax);
            source.test_items = finder.items;
            source.syntax = Some(syntax);
        }
    }
    source.code = source.tokens.iter().flat_map(|token| token.lines.clone()).collect();
    Ok(source)
}

fn area(path: &Path) -> String {
    let names: Vec<_> = path.iter().map(|name| name.to_string_lossy()).collect();
    match names.iter().map(AsRef::as_ref).collect::<Vec<_>>()[..] {
        ["crates", _, "examples", ..] => "examples".to_owned(),
        ["crates", name, ..] | [name, ..] => name.to_owned(),
        [] => String::new(),
    }
}

/// Finds the items of a file that are only for tests.
struct TestFinder<'a> {
    path: &'a Path,
    items: Vec<RangeInclusive<usize>>,
    /// The modules in files of their own, by their paths.
    modules: &'a mut Vec<PathBuf>,
}

impl TestFinder<'_> {
    fn note(&mut self, item: &impl Spanned) {
        self.items.push(item.span().start().line..=item.span().end().line);
    }
}

impl<'ast> Visit<'ast> for TestFinder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes(item).iter().any(is_for_tests) {
            return visit::visit_item(self, item);
        }
        self.note(item);
        if let Item::Mod(module) = item
            && module.content.is_none()
        {
            self.modules.push(home(self.path, &module.ident.to_string()));
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if let ImplItem::Fn(method) = item
            && method.attrs.iter().any(is_for_tests)
        {
            self.note(item);
        }
        visit::visit_impl_item(self, item);
    }
}

/// The path, without `.rs`, of a module that a file declares; also the folder of its own modules.
fn home(path: &Path, module: &str) -> PathBuf {
    let folder = path.parent().unwrap_or(path);
    match path.file_stem().unwrap_or_default().to_str() {
        Some("lib" | "mod" | "main") | None => folder.join(module),
        Some(stem) => folder.join(stem).join(module),
    }
}

/// Returns whether an attribute makes an item for tests only.
pub(crate) fn is_for_tests(attribute: &Attribute) -> bool {
    match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition: String = list.tokens.to_string().split_whitespace().collect();
            condition == "test" || condition.starts_with("all(test,")
        }
        _ => false,
    }
}

/// The attributes of an item; none for a kind of item that a test cannot have.
pub(crate) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The sources of a small tree.
#[cfg(test)]
pub(crate) fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    let files: Vec<_> = files.iter().map(|(path, text)| crate::tree::file(path, text)).collect();
    read(&files).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_of_its_crate_or_tool_and_product_or_not() {
        let files = [
            ("crates/tidegate-core/src/a.rs", ""),
            ("crates/tidegate/src/b.lua", ""),
            ("crates/tidegate/tests/a.rs", ""),
            ("crates/tidegate/examples/a.rs", ""),
            ("crates/testkit/src/a.rs", ""),
            ("bench/src/main.rs", ""),
        ];
        let found = sources(&files);
        let areas: Vec<_> = found.iter().map(|source| source.area.as_str()).collect();
        assert_eq!(
            areas,
            ["tidegate-core", "tidegate", "tidegate", "examples", "testkit", "bench"]
        );
        let is_product: Vec<_> = found.iter().map(Source::is_product).collect();
        assert_eq!(is_product, [true, true, false, false, false, false]);
    }

    #[test]
    fn test_items_and_their_files_are_tests_and_what_follows_is_not() {
        let text = "fn a() {}\n#[cfg(test)]\nmod walk;\n#[cfg(test)]\nfn b() {\n}\nfn c() {}\n";
        let found = sources(&[("crates/a/src/lib.rs", text), ("crates/a/src/walk/far.rs", "")]);
        let tested: Vec<_> = (1..8).filter(|line| found[0].is_tested_on(*line)).collect();
        assert_eq!(tested, [2, 3, 4, 5, 6]);
        assert!(found[1].is_test && !found[0].is_test);
    }

    #[test]
    fn modules_are_looked_for_where_rust_looks() {
        assert_eq!(home(Path::new("src/lib.rs"), "walk"), Path::new("src/walk"));
        assert_eq!(home(Path::new("src/a/mod.rs"), "walk"), Path::new("src/a/walk"));
        assert_eq!(home(Path::new("src/time.rs"), "walk"), Path::new("src/time/walk"));
    }
}
