//! The rule of purity: the core has no standard library, no unsafe code and no floats.

use std::path::Path;

use super::rust::{self, Code};
use super::{Findings, House};
use crate::imports::home;
use crate::tree::SourceFile;

/// The folder of the core.
const CORE: &str = "crates/tidegate-core/src";

/// Attributes that must be at the head of its `lib.rs`, so that the compiler checks them as well.
const PROMISES: &[&str] = &["no_std", "forbid(unsafe_code)"];

/// Reads every file of the core, except tests.
pub(super) fn check(house: &House<'_>) -> Findings {
    let files = house.files.iter().filter(|file| file.is("rs") && file.path.starts_with(CORE));
    judge(&files.collect::<Vec<_>>()).into()
}

fn judge(files: &[&SourceFile]) -> Vec<String> {
    let (mut complaints, mut read, mut for_tests) = (Vec::new(), Vec::new(), Vec::new());
    for file in files {
        match rust::code(&file.text) {
            Ok(code) => {
                for_tests.extend(code.test_modules.iter().map(|name| home(&file.path, name)));
                read.push((file.path.as_path(), code));
            }
            Err(error) => complaints.push(format!("{}: not Rust: {error}", file.path.display())),
        }
    }
    read.retain(|(path, _)| {
        !for_tests.iter().any(|home| path.with_extension("").starts_with(home))
    });
    complaints.extend(promises(&read));
    complaints.extend(read.iter().flat_map(|(path, code)| impurities(path, code)));
    complaints
}

fn promises(read: &[(&Path, Code)]) -> Vec<String> {
    let head = Path::new(CORE).join("lib.rs");
    let Some((_, code)) = read.iter().find(|(path, _)| *path == head) else {
        return vec![format!("{} is missing", head.display())];
    };
    let kept = |promise: &&&str| code.attributes.iter().any(|own| own == **promise);
    let broken = PROMISES.iter().filter(|promise| !kept(promise));
    broken.map(|promise| format!("{}: add `#![{promise}]`", head.display())).collect()
}

fn impurities(path: &Path, code: &Code) -> Vec<String> {
    let found = code.words.iter().filter_map(|word| Some((word, impurity(&word.text)?)));
    found
        .map(|(word, why)| format!("{}:{}: `{}`: {why}", path.display(), word.line, word.text))
        .collect()
}

fn impurity(word: &str) -> Option<&'static str> {
    if word == "std" {
        return Some("the core is no_std; use `core` or `alloc`");
    }
    let float = word == "f32" || word == "f64" || is_float(word);
    float.then_some("the core does not count in floats; use integers of the smallest unit")
}

/// `1.5`, `1e9` and `1f64`; but not `1usize`, `0x1f32` or a string.
fn is_float(literal: &str) -> bool {
    let rest = literal.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_');
    let is_number = literal.starts_with(|c: char| c.is_ascii_digit());
    is_number && rest.starts_with(['.', 'e', 'E', 'f'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    const HEAD: &str = "//! Doc.\n#![no_std]\n#![forbid(unsafe_code)]\n";

    fn complaints(lib: &str, others: &[(&str, &str)]) -> Vec<String> {
        let lib = [("lib.rs", lib)];
        let all =
            lib.iter().chain(others).map(|(path, text)| file(&format!("{CORE}/{path}"), text));
        let all: Vec<_> = all.collect();
        judge(&all.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_pure_core_passes_also_with_impure_tests() {
        let space =
            "//! Doc: not f64.\nfn f() -> u64 { 0x1f32 }\n#[cfg(test)] mod t { use std::f64; }";
        let lib = format!("{HEAD}#[cfg(test)]\nmod walk;\n");
        let walk = ("walk.rs", "use std::vec;");
        assert!(complaints(&lib, &[("room.rs", space), walk, ("walk/far.rs", "1.5")]).is_empty());
    }

    #[test]
    fn the_head_must_promise() {
        assert_eq!(complaints("//! Doc.\n#![no_std]\n", &[]).len(), 1);
        assert!(judge(&[])[0].ends_with("lib.rs is missing"));
    }

    #[test]
    fn floats_and_std_are_found_with_their_line() {
        let found = complaints(HEAD, &[("a/b.rs", "fn f() {\n  let x = 1e9;\n}\nuse std::mem;")]);
        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("crates/tidegate-core/src/a/b.rs:2: `1e9`"), "{found:?}");
        assert!(found[1].contains("b.rs:4: `std`"), "{found:?}");
    }

    #[test]
    fn floats_are_distinguished_from_integers() {
        assert!(["1.5", "1.", "2e3", "1_0f64", "3f32"].into_iter().all(is_float));
        assert!(!["1", "1usize", "0x1f32", "0b1", "\"1.5\"", "'1'"].into_iter().any(is_float));
    }
}
