//! Rust source as tokens without its tests, so that comments and strings are not mistaken for code.

use std::iter::Peekable;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree, token_stream};

use crate::imports::is_test;

/// One token outside of tests, and its line, from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) line: usize,
}

/// A file without everything under `#[cfg(test)]`.
#[derive(Debug, Default)]
pub(super) struct Code {
    /// Identifiers and literals, in order.
    pub(super) words: Vec<Word>,
    /// Inner attributes of the file without blanks, such as `no_std` of `#![no_std]`.
    pub(super) attributes: Vec<String>,
    /// Modules in files of their own that are only for tests.
    pub(super) test_modules: Vec<String>,
}

/// Reads a whole file.
///
/// # Errors
///
/// Returns an error if the text is not Rust; the message has the position.
pub(super) fn code(text: &str) -> Result<Code, String> {
    let tokens: TokenStream = text.parse().map_err(|error: proc_macro2::LexError| {
        format!("line {}: {error}", error.span().start().line)
    })?;
    let mut code = Code::default();
    code.file(tokens);
    Ok(code)
}

type Tokens = Peekable<token_stream::IntoIter>;

impl Code {
    /// Reads the inner attributes, and then everything else, unless the file is a test as a whole.
    fn file(&mut self, tokens: TokenStream) {
        let mut tokens = tokens.into_iter().peekable();
        while tokens.next_if(|token| is(token, '#')).is_some() {
            if tokens.next_if(|token| is(token, '!')).is_none() {
                self.after_hash(&mut tokens);
                break;
            }
            if let Some(TokenTree::Group(attribute)) = tokens.next() {
                self.attributes.push(plain(&attribute));
            }
        }
        if !self.attributes.iter().any(|attribute| is_test(attribute)) {
            self.rest(tokens);
        }
    }

    fn rest(&mut self, mut tokens: Tokens) {
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => self.rest(group.stream().into_iter().peekable()),
                TokenTree::Punct(punct) if punct.as_char() == '#' => self.after_hash(&mut tokens),
                TokenTree::Punct(_) => {}
                word => {
                    self.words.push(Word { line: word.span().start().line, text: word.to_string() })
                }
            }
        }
    }

    /// Continues after the `#` of an attribute: if it is `cfg(test)`, its item is left out.
    fn after_hash(&mut self, tokens: &mut Tokens) {
        let is_test_attribute =
            |token: &TokenTree| matches!(token, TokenTree::Group(group) if is_test(&plain(group)));
        if tokens.next_if(is_test_attribute).is_some() {
            self.test_modules.extend(skip_item(tokens));
        }
    }
}

/// Skips one item; returns its name, if it is a module in another file.
fn skip_item(tokens: &mut Tokens) -> Option<String> {
    let mut last = None;
    let mut is_module = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return None,
            TokenTree::Punct(punct) if punct.as_char() == ';' => return last.filter(|_| is_module),
            TokenTree::Ident(name) => {
                is_module |= name == "mod";
                last = Some(name.to_string());
            }
            _ => {}
        }
    }
    None
}

fn is(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

fn plain(group: &Group) -> String {
    group.stream().to_string().split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        code(text).unwrap().words.into_iter().map(|word| word.text).collect()
    }

    #[test]
    fn comments_are_not_code_and_lines_are_kept() {
        let code = code("//! f64\n/* f32 */\nlet x = 2; // std::\n").unwrap();
        let x = Word { text: "x".into(), line: 3 };
        assert!(code.words.contains(&x), "{:?}", code.words);
        assert!(!code.words.iter().any(|word| word.text == "std" || word.text == "f32"));
    }

    #[test]
    fn what_is_for_tests_is_left_out_and_what_follows_is_not() {
        assert_eq!(words("a; #[cfg(test)] mod tests { f64 } b"), ["a", "b"]);
        assert_eq!(words("#[cfg(test)] use std::vec; b"), ["b"]);
        assert_eq!(
            words("mod x { #[cfg(all(test, feature = \"y\"))] fn f() -> [u8; 2] {} }"),
            ["mod", "x"]
        );
        assert!(words("#![no_std]\n#![cfg(test)]\nfn f() {}").is_empty());
    }

    #[test]
    fn other_attributes_leave_nothing_out() {
        assert_eq!(words("#[cfg(not(test))] fn f() {}"), ["cfg", "not", "test", "fn", "f"]);
    }

    #[test]
    fn inner_attributes_and_test_modules_are_named() {
        let code = code("//! Doc.\n#![no_std]\nmod a;\n#[cfg(test)]\nmod walk;\n").unwrap();
        assert!(code.attributes.contains(&"no_std".into()), "{:?}", code.attributes);
        assert_eq!(code.test_modules, ["walk"]);
    }

    #[test]
    fn what_is_not_rust_is_an_error_with_its_line() {
        let message = code("fn f() {}\nfn g( {\n").unwrap_err();
        assert!(message.starts_with("line 2"), "{message}");
    }
}
