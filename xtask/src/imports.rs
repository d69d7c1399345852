//! The imports among the modules of a crate, without tests.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use proc_macro2::{TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

use crate::count::source::{Source, attributes, is_for_tests};

/// The path of a module inside its crate; empty for the crate's root.
pub(crate) type Module = Vec<String>;

/// A module that names an item of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) from: Module,
    /// The module whose file has the item, or re-exports it.
    pub(crate) to: Module,
    /// The imported item, as a path from the root of the crate.
    pub(crate) item: String,
    pub(crate) line: usize,
}

/// Returns the imports among the modules of the crate whose sources are in `folder`, each once.
pub(crate) fn of_crate(folder: &Path, sources: &[Source]) -> Vec<Import> {
    let of_crate = sources.iter();
    let of_crate = of_crate.filter_map(|source| Some((module(folder, &source.path)?, source)));
    let of_crate: Vec<(Module, &Source)> = of_crate.collect();
    let modules: BTreeSet<_> = of_crate.iter().map(|(module, _)| module.clone()).collect();
    let mut lower = BTreeSet::new();
    let mut tests = BTreeSet::new();
    for (module, source) in &of_crate {
        if module.is_empty() {
            source.syntax.iter().for_each(|root| note_modules_of_lower_crates(root, &mut lower));
        }
        if source.is_test {
            tests.insert(module);
        }
    }
    let mut imports = BTreeSet::new();
    for (module, source) in of_crate.iter().filter(|(_, source)| !source.is_test) {
        let (modules, lower, at) = (&modules, &lower, module.clone());
        let mut reader = Reader { modules, lower, file: module, at, imports: Vec::new() };
        source.syntax.iter().for_each(|syntax| reader.visit_file(syntax));
        imports.extend(reader.imports);
    }
    imports.retain(|import| !tests.contains(&import.to));
    imports.into_iter().collect()
}

/// The module of a file; `None` for one outside of the folder.
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

/// Notes the names that the root of a crate gives to modules of other crates, for use within the crate alone: a path
/// through such a name leads out of the crate.
fn note_modules_of_lower_crates(root: &syn::File, names: &mut BTreeSet<String>) {
    for item in &root.items {
        if let Item::Use(ItemUse { vis: Visibility::Inherited, tree: UseTree::Path(path), .. }) =
            item
            && !["crate", "self", "super"].iter().any(|own| path.ident == own)
        {
            note_names(&path.tree, names);
        }
    }
}

/// Notes the names that a tree brings into scope.
fn note_names(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => note_names(&path.tree, names),
        UseTree::Name(name) => drop(names.insert(name.ident.to_string())),
        UseTree::Rename(name) => drop(names.insert(name.rename.to_string())),
        UseTree::Glob(_) => {}
        UseTree::Group(group) => group.items.iter().for_each(|tree| note_names(tree, names)),
    }
}

/// Collects the paths of one file that lead into its own crate.
struct Reader<'a> {
    modules: &'a BTreeSet<Module>,
    /// The names of modules of lower crates at the root.
    lower: &'a BTreeSet<String>,
    file: &'a Module,
    /// The module that is being read: the file's own, or one inside of it.
    at: Module,
    imports: Vec<Import>,
}

impl Reader<'_> {
    fn note(&mut self, path: &[String], line: usize) {
        let Some(path) = self.path_from_root(path) else { return };
        let is_module = |names: &usize| self.modules.contains(&path[..*names]);
        let Some(names) = (0..=path.len()).rev().find(is_module) else { return };
        let to = path[..names].to_vec();
        if to != *self.file {
            let (from, item) = (self.file.clone(), path.join("::"));
            self.imports.push(Import { from, to, item, line });
        }
    }

    /// The path from the crate's root; `None` if it leads out of the crate, or stays in scope.
    fn path_from_root(&self, path: &[String]) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" if rest.first().is_some_and(|name| self.lower.contains(name)) => None,
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
                other => self.note_path(&mut path, other.span().start().line),
            }
        }
        self.note_path(&mut path, 0);
    }

    /// Notes a path, if it is more than a name, and empties it.
    fn note_path(&mut self, path: &mut Vec<String>, line: usize) {
        if path.len() > 1 {
            self.note(path, line);
        }
        path.clear();
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
        let mut names: Vec<_> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.note_path(&mut names, line_of(path));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::source::sources;

    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("src/{path}"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let imports = of_crate(Path::new("src"), &sources(&files));
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
    fn a_visibility_in_a_macro_is_no_import() {
        assert!(imports(&[("lib.rs", ""), ("a.rs", "x! { pub(crate) enum E {} }")]).is_empty());
    }

    #[test]
    fn a_module_of_a_lower_crate_is_no_import() {
        let root = "use lower::{key, x::y as z}; pub use lower::Item; mod a;";
        let a = "use crate::key::Seed; use crate::z; use crate::Item;";
        assert_eq!(imports(&[("lib.rs", root), ("a.rs", a)]), ["a>Item"]);
    }

    #[test]
    fn tests_are_left_out() {
        let a =
            "#[cfg(test)] mod tests { use crate::b::C; }\n#[cfg(all(test, loom))] use crate::b::D;";
        assert!(imports(&[("a.rs", a), ("b.rs", "#![cfg(test)] use crate::a::E;")]).is_empty());
    }
}
