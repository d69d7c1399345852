//! `cargo xtask count`: measures of the code's structure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use syn::visit::{self, Visit};
use syn::{ImplItem, Item, ItemImpl, Type, Visibility};

use crate::context::Context;
use crate::imports::{self, Import, Module, attributes, is_for_tests};
use crate::tree::{self, SourceFile};

/// The types that decide, whose public methods are counted.
const DECIDERS: &[&str] = &["Limiter", "KeyedLimiter", "Under", "Gate", "SharedGate"];
/// The folder of stores, in which a type of one of these names is no decider.
const STORES: &str = "store";

/// Prints all measures.
///
/// # Errors
/// Returns an error if the workspace cannot be read.
pub(crate) fn run() -> Result<bool> {
    let context = Context::load()?;
    let files = tree::read(context.root())?;
    let sources: Vec<_> = files.into_iter().filter(is_source).collect();
    println!("code lines (tests and comments left out), by folder\n");
    for (folder, lines) in lines_by_folder(&sources) {
        println!("{lines:>7}  {}", folder.display());
    }
    let found = found_in(&sources);
    let several = found.types.values().filter(|homes| homes.len() > 1).count();
    println!("\n{:>7}  type names", found.types.len());
    println!("{several:>7}  of them defined in more than one file");
    println!("{:>7}  public methods of {}", found.methods, DECIDERS.join(", "));
    println!("\nlargest circle of files that import each other, of files\n");
    for folder in crates(&sources) {
        let (imports, _) = imports::of_crate(&folder, &sources);
        let count = sources.iter().filter(|file| file.path.starts_with(&folder)).count();
        println!("{:>7}  of {count} in {}", largest_circle(&imports), folder.display());
    }
    Ok(true)
}

/// Returns whether a file is source of a crate, and not a test beside it.
fn is_source(file: &SourceFile) -> bool {
    file.is("rs")
        && file.path.starts_with("crates")
        && file.path.iter().nth(2) == Some("src".as_ref())
}

fn crates(sources: &[SourceFile]) -> BTreeSet<PathBuf> {
    sources.iter().map(|file| file.path.iter().take(3).collect()).collect()
}

/// Lines that hold code, by the crate and the first folder below it.
fn lines_by_folder(sources: &[SourceFile]) -> BTreeMap<PathBuf, usize> {
    let mut lines = BTreeMap::new();
    for file in sources {
        let module = file.path.with_extension("");
        let folder: PathBuf = module.iter().take(4).collect();
        *lines.entry(folder).or_default() += code_lines(&file.text);
    }
    lines
}

/// Lines before the file's own tests that are neither blank nor a comment.
fn code_lines(text: &str) -> usize {
    let own = text.lines().take_while(|line| !is_test_module(line));
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    own.filter(is_code).count()
}

/// Returns whether tests, which are at the end of a file, begin on this line.
fn is_test_module(line: &str) -> bool {
    line == "#[cfg(test)]" || line.starts_with("#[cfg(all(test,")
}

/// The names in all files.
#[derive(Default)]
struct Found {
    /// The names of types, each with the files that define it.
    types: BTreeMap<String, BTreeSet<PathBuf>>,
    methods: usize,
}

fn found_in(sources: &[SourceFile]) -> Found {
    let mut found = Found::default();
    for file in sources {
        if let Ok(parsed) = syn::parse_file(&file.text) {
            Finder { file: &file.path, found: &mut found }.visit_file(&parsed);
        }
    }
    found
}

struct Finder<'a> {
    file: &'a Path,
    found: &'a mut Found,
}

impl Finder<'_> {
    fn add(&mut self, name: &syn::Ident) {
        self.found.types.entry(name.to_string()).or_default().insert(self.file.to_owned());
    }

    fn add_methods(&mut self, block: &ItemImpl) {
        let in_store = self.file.iter().any(|part| part == STORES);
        let of_decider = !in_store
            && matches!(&*block.self_ty, Type::Path(path)
            if path.path.segments.last().is_some_and(|last| DECIDERS.iter().any(|name| last.ident == name)));
        if of_decider && block.trait_.is_none() {
            let is_public = |item: &&ImplItem| matches!(item, ImplItem::Fn(method) if matches!(method.vis, Visibility::Public(_)));
            self.found.methods += block.items.iter().filter(is_public).count();
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if attributes(item).iter().any(is_for_tests) {
            return;
        }
        match item {
            Item::Struct(item) => self.add(&item.ident),
            Item::Enum(item) => self.add(&item.ident),
            Item::Trait(item) => self.add(&item.ident),
            Item::Type(item) => self.add(&item.ident),
            Item::Impl(block) => self.add_methods(block),
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

/// The largest set of files in which each imports all others, directly or by others.
fn largest_circle(imports: &[Import]) -> usize {
    let mut reached: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for import in imports {
        reached.entry(&import.from).or_default().insert(&import.to);
    }
    let direct = reached.clone();
    for seen in reached.values_mut() {
        let mut open: Vec<_> = seen.iter().copied().collect();
        while let Some(next) = open.pop() {
            let further = direct.get(next).into_iter().flatten();
            open.extend(further.filter(|module| seen.insert(module)));
        }
    }
    let is_mutual = |one: &Module, other: &Module| {
        reached.get(one).is_some_and(|seen| seen.contains(other))
            && reached.get(other).is_some_and(|seen| seen.contains(one))
    };
    let circles = reached.keys().map(|one| reached.keys().filter(|other| is_mutual(one, other)));
    circles.map(Iterator::count).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    #[test]
    fn comments_blanks_and_tests_are_no_code() {
        let text = "//! Doc.\n\nfn f() {\n    // why\n    g();\n}\n\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(code_lines(text), 3);
    }

    #[test]
    fn a_name_of_two_files_and_the_methods_of_deciders_are_found() {
        let gate =
            "struct Place; pub struct Gate; impl Gate { pub fn check(&self) {} fn own(&self) {} }";
        let queue =
            "enum Place {} impl Place { pub fn first(&self) {} } #[cfg(test)] struct Tested;";
        let found =
            found_in(&[file("crates/a/src/gate.rs", gate), file("crates/a/src/queue.rs", queue)]);
        let in_store = found_in(&[file("crates/a/src/store/gate.rs", gate)]);
        assert_eq!(in_store.methods, 0);
        assert_eq!(found.types.keys().collect::<Vec<_>>(), ["Gate", "Place"]);
        assert_eq!((found.types["Place"].len(), found.methods), (2, 1));
    }

    #[test]
    fn the_largest_circle_is_that_of_the_most_files() {
        let import = |(from, to): (&str, &str)| Import {
            from: vec![from.to_owned()],
            to: vec![to.to_owned()],
            item: to.to_owned(),
            line: 1,
        };
        let imports = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d")];
        assert_eq!(largest_circle(&imports.map(import)), 3);
        assert_eq!(largest_circle(&[("a", "b"), ("b", "c")].map(import)), 0);
    }
}
