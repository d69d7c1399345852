//! The rule of folders: the modules of a folder import each other in one direction.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;

use super::arrows::FACADE;
use super::{Findings, House};
use crate::count::source;
use crate::imports::{self, Import, Module};

/// Modules that list all their members. Imports of them are ignored, because members need the list and it needs
/// them.
const CLOSED_LISTS: &[(&str, &str)] = &[("tidegate-core", "algorithms")];

/// The modules of the engine that see only these others of it: a store sees no layer, and a layer no gate.
const WALLS: &[(&str, &[&str])] =
    &[("store", &["snapshot"]), ("lease", &["store"]), ("layers", &["dedupe", "lease", "store"])];

/// The imports among the modules of a folder, each with one example.
type Arrows<'a> = BTreeMap<&'a str, BTreeMap<&'a str, &'a Import>>;

/// Searches for circles among the modules of every folder of every crate, without tests.
pub(super) fn check(house: &House<'_>) -> Findings {
    let sources = match source::read(&house.files) {
        Ok(sources) => sources,
        Err(error) => return vec![error.to_string()].into(),
    };
    let mut complaints = Vec::new();
    for (name, folder) in crates(house) {
        let mut imports = imports::of_crate(&folder, &sources);
        imports.retain(|import| !CLOSED_LISTS.contains(&(&name, &import.to.join("::"))));
        complaints.extend(judge(&name, &imports));
        complaints.extend(imports.iter().filter_map(|import| bad_import(&name, import)));
    }
    complaints.into()
}

/// The crates of the workspace, each with the folder of its sources.
fn crates(house: &House<'_>) -> Vec<(String, PathBuf)> {
    let root = house.metadata.workspace_root.as_std_path();
    let packages = house.metadata.packages.iter().filter_map(|package| {
        let folder = package.manifest_path.parent()?.as_std_path().strip_prefix(root).ok()?;
        Some((package.name.to_string(), folder.join("src")))
    });
    packages.collect()
}

fn judge(crate_name: &str, imports: &[Import]) -> Vec<String> {
    let folders: BTreeSet<&[String]> =
        imports.iter().map(|import| common(&import.from, &import.to)).collect();
    folders.iter().filter_map(|folder| complaint(crate_name, folder, imports)).collect()
}

/// The error of an import from the root of the crate, which imports all modules itself, or through a wall of the engine.
fn bad_import(crate_name: &str, import: &Import) -> Option<String> {
    let Import { from, to, item, line } = import;
    let own = from.first()?;
    let advice = match to.first() {
        None => "from the root of the crate; import it from the module that defines it".to_owned(),
        Some(to) => {
            let (_, seen) = WALLS.iter().find(|wall| (FACADE, wall.0) == (crate_name, own))?;
            if own == to || seen.contains(&to.as_str()) {
                return None;
            }
            format!("from {to}; {own} may import only {}", seen.join(", "))
        }
    };
    Some(format!("{crate_name}/{}: imports {item} (line {line}) {advice}", from.join("/")))
}

/// The innermost folder that two modules are in.
fn common<'a>(one: &'a Module, other: &Module) -> &'a [String] {
    let same = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    &one[..same]
}

/// The error of one folder: the shortest circle among its modules.
fn complaint(crate_name: &str, folder: &[String], imports: &[Import]) -> Option<String> {
    let mut arrows = Arrows::new();
    for import in imports {
        let inside = common(&import.from, &import.to) == folder;
        let ends = import.from.get(folder.len()).zip(import.to.get(folder.len()));
        if let Some((from, to)) = ends.filter(|_| inside) {
            arrows.entry(from).or_default().entry(to).or_insert(import);
        }
    }
    let circle = circle(&arrows)?;
    let steps = circle.iter().zip(circle.iter().cycle().skip(1));
    let steps = steps.filter_map(|(from, to)| arrows.get(from)?.get(to)).map(|import| {
        format!("{} imports {} (line {})", import.from.join("/"), import.item, import.line)
    });
    let place = [&[crate_name.to_owned()], folder].concat().join("/");
    let steps: Vec<_> = steps.collect();
    Some(format!("{place}: a circle: {}; move what both need below both", steps.join(", ")))
}

fn circle<'a>(arrows: &Arrows<'a>) -> Option<Vec<&'a str>> {
    let starts = arrows.keys().filter_map(|start| back_to(start, arrows));
    starts.min_by_key(Vec::len)
}

/// The shortest path from a module back to itself.
fn back_to<'a>(start: &'a str, arrows: &Arrows<'a>) -> Option<Vec<&'a str>> {
    let (mut seen, mut ways) = (BTreeSet::new(), VecDeque::from([vec![start]]));
    while let Some(way) = ways.pop_front() {
        let nexts = arrows.get(way.last()?).into_iter().flat_map(BTreeMap::keys);
        for next in nexts {
            if *next == start {
                return Some(way);
            }
            if seen.insert(*next) {
                ways.push_back([way.as_slice(), &[*next]].concat());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(from: &str, to: &str) -> Import {
        let module =
            |path: &str| path.split('/').filter(|name| !name.is_empty()).map(Into::into).collect();
        Import { from: module(from), to: module(to), item: to.replace('/', "::"), line: 1 }
    }

    fn judged(imports: &[(&str, &str)]) -> Vec<String> {
        let imports: Vec<_> = imports.iter().map(|(from, to)| import(from, to)).collect();
        judge("house", &imports)
    }

    #[test]
    fn an_import_of_the_root_or_of_a_gate_by_a_layer_is_found() {
        let of_root =
            "(line 1) from the root of the crate; import it from the module that defines it";
        for (name, from, to, expected) in [
            ("house", "config", "", Some(of_root)),
            ("house", "config", "rules", None),
            ("house", "", "rules", None),
            (
                FACADE,
                "layers/denials",
                "gate",
                Some("tidegate/layers/denials: imports gate (line 1)"),
            ),
            (FACADE, "store/memory", "layers", Some("")),
            (FACADE, "layers/denials", "store", None),
            (FACADE, "gate", "layers", None),
        ] {
            let found = bad_import(name, &import(from, to));
            assert_eq!(found.is_some(), expected.is_some(), "{from} {to}: {found:?}");
            assert!(found.is_none_or(|found| found.contains(expected.unwrap())), "{from} {to}");
        }
    }

    #[test]
    fn a_circle_among_neighbours_is_reported_with_its_imports() {
        let found = judged(&[("a/x", "b/y"), ("b/z", "c"), ("c", "a"), ("b", "b/y")]);
        assert_eq!(found.len(), 1);
        let circle = "a/x imports b::y (line 1), b/z imports c (line 1), c imports a (line 1)";
        assert!(found[0].starts_with(&format!("house: a circle: {circle}")), "{found:?}");
    }

    #[test]
    fn every_folder_is_judged_by_itself() {
        let found = judged(&[("a/x", "a/y/z"), ("a/y", "a/x"), ("b", "a")]);
        assert!(found.len() == 1 && found[0].starts_with("house/a: a circle"), "{found:?}");
    }
}
