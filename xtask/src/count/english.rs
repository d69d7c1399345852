//! Words: habits of English in comments that have to be read twice, and retired names in code.

use std::collections::BTreeMap;

use super::source::Source;
use super::table::{Count, per_1000};

/// Names that no code has any more.
const RETIRED: &str = "met figures figured brought told recalled door estate heir room";
/// Words that begin no sentence but a question.
const HEADLESS: &str = "What Who Whoever Whatever Whether How";
/// Words after which "one" stands for a noun.
const BEFORE_ONE: &str = "the a an each other another this that every own new old last first next";
/// Words before which "one" is a number.
const AFTER_ONE: &str = "of second minute hour unit request byte key rule limit line node thread";
/// Single words.
const FOREIGN: &str =
    "anew meanwhile beside behind therein thereof hence whence nobody somebody whoever";
/// Two words in a row; a comma belongs to its word.
const PAIRS: &str = "those of, that of, these of, by turns, the most, the least";
/// Words after ", for" that make it mean "because".
const AFTER_FOR: &str = "it they he there nobody";

/// A word of a comment.
struct Word<'a> {
    text: &'a str,
    line: usize,
    /// True if a sentence begins with it.
    is_first: bool,
}

/// Habits in comments, tests and tools included.
pub(super) fn comments(sources: &[Source]) -> Count {
    let mut count = Count::new("english", "habits of foreign English in comments, tests included");
    let mut total = 0;
    let mut words_by_area: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources {
        let words = words(source);
        total += words.len();
        *words_by_area.entry(&source.area).or_default() += words.len();
        count.row(&source.area);
        for line in habits(&words) {
            count.add_line(&source.area, &source.path, line);
        }
    }
    for (area, words) in words_by_area {
        let row = count.row(area);
        row.remark = per_1000(row.value, words, "words");
    }
    count.summary = per_1000(count.sum(), total, "words");
    count
}

/// Retired names in code, tests included.
pub(super) fn retired(sources: &[Source]) -> Count {
    let mut count = Count::new("retired_words", "names in code that were retired, tests included");
    let mut by_word: BTreeMap<_, _> = RETIRED.split(' ').map(|word| (word, 0)).collect();
    for source in sources {
        count.row(&source.owner(0));
        for token in source.tokens.iter().filter(|token| !token.name.is_empty()) {
            if let Some(value) = by_word.get_mut(token.name.as_str()) {
                let line = *token.lines.start();
                count.add_line(&source.owner(line), &source.path, line);
                *value += 1;
            }
        }
    }
    let by_word = by_word.iter().filter(|(_, value)| **value > 0);
    count.summary =
        by_word.map(|(word, value)| format!("{word} {value}")).collect::<Vec<_>>().join(", ");
    count
}

/// The words of all comments that have lines of their own, without examples of code.
fn words(source: &Source) -> Vec<Word<'_>> {
    let is_lua = source.path.extension().is_some_and(|own| own == "lua");
    let mark = if is_lua { "--" } else { "//" };
    let mut words = Vec::new();
    let mut is_example = false;
    let mut is_first = true;
    for (index, line) in source.text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix(mark);
        let comment = comment.filter(|_| !source.code.contains(&(index + 1))).unwrap_or_default();
        let text = comment.trim_start_matches(['/', '!', ' ']);
        is_example ^= text.starts_with("```");
        // An empty line, a heading, an item of a list and a row of a table end what was before.
        is_first |= text.is_empty() || text.starts_with(['-', '#', '*', '|']);
        if is_example || text.starts_with("```") {
            continue;
        }
        for text in text.trim_start_matches(['-', '#', '*', '|']).split_whitespace() {
            words.push(Word { text, line: index + 1, is_first });
            is_first = text.ends_with(['.', ';', ':', '?', '!']);
        }
    }
    words
}

/// The lines of all habits.
fn habits(words: &[Word<'_>]) -> Vec<usize> {
    let mut lines = Vec::new();
    for index in 0..words.len() {
        let mut next = words[index..].iter().map(|word| plain(word.text));
        let [first, second, third] = [(); 3].map(|()| next.next().unwrap_or_default());
        let is = |list: &str, word: &str| list.split(' ').any(|one| one == word);
        let is_headless = words[index].is_first
            && is(HEADLESS, words[index].text)
            && !is_question(&words[index..]);
        let is_pronoun = is(BEFORE_ONE, &first)
            && (second == "one" || second == "ones")
            && !is(AFTER_ONE, &third);
        let is_because =
            words[index].text.ends_with(',') && second == "for" && is(AFTER_FOR, &third);
        let is_pair = PAIRS.split(", ").any(|pair| pair.split_once(' ') == Some((&first, &second)));
        let found = [is_headless, is_pronoun, is_because, is_pair, is(FOREIGN, &first)];
        lines.extend(found.iter().filter(|found| **found).map(|_| words[index].line));
    }
    lines
}

/// Returns whether the sentence at the start ends with a question mark.
fn is_question(words: &[Word<'_>]) -> bool {
    let end = words.iter().find(|word| word.text.ends_with(['.', ';', ':', '?', '!']));
    end.is_some_and(|word| word.text.ends_with('?'))
}

/// A word in small letters, without marks around it.
fn plain(word: &str) -> String {
    word.trim_matches(|mark: char| !mark.is_alphanumeric()).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::source::sources;

    #[test]
    fn each_habit_is_counted() {
        let table = [
            ("/// Sent behind those of\n/// earlier calls.", 2),
            ("/// What a store says. How long it waits.", 2),
            ("/// It says\n/// What a store says; whether it does.", 0),
            ("// What is that?", 0),
            ("/// - Whether it waits", 1),
            ("/// The other one, the ones.", 2),
            ("/// The first one of two; one second; each one line.", 0),
            ("//! Meanwhile, nobody drew it anew.", 3),
            ("/// The most, at the least; by turns.", 3),
            ("// It waits, for it must; a word for it.", 1),
            ("/// ```\n/// beside\n/// ```\n/// beside", 1),
            ("const A: &str = \"\n// beside\n\"; // beside", 0),
            ("/* beside */", 0),
        ];
        for (text, expected) in table {
            let found = sources(&[("crates/tidegate/src/a.rs", &format!("{text}\nstruct S;"))]);
            assert_eq!(comments(&found).sum(), expected, "{text}");
        }
    }

    #[test]
    fn density_is_that_of_all_words_of_comments() {
        let text = "/// A gate waits beside a door.\nfn f() {}\n// Nothing else, here.\n";
        let found = sources(&[("bench/src/a.rs", text), ("bench/src/b.lua", "-- one more\nx()")]);
        assert_eq!(comments(&found).rows["bench"].remark, "90.9 per 1,000 words");
    }

    #[test]
    fn retired_names_are_whole_names_of_code() {
        let rust = "// met\nfn met(room: u8, met_by: Told) { x!(room, \"told\") }";
        let found = sources(&[("fuzz/a.rs", rust), ("fuzz/a.lua", "local room = 1 -- met")]);
        let count = retired(&found);
        assert_eq!((count.sum(), count.summary.as_str()), (4, "met 1, room 3"));
    }
}
