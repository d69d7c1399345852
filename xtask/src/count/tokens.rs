//! The tokens of Rust and of Lua, without comments.

use std::ops::RangeInclusive;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// The text of a name; empty for all other tokens.
    pub(super) name: String,
    /// The first line, and the last.
    pub(super) lines: RangeInclusive<usize>,
}

impl Token {
    /// A name or a mark, which is on one line.
    fn new(name: String, span: Span) -> Self {
        let line = span.start().line;
        Self { name, lines: line..=line }
    }

    fn mark(span: Span) -> Self {
        Self::new(String::new(), span)
    }
}

/// Appends the tokens of Rust: a string is one token, and so is each character of an operator.
pub(super) fn of_rust(stream: TokenStream, into: &mut Vec<Token>) {
    let mut tokens = stream.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(hash) if hash.as_char() == '#' => {
                let inner = tokens.next_if(|token| matches!(token, TokenTree::Punct(_)));
                if tokens.next_if(is_doc).is_none() {
                    into.push(Token::mark(hash.span()));
                    into.extend(inner.map(|mark| Token::mark(mark.span())));
                }
            }
            TokenTree::Group(group) => {
                into.push(Token::mark(group.span_open()));
                of_rust(group.stream(), into);
                into.push(Token::mark(group.span_close()));
            }
            TokenTree::Ident(name) => into.push(Token::new(name.to_string(), name.span())),
            TokenTree::Punct(mark) => into.push(Token::mark(mark.span())),
            TokenTree::Literal(literal) => {
                let mut token = Token::mark(literal.span());
                token.lines = *token.lines.start()..=literal.span().end().line;
                into.push(token);
            }
        }
    }
}

/// Returns whether a token is the group of `doc = "..."`, as which the lexer hands out a comment.
fn is_doc(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    group.delimiter() == Delimiter::Bracket && is_doc_text(group)
}

fn is_doc_text(group: &Group) -> bool {
    let mut tokens = group.stream().into_iter();
    let name = matches!(tokens.next(), Some(TokenTree::Ident(name)) if name == "doc");
    name && matches!(tokens.nth(1), Some(TokenTree::Literal(_)))
}

/// The tokens of Lua without long strings and long comments.
pub(super) fn of_lua(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next().filter(|_| !rest.starts_with("--")) {
            let length = match first {
                '"' | '\'' => string(rest, first),
                _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
                _ => first.len_utf8(),
            };
            let is_name = first.is_ascii_alphabetic() || first == '_';
            let name = if is_name { rest[..length].to_owned() } else { String::new() };
            tokens.push(Token { name, lines: index + 1..=index + 1 });
            rest = rest[length..].trim_start();
        }
    }
    tokens
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// The bytes of a string at the start of a text, with both quotes.
fn string(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (index, character) in text.char_indices().skip(1) {
        if character == quote && !is_escaped {
            return index + 1;
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Vec<Token> {
        let mut tokens = Vec::new();
        of_rust(text.parse().unwrap(), &mut tokens);
        tokens
    }

    #[test]
    fn tokens_of_rust_are_counted_without_comments() {
        let table = [
            ("//! Doc.\n/// Doc.\nfn f() {}", 6),
            ("a::b // why\n/* why */", 4),
            ("\"a b\"", 1),
            ("#[cfg(x)] f", 8),
            ("#![no_std]", 5),
            ("#[doc = include_str!(\"a\")] mod a;", 13),
        ];
        for (text, count) in table {
            assert_eq!(rust(text).len(), count, "{text}");
        }
    }

    #[test]
    fn tokens_of_lua_are_counted_without_comments() {
        let table = [
            ("local a = 1 -- why", 4),
            ("-- why", 0),
            ("f('a -- \\' b')", 4),
            ("\"a\\\\\" .. x2", 4),
        ];
        for (text, count) in table {
            assert_eq!(of_lua(text).len(), count, "{text}");
        }
        assert_eq!(of_lua("\n  room")[0], Token { name: "room".into(), lines: 2..=2 });
    }

    #[test]
    fn a_string_is_on_all_its_lines() {
        let names: Vec<_> = rust("x \"a\nb\"").into_iter().map(|token| token.lines).collect();
        assert_eq!(names, [1..=1, 1..=2]);
    }
}
