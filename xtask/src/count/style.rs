//! Habits of style: named closures, tuple `let`s, `match` on a boolean, code without comments.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Expr, ExprMatch, Lit, Local, Pat};

use super::sizes::Lines;
use super::source::{Source, is_product};
use super::table::{Count, per_1000};

/// Named closures, tuple `let`s, matches, lines to a comment.
pub(super) fn count(sources: &[Source], lines: &Lines) -> [Count; 4] {
    let mut style = Style {
        source: None,
        closures: Count::new("named_closures", "closures with a name, in a `let`"),
        tuples: Count::new("tuple_lets", "tuples taken apart in the `let` that makes them"),
        matches: Count::new("boolean_matches", "`match` on a boolean"),
    };
    for source in sources.iter().filter(|source| !source.is_test) {
        style.source = Some(source);
        for count in [&mut style.closures, &mut style.tuples, &mut style.matches] {
            count.row(&source.area);
        }
        source.syntax.iter().for_each(|syntax| style.visit_file(syntax));
    }
    let mut counts = [style.closures, style.tuples, style.matches];
    for count in &mut counts {
        add_densities(count, lines);
    }
    let [closures, tuples, matches] = counts;
    [closures, tuples, matches, lines_to_a_comment(sources, lines)]
}

fn add_densities(count: &mut Count, lines: &Lines) {
    let mut product = (0, 0);
    for (name, row) in &mut count.rows {
        let lines = lines.get(name).copied().unwrap_or_default();
        row.remark = per_1000(row.value, lines, "lines");
        if is_product(name) {
            product = (product.0 + row.value, product.1 + lines);
        }
    }
    count.summary = format!("product {}", per_1000(product.0, product.1, "lines"));
}

/// The lines of code of the product for each line with a comment between them.
fn lines_to_a_comment(sources: &[Source], lines: &Lines) -> Count {
    let mut count =
        Count::new("lines_to_a_comment", "lines of code to each line of a comment inside of it");
    let mut sum = 0;
    for area in lines.keys().filter(|area| is_product(area)) {
        let own = sources.iter().filter(|source| source.area == *area && source.syntax.is_some());
        let comments: usize = own.map(comments).sum();
        let row = count.row(area);
        row.value = lines[area] / comments.max(1);
        row.remark = format!("{comments} lines of comments");
        sum += comments;
    }
    let lines = lines.iter().filter(|(area, _)| is_product(area)).map(|(_, lines)| lines).sum();
    count.summary =
        format!("product {}", per_1000(sum, lines, "lines are comments inside of code"));
    count
}

/// The lines with a comment alone that documents no item.
fn comments(source: &Source) -> usize {
    let own = source.text.lines().enumerate().filter(|(index, line)| {
        let is_comment = line.trim_start().starts_with("// ");
        is_comment && !source.code.contains(&(index + 1)) && !source.is_tested_on(index + 1)
    });
    own.count()
}

struct Style<'a> {
    source: Option<&'a Source>,
    closures: Count,
    tuples: Count,
    matches: Count,
}

impl Style<'_> {
    /// Counts one more, unless it is in a test.
    fn add(source: Option<&Source>, count: &mut Count, span: Span) {
        let line = span.start().line;
        if let Some(source) = source.filter(|source| !source.is_tested_on(line)) {
            count.add_line(&source.area, &source.path, line);
        }
    }
}

impl<'ast> Visit<'ast> for Style<'_> {
    fn visit_local(&mut self, local: &'ast Local) {
        let pattern = match &local.pat {
            Pat::Type(typed) => &*typed.pat,
            pattern => pattern,
        };
        match (pattern, local.init.as_ref().map(|init| &*init.expr)) {
            (Pat::Ident(name), Some(Expr::Closure(_))) => {
                Self::add(self.source, &mut self.closures, name.span());
            }
            (Pat::Tuple(tuple), Some(Expr::Tuple(_))) => {
                Self::add(self.source, &mut self.tuples, tuple.span());
            }
            _ => {}
        }
        visit::visit_local(self, local);
    }

    fn visit_expr_match(&mut self, expression: &'ast ExprMatch) {
        let is_boolean = expression.arms.iter().any(
            |arm| matches!(&arm.pat, Pat::Lit(literal) if matches!(literal.lit, Lit::Bool(_))),
        );
        if is_boolean {
            Self::add(self.source, &mut self.matches, expression.match_token.span);
        }
        visit::visit_expr_match(self, expression);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::source::sources;

    #[test]
    fn habits_are_counted_outside_of_tests() {
        let table = [
            ("let f = |x| x;", [1, 0, 0]),
            ("let mut f: F = move |x| { let g = || 1; x };", [2, 0, 0]),
            ("let f = g(|x| x);", [0, 0, 0]),
            ("let (a, b) = (1, 2);", [0, 1, 0]),
            ("let (a, b): (u8, u8) = (1, 2);", [0, 1, 0]),
            ("let (a, b) = f(); for (a, b) in c {}", [0, 0, 0]),
            ("match a { true => 1, false if b => 2, _ => 3 };", [0, 0, 1]),
            ("match a { (true, _) => 1, _ => 3 };", [0, 0, 0]),
            ("}\n#[cfg(test)]\nfn t() { let f = || 1;", [0, 0, 0]),
        ];
        for (body, expected) in table {
            let found = sources(&[("crates/tidegate/src/a.rs", &format!("fn f() {{ {body} }}"))]);
            let [closures, tuples, matches, _] = count(&found, &Lines::new());
            assert_eq!([closures, tuples, matches].map(|count| count.sum()), expected, "{body}");
        }
    }

    #[test]
    fn comments_inside_of_code_are_those_that_document_nothing() {
        let text = "//! Doc.\n/// Doc.\nfn f() {\n    // Why.\n    g(\"\n// no\n\"); // no\n}\n#[cfg(test)]\nmod t {\n    // no\n}\n";
        let found = sources(&[
            ("crates/tidegate/src/a.rs", text),
            ("crates/tidegate/src/a.lua", "-- Why.\na"),
        ]);
        let lines = Lines::from([("tidegate".to_owned(), 40)]);
        let [.., comments] = count(&found, &lines);
        assert_eq!(comments.rows["tidegate"].value, 40);
    }
}
