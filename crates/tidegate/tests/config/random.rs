//! Random files: any text gives a policy, or mistakes with places inside the text.

use std::fs;
use std::path::Path;
use tidegate::Micros;

use proptest::prelude::*;
use std::time::Duration;
use tidegate::config;

/// All the files of rules that the tests have, right and wrong.
fn files() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config");
    let all = ["right", "wrong"].map(|name| fs::read_dir(folder.join(name)).unwrap());
    let paths = all.into_iter().flatten().map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|ending| ending == "toml"));
    let mut texts: Vec<_> = paths.map(|path| fs::read_to_string(path).unwrap()).collect();
    texts.sort();
    texts
}

/// Pieces that mean something somewhere.
const PIECES: &[&str] = &[
    "[[rule]]",
    "[rule]",
    "[[rule.override]]",
    "[rule.when]",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "\"\"\"",
    "=",
    ",",
    ".",
    "#",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "\\",
    "\\u0000",
    "\0",
    "\u{feff}",
    "é",
    "漢",
    "🦀",
    "-1",
    "0x",
    "1e9",
    "nan",
    "1979-05-27T07:32:00Z",
    "true",
    "limit",
    "window = \"1s\"",
    "rate = \"1/s\"",
    "key = [\"a\"]",
    "match = {a = \"b\"}",
    "rule",
    "name",
    "99999999999999999999",
    "1.5s",
    "*",
    "a.b.c = 1",
];

/// One change: at a place (a share of the text), so many characters out, and a piece in.
type Change = (usize, usize, usize);

fn changed(text: &str, changes: &[Change]) -> String {
    let mut text: Vec<char> = text.chars().collect();
    for (at, out, piece) in changes {
        let at = at % (text.len() + 1);
        let end = (at + out).min(text.len());
        text.splice(at..end, PIECES[piece % PIECES.len()].chars());
    }
    text.into_iter().collect()
}

/// Checks the property that must hold for any text.
fn holds(text: &str) -> Result<(), TestCaseError> {
    let errors = match config::parse("f", text) {
        Ok(policy) => {
            prop_assert!(!policy.rules().is_empty());
            return Ok(());
        }
        Err(errors) => errors,
    };
    let lines: Vec<_> = text.split('\n').map(|line| line.chars().count()).collect();
    let places: Vec<_> = errors.iter().map(|error| (error.line, error.column)).collect();
    prop_assert!(!places.is_empty());
    prop_assert!(places.is_sorted(), "{:?}", places);
    for (line, column) in places {
        prop_assert!((1..=lines.len()).contains(&line), "line {}", line);
        prop_assert!((1..=lines[line - 1] + 1).contains(&column), "column {}", column);
    }
    let message = errors.to_string();
    prop_assert!(
        message.lines().all(|line| !line.contains(|c: char| c.is_control() && c != '\t')),
        "{message:?}"
    );
    prop_assert!(!message.contains("not known why"));
    prop_assert_eq!(Some(errors), config::parse("f", text).err());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        holds(&text)?;
    }

    #[test]
    fn any_heap_of_pieces_is_read_or_refused(pieces in prop::collection::vec(0..PIECES.len(), 0..40)) {
        let text: String = pieces.into_iter().map(|piece| PIECES[piece]).collect();
        holds(&text)?;
    }

    #[test]
    fn any_changed_file_is_read_or_refused(
        file in any::<usize>(),
        changes in prop::collection::vec((any::<usize>(), 0_usize..20, any::<usize>()), 1..6),
    ) {
        let files = files();
        holds(&changed(&files[file % files.len()], &changes))?;
    }

    #[test]
    fn any_length_that_is_shown_is_read_again(us in any::<u64>()) {
        let length = Duration::from_micros(us);
        prop_assert_eq!(config::parse_duration(&Micros::from(length).to_string()), Ok(length));
        if us > 0 {
            prop_assert_eq!(config::parse_rate(&format!("{us}/{}", Micros::from(length))), Ok((us, length)));
        }
    }

    #[test]
    fn any_text_is_a_length_and_a_rate_or_an_error_says_that_it_is_not(text in "\\PC{0,12}|[0-9./ usmhd-]{0,12}") {
        let output = [
            config::parse_duration(&text).err().map(|error| error.to_string()),
            config::parse_rate(&text).err().map(|error| error.to_string()),
        ];
        prop_assert!(output.iter().any(Option::is_some), "no text is both");
        prop_assert!(output.iter().flatten().all(|message| message.contains("expected")));
    }
}
