//! Names of types with several definitions, types with an `impl` in many files, fields of an `Ask`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};
use syn::{Item, ItemImpl, Type};

use super::source::Source;
use super::table::Count;

/// The type of the engine whose fields are counted.
const ASK: &str = "Ask";

/// Files by the crate and name of a type.
type Homes = BTreeMap<(String, String), BTreeSet<PathBuf>>;

pub(super) fn count(sources: &[Source]) -> Vec<Count> {
    let mut finder = Finder::default();
    for source in sources {
        finder.source = Some(source);
        source.syntax.iter().for_each(|syntax| finder.visit_file(syntax));
    }
    let mut fields = Count::new("house", "fields of the widest `Ask`");
    fields.row("ask_fields").value = finder.ask_fields;
    vec![ambiguous(&finder.types), spread(&finder.types, &finder.impls), fields]
}

/// The names that more than one file of the product defines.
fn ambiguous(types: &Homes) -> Count {
    let mut count = Count::new("house", "names of types that several files define");
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for ((area, name), homes) in types {
        if super::source::is_product(area) {
            *names.entry(name).or_default() += homes.len();
        }
    }
    count.summary = format!("of {} names", names.len());
    count.row("ambiguous_names").value = names.values().filter(|homes| **homes > 1).count();
    names.into_iter().for_each(|(name, homes)| count.add_place(name.to_owned(), homes));
    count
}

/// The most files in which one type has an inherent `impl`.
fn spread(types: &Homes, impls: &Homes) -> Count {
    let mut count = Count::new("house", "files with an inherent `impl` of one type, at most");
    let mut files: BTreeMap<(&str, &Path), usize> = BTreeMap::new();
    for (key, homes) in impls {
        for file in homes {
            let home = types.get(key).and_then(|types| nearest(types, file)).unwrap_or(file);
            *files.entry((&key.1, home)).or_default() += 1;
        }
    }
    count.row("impl_spread").value = files.values().copied().max().unwrap_or_default();
    for ((name, home), spread) in files {
        count.add_place(format!("{name} of {}", home.display()), spread);
    }
    count
}

/// The definition that shares most of its path with a file. An `impl` in the file belongs to it.
fn nearest<'a>(homes: &'a BTreeSet<PathBuf>, file: &Path) -> Option<&'a PathBuf> {
    homes.iter().max_by_key(|home| {
        let module = home.with_extension("");
        let module = module.iter().filter(|name| *name != "mod");
        let file = file.with_extension("");
        module.zip(file.iter()).take_while(|(one, other)| one == other).count()
    })
}

#[derive(Default)]
struct Finder<'a> {
    source: Option<&'a Source>,
    types: Homes,
    impls: Homes,
    ask_fields: usize,
}

impl Finder<'_> {
    fn add_type(&mut self, name: &syn::Ident) {
        if let Some(key) = self.key(name) {
            self.types.entry(key.0).or_default().insert(key.1);
        }
    }

    /// The crate, name and file of a name; `None` for a test.
    fn key(&self, name: &syn::Ident) -> Option<((String, String), PathBuf)> {
        let source = self.source.filter(|source| !source.is_tested_on(name.span().start().line))?;
        Some(((source.area.clone(), name.to_string()), source.path.clone()))
    }

    fn add_impl(&mut self, block: &ItemImpl) {
        let key = name_of(block).and_then(|name| self.key(name));
        if let Some(key) = key.filter(|_| block.trait_.is_none()) {
            self.impls.entry(key.0).or_default().insert(key.1);
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            Item::Struct(item) => {
                self.add_type(&item.ident);
                let is_ask = item.ident == ASK && self.key(&item.ident).is_some();
                self.ask_fields = self.ask_fields.max(if is_ask { item.fields.len() } else { 0 });
            }
            Item::Enum(item) => self.add_type(&item.ident),
            Item::Union(item) => self.add_type(&item.ident),
            Item::Trait(item) => self.add_type(&item.ident),
            Item::Type(item) => self.add_type(&item.ident),
            Item::Impl(block) => self.add_impl(block),
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

/// The last name of the path of a type with an `impl`.
pub(super) fn name_of(block: &ItemImpl) -> Option<&syn::Ident> {
    match &*block.self_ty {
        Type::Path(path) => path.path.segments.last().map(|last| &last.ident),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::source::sources;

    fn values(files: &[(&str, &str)]) -> Vec<usize> {
        count(&sources(files)).iter().map(Count::sum).collect()
    }

    #[test]
    fn a_name_of_two_files_is_ambiguous_unless_one_is_a_test_or_a_tool() {
        let place = ("crates/tidegate/src/a.rs", "struct Place;\n#[cfg(test)]\nstruct Tested;");
        let table = [
            (("crates/tidegate-server/src/b.rs", "enum Place {} struct Tested;"), 1),
            (("crates/tidegate/src/b.rs", "type Other = u8;"), 0),
            (("crates/tidegate/tests/b.rs", "struct Place;"), 0),
            (("bench/src/b.rs", "struct Place;"), 0),
        ];
        for (other, ambiguous) in table {
            assert_eq!(values(&[place, other])[0], ambiguous, "{other:?}");
        }
    }

    #[test]
    fn the_spread_of_a_type_is_that_of_the_nearest_definition() {
        let files = [
            ("crates/a/src/gate/mod.rs", "struct Gate; impl Gate {}"),
            ("crates/a/src/gate/check.rs", "impl super::Gate {} impl Gate {} impl X for Gate {}"),
            ("crates/a/src/store.rs", "struct Gate; impl Clone for Gate {}"),
            ("crates/a/src/store/open.rs", "impl<T> Gate<T> {}"),
        ];
        assert_eq!(values(&files)[1], 2);
    }

    #[test]
    fn the_fields_of_the_widest_ask_are_counted() {
        let files = [
            ("crates/a/src/a.rs", "struct Ask { a: u8, b: u8 }"),
            ("crates/a/src/b.rs", "struct Ask(u8); struct Other { a: u8, b: u8, c: u8 }"),
        ];
        assert_eq!(values(&files)[2], 2);
    }
}
