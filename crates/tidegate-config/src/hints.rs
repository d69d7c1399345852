//! "Did you mean": the nearest name that exists.
//!
//! Sections, fields and values of a file have such hints, and the environment variables of the server.

/// Longer names are not compared: they were not meant, and comparing takes the product of two
/// lengths.
const LONGEST_COMPARED: usize = 64;

/// A name that exists and its other names, as [`plain`] letters.
pub(super) type KnownName = Called<'static>;
/// A name of the file and its other names.
pub(super) type Called<'w> = (&'w str, &'static [&'static str]);

/// The name that was meant: it differs in hyphens or case only, has this as another name, or is a typing mistake away.
pub(super) fn nearest<'w>(given: &str, words: &[Called<'w>]) -> Option<&'w str> {
    let given = plain(given);
    if given.is_empty() || given.len() > LONGEST_COMPARED {
        return None;
    }
    let called =
        |(word, also): &&Called<'w>| plain(word) == given || also.contains(&given.as_str());
    // Another name of a word goes before a word that is only similar.
    let same = words.iter().find(called).map(|(word, _)| *word);
    same.or_else(|| nearly(&given, words))
}

/// The word that was meant, of these.
#[must_use]
pub fn nearest_word<'w>(given: &str, words: &[&'w str]) -> Option<&'w str> {
    let words = words.iter().map(|word| (*word, &[][..]));
    nearest(given, &words.collect::<Vec<_>>())
}

fn nearly<'w>(given: &str, words: &[Called<'w>]) -> Option<&'w str> {
    words
        .iter()
        .map(|(word, _)| (strsim::damerau_levenshtein(given, &plain(word)), *word))
        // Up to a third of the letters may be wrong, and one letter of the shortest names.
        .filter(|(by, word)| *by <= (word.len().max(given.len()) / 3).max(1))
        .min_by_key(|(by, _)| *by)
        .map(|(_, word)| word)
}

/// Its letters and digits in lower case: `max-memory`, `maxMemory` and `MAX_MEMORY` are the same.
fn plain(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The quotes around a name in a message: "sliding_log", `limit`, `[[rule]]`.
pub(super) type Quotes = fn(&str) -> String;
/// Quotes of values.
pub(super) const TEXT: Quotes = |word| format!("\"{word}\"");
/// Quotes of the names of fields.
pub(super) const FIELD: Quotes = |word| format!("`{word}`");

/// The end of a message about a name that does not exist: the nearest name, or else all of them.
pub(super) fn instead(given: &str, words: &[Called<'_>], quoted: Quotes) -> String {
    match nearest(given, words) {
        Some(word) => format!("did you mean {}?", quoted(word)),
        None => format!("expected {}", one_of(words, quoted)),
    }
}

/// "one of `a`, `b`, `c`".
pub(super) fn one_of(words: &[Called<'_>], quoted: Quotes) -> String {
    let all: Vec<_> = words.iter().map(|(word, _)| quoted(word)).collect();
    match all.as_slice() {
        [only] => only.clone(),
        [one, other] => format!("{one} or {other}"),
        _ => format!("one of {}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &[KnownName] = &[
        ("limit", &["max", "quota"]),
        ("max_memory", &[]),
        ("key", &["by"]),
        ("sliding_window", &["sliding"]),
    ];

    #[test]
    fn hyphens_case_other_names_and_typing_mistakes_lead_to_the_word() {
        let meant = [
            ("limt", "limit"),
            ("Limit", "limit"),
            ("maxMemory", "max_memory"),
            ("max-memory", "max_memory"),
            ("max", "limit"),
            ("kye", "key"),
            ("sliding-windw", "sliding_window"),
            ("Sliding", "sliding_window"),
        ];
        for (given, word) in meant {
            assert_eq!(nearest(given, WORDS), Some(word), "{given}");
        }
    }

    #[test]
    fn names_that_are_far_from_all_get_no_hint() {
        let endless = "limit".repeat(1_000);
        for given in ["", "lru", "---", "colour", endless.as_str()] {
            assert_eq!(nearest(given, WORDS), None, "{given}");
        }
    }
}
