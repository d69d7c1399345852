//! What the modules of a crate import from each other, tests left out.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree};

use super::rust::is_test;
use crate::tree::SourceFile;

/// The path of a module inside its crate; empty for the crate's root.
pub(super) type Module = Vec<String>;

/// One module names an item of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Import {
    pub(super) from: Module,
    /// The module whose file has the item, or declares it again.
    pub(super) to: Module,
    /// What is imported, as a path from the root of the crate.
    pub(super) item: String,
    pub(super) line: usize,
}

/// Returns the imports among the modules of the crate whose sources are in `folder`, each once, or a
/// complaint for each file that is not Rust.
pub(super) fn of_crate(folder: &Path, files: &[SourceFile]) -> (Vec<Import>, Vec<String>) {
    let (mut sources, mut complaints) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| file.is("rs")) {
        let Some(module) = module(folder, &file.path) else { continue };
        match syn::parse_file(&file.text) {
            Ok(parsed) => sources.push((module, parsed)),
            Err(error) => complaints.push(format!("{}: not Rust: {error}", file.path.display())),
        }
    }
    let modules: BTreeSet<_> = sources.iter().map(|(module, _)| module.clone()).collect();
    let tests: Vec<_> = sources.iter().flat_map(|(module, parsed)| tests(module, parsed)).collect();
    sources.retain(|(module, _)| !tests.iter().any(|test| module.starts_with(test)));
    let imports = sources.iter().flat_map(|(module, parsed)| of_file(&modules, module, parsed));
    let imports: BTreeSet<_> = imports.collect();
    (imports.into_iter().collect(), complaints)
}

/// The modules for tests that a file declares and other files hold.
fn tests(module: &Module, parsed: &syn::File) -> Vec<Module> {
    let declared = parsed.items.iter().filter_map(|item| match item {
        Item::Mod(item) if item.content.is_none() && item.attrs.iter().any(is_for_tests) => {
            Some([module.as_slice(), &[item.ident.to_string()]].concat())
        }
        _ => None,
    });
    declared.collect()
}

/// The module that a file is; `None` for one outside of the folder.
fn module(folder: &Path, file: &Path) -> Option<Module> {
    let inside = file.strip_prefix(folder).ok()?.with_extension("");
    let names = inside.components().filter_map(|part| match part {
        Component::Normal(name) => name.to_str().map(ToOwned::to_owned),
        _ => None,
    });
    let mut names: Module = names.collect();
    names.pop_if(|name| ["mod", "lib", "main"].contains(&name.as_str()));
    Some(names)
}

fn of_file(modules: &BTreeSet<Module>, module: &Module, parsed: &syn::File) -> Vec<Import> {
    if parsed.attrs.iter().any(is_for_tests) {
        return Vec::new();
    }
    let mut reader = Reader { modules, file: module, at: module.clone(), imports: Vec::new() };
    reader.visit_file(parsed);
    reader.imports
}

/// Collects the paths of one file that lead into its own crate.
struct Reader<'a> {
    modules: &'a BTreeSet<Module>,
    file: &'a Module,
    /// The module that is being read: the file's own, or one written inside of it.
    at: Module,
    imports: Vec<Import>,
}

