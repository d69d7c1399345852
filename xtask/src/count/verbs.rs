//! The public methods of the types that decide.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{ImplItem, ItemImpl, Visibility};

use super::names::name_of;
use super::source::Source;
use super::table::Count;

const DECIDERS: &[&str] = &["Limiter", "KeyedLimiter", "Under", "Gate", "SharedGate"];
/// The two gates, whose common verbs are counted.
const GATES: [&str; 2] = ["Gate", "SharedGate"];
/// A folder or crate in which a type of one of these names is no decider.
const OTHERS: &[&str] = &["store", "tidegate-core"];

/// The names of public methods, by the type.
#[derive(Default)]
struct Verbs(BTreeMap<String, Vec<String>>);

pub(super) fn count(sources: &[Source]) -> [Count; 2] {
    let mut verbs = Verbs::default();
    for source in sources.iter().filter(|source| source.is_product()) {
        if !source.path.iter().any(|part| OTHERS.iter().any(|other| part == *other)) {
            source.syntax.iter().for_each(|syntax| verbs.visit_file(syntax));
        }
    }
    let mut public = Count::new("house", "public methods of deciders");
    public.row("public_verbs").value = verbs.0.values().map(Vec::len).sum();
    for (name, verbs) in &verbs.0 {
        public.add_place(name.clone(), verbs.len());
    }
    let [one, other] =
        GATES.map(|gate| verbs.0.get(gate).into_iter().flatten().collect::<BTreeSet<_>>());
    let mut both = Count::new("house", "public methods that both gates have");
    both.row("verbs_of_both_gates").value = one.intersection(&other).count();
    [public, both]
}

impl<'ast> Visit<'ast> for Verbs {
    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        let name = name_of(block).filter(|name| DECIDERS.iter().any(|decider| *name == decider));
        if let Some(name) = name.filter(|_| block.trait_.is_none()) {
            let verbs = self.0.entry(name.to_string()).or_default();
            for item in &block.items {
                if let ImplItem::Fn(method) = item
                    && matches!(method.vis, Visibility::Public(_))
                {
                    verbs.push(method.sig.ident.to_string());
                }
            }
        }
        visit::visit_item_impl(self, block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::source::sources;

    #[test]
    fn public_methods_of_deciders_are_counted_outside_of_stores() {
        let gate = "pub struct Gate; impl Gate { pub fn check(&self) {} fn own(&self) {} }";
        let shared = "impl<S> SharedGate<S> { pub async fn check() {} pub fn only() {} pub(crate) fn own() {} }";
        let table = [
            (vec![("crates/tidegate/src/gate.rs", gate)], 1, 0),
            (vec![("crates/tidegate/src/store/gate.rs", gate)], 0, 0),
            (
                vec![(
                    "crates/tidegate/src/a.rs",
                    "impl Other { pub fn check() {} } impl X for Gate { fn y() {} }",
                )],
                0,
                0,
            ),
            (
                vec![
                    ("crates/tidegate/src/gate.rs", gate),
                    ("crates/tidegate/src/shared.rs", shared),
                ],
                3,
                1,
            ),
        ];
        for (files, public, both) in table {
            let values = count(&sources(&files)).map(|count| count.sum());
            assert_eq!(values, [public, both], "{files:?}");
        }
    }
}