impl Reader<'_> {
    fn note(&mut self, path: &[String], line: usize) {
        let Some(path) = self.rooted(path) else { return };
        let is_module = |names: &usize| self.modules.contains(&path[..*names]);
        let Some(names) = (0..=path.len()).rev().find(is_module) else { return };
        let to = path[..names].to_vec();
        if to != *self.file {
            let (from, item) = (self.file.clone(), path.join("::"));
            self.imports.push(Import { from, to, item, line });
        }
    }

    /// The same path from the crate's root; `None` for one that leads out of the crate, or stays in scope.
    fn rooted(&self, path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([&self.at, rest].concat()),
            "super" => {
                let above = path.iter().take_while(|name| *name == "super").count();
                let kept = self.at.len().checked_sub(above)?;
                Some([&self.at[..kept], &path[above..]].concat())
            }
            _ => {
                let inside = [&self.at, path].concat();
                self.modules.contains(&inside[..=self.at.len()]).then_some(inside)
            }
        }
    }

    fn note_tree(&mut self, before: &[String], tree: &UseTree) {
        let then = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.note_tree(&then(&path.ident), &path.tree),
            UseTree::Name(name) if name.ident == "self" => self.note(before, line_of(name)),
            UseTree::Name(name) => self.note(&then(&name.ident), line_of(name)),
            UseTree::Rename(name) => self.note(&then(&name.ident), line_of(name)),
            UseTree::Glob(all) => self.note(before, line_of(all)),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.note_tree(before, tree));
            }
        }
    }

    /// Paths in the arguments of a macro, which are tokens.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        for token in tokens {
            match token {
                TokenTree::Ident(name) => path.push(name.to_string()),
                TokenTree::Punct(mark) if mark.as_char() == ':' => continue,
                TokenTree::Group(group) => self.note_tokens(group.stream()),
                other => {
                    self.note(&path, other.span().start().line);
                    path.clear();
                }
            }
        }
        self.note(&path, 0);
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes(item).iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if module.content.is_some() {
            self.at.push(module.ident.to_string());
            visit::visit_item_mod(self, module);
            self.at.pop();
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.note_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if names.len() > 1 {
            self.note(&names, line_of(path));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.note_tokens(invocation.tokens.clone());
        visit::visit_macro(self, invocation);
    }
}

fn line_of(part: &impl Spanned) -> usize {
    part.span().start().line
}

fn is_for_tests(attribute: &Attribute) -> bool {
    let written = quote_of(attribute);
    is_test(&written) || written == "test"
}

/// What stands between the brackets of an attribute, without blanks.
fn quote_of(attribute: &Attribute) -> String {
    let name = attribute.path().get_ident().map(ToString::to_string).unwrap_or_default();
    match &attribute.meta {
        syn::Meta::List(list) => {
            let inside: String = list.tokens.to_string().split_whitespace().collect();
            format!("{name}({inside})")
        }
        _ => name,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
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

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| file(&format!("src/{path}"), text)).collect();
        let (imports, complaints) = of_crate(Path::new("src"), &files);
        assert_eq!(complaints, Vec::<String>::new());
        imports.iter().map(|import| format!("{}>{}", import.from.join("."), import.item)).collect()
    }

    #[test]
    fn every_way_to_name_an_item_is_an_import() {
        let a = "use crate::b::{self, c::{D, E as F}};\nfn f() { super::b::g(); x!(crate::b::H) }";
        let found = imports(&[("lib.rs", "mod a;"), ("a.rs", a), ("b.rs", ""), ("b/c.rs", "")]);
        assert_eq!(found, ["a>b", "a>b::H", "a>b::g", "a>b::c::D", "a>b::c::E"]);
    }

    #[test]
    fn a_child_is_imported_by_its_bare_name_and_what_is_outside_is_not() {
        let a = "mod c; pub use c::D; use std::fmt; fn f(x: fmt::Result) {}";
        assert_eq!(
            imports(&[("a/mod.rs", a), ("a/c.rs", "use super::E;")]),
            ["a>a::c::D", "a.c>a::E"]
        );
    }

    #[test]
    fn tests_are_left_out() {
        let a =
            "#[cfg(test)] mod tests { use crate::b::C; }\n#[cfg(all(test, loom))] use crate::b::D;";
        assert!(imports(&[("a.rs", a), ("b.rs", "#![cfg(test)] use crate::a::E;")]).is_empty());
        let declared =
            [("a.rs", "#[cfg(test)] mod t;"), ("a/t.rs", "use crate::b::C;"), ("b.rs", "")];
        assert!(imports(&declared).is_empty());
    }

    #[test]
    fn what_is_not_rust_is_a_complaint() {
        let (_, complaints) = of_crate(Path::new("src"), &[file("src/a.rs", "fn {")]);
        assert!(complaints[0].starts_with("src/a.rs: not Rust"), "{complaints:?}");
    }
}
