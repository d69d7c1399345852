//! Files with a password on a line that is wrong: no error shows it.

use tidegate::config::{self, Section, SectionKind};

const RULE: &str = "[[rule]]\nname = \"r\"\nalgorithm = \"fixed_window\"\nrate = \"5/1s\"\n";

/// Lines that are wrong, each with the marker as its password, and the expected excerpt.
const LINES: &[(&str, &str)] = &[
    // Of other kinds than expected.
    ("[store]\nurls = \"redis://:MARKER@host\"", "urls = ***"),
    ("[store]\nurl = [\"redis://:MARKER@host\"]", "url = ***"),
    ("[store]\nurl = MARKER", "url = ***"),
    ("[store]\nurl = 'MARKER'", "url = ***"),
    ("[store]\npassword = \"MARKER\"", "password = ***"),
    ("[store]\npassword_env = { a = \"MARKER\" }", "password_env = ***"),
    ("[server]\ntoken = \"MARKER\"", "token = ***"),
    ("[server]\ntokens = [\"MARKER\"]", "tokens = ***"),
    ("[server]\ntoken_file = \"MARKER\"", "token_file = ***"),
    ("[server]\nhttp = \"redis://:MARKER@host\"", "http = \"redis://***@host\""),
    ("[server]\nhttp = [\"user:MARKER@host\"]", "http = [\"***@host\"]"),
    ("[server]\nthreads = \"user:MARKER@host\"", "threads = \"***@host\""),
    // In the wrong place.
    ("store = \"redis://:MARKER@host\"", "store = \"redis://***@host\""),
    ("memory = \"redis://user:MARKER@host\"", "memory = \"redis://***@host\""),
    ("revision = \"redis://user:MARKER@host\"", "revision = \"redis://***@host\""),
    ("redis = \"redis://:MARKER@host\" # here", "redis = \"redis://***@host\" # here"),
    ("\"redis://:MARKER@host\" = 5", "\"redis://***@host\" = 5"),
    ("[\"redis://:MARKER@host\"]", "[\"redis://***@host\"]"),
    // Not TOML.
    ("[store]\nurl = redis://:MARKER@host", "url = ***"),
    ("[store]\nurl = \"redis://:MARKER@host", "url = ***"),
    ("[store]\nurl = 'redis://:MARKER@host\"", "url = ***"),
    ("[store]\nurl = \"redis://:MARKER@host\" oops", "url = ***"),
    ("[store]\nurl \"redis://:MARKER@host\"", "url ***"),
    ("[store]\nredis://:MARKER@host", "redis:***"),
    ("[store]\nhost = redis://:MARKER#@host", "host = ***"),
    ("[store]\nhost = redis://:MARKER", "host = ***"),
    ("[store]\nhost = user:MARKER@host", "host = ***"),
    ("[store]\nhost = \"unix:///a?pass=MARKER\" x", "host = ***"),
    ("[store]\npassword = MARKER", "password = ***"),
    ("[store]\npassword = \"MARKER", "password = ***"),
    ("[store]\npassword = \"\"\"\nMARKER", ""),
    ("[store]\npassword = [\n  MARKER\n]", "***"),
    ("[server]\ntoken=MARKER", "token=***"),
    // Names with errors, and other languages' forms.
    ("[store]\npassword: \"MARKER\"", "password: ***"),
    ("[store]\npassword \"MARKER\"", "password ***"),
    ("[store]\npasword = \"MARKER\"", "pasword = ***"),
    ("[store]\nkey = \"MARKER\"", "key = ***"),
    ("[server]\ntoken: MARKER", "token: ***"),
    // Twice.
    ("[store]\nurl = \"redis://a\"\nurl = \"redis://:MARKER@host\"", "url = ***"),
    ("[store]\npassword_env = \"A\"\npassword_file = \"MARKER\"", "password_file = ***"),
    // In a rule.
    ("[[rule]]\nwhen = { token = \"MARKER*a\" }", "when = { token = ***"),
    ("[[rule]]\nwhen = { api_token = [\"MARKER\"] }", "when = { api_token = ***"),
    ("[[rule]]\nwhen = { a = \"redis://:MARKER@*a\" }", "when = { a = \"redis://***@*a\" }"),
    ("[[rule]]\nname = \"redis://:MARKER@host\"", "name = \"redis://***@host\""),
    ("[[rule]]\nalgorithm = \"redis://:MARKER@host\"", "algorithm = \"redis://***@host\""),
    ("[[rule]]\nrate = \"redis://:MARKER@host\"", "rate = \"redis://***@host\""),
    ("[[rule]]\nmode = \"redis://:MARKER@host\"", "mode = \"redis://***@host\""),
    ("[[rule]]\nlimit = \"redis://:MARKER@host\"", "limit = \"redis://***@host\""),
    ("[[rule]]\nwindow = \"redis://:MARKER@host\"", "window = \"redis://***@host\""),
    ("[[rule]]\nmax_memory = \"redis://:MARKER@host\"", "max_memory = \"redis://***@host\""),
];

fn errors(text: &str) -> String {
    let refused = |_: &str, _: &str| Err("expected a file".to_owned());
    let fields = &[
        ("http", SectionKind::Text),
        ("token_file", SectionKind::Text),
        ("threads", SectionKind::Number),
    ];
    let section = Section { name: "server", fields, check: &refused };
    config::parse_with("rules.toml", text, &section).unwrap_err().to_string()
}

#[test]
fn no_password_is_shown_whatever_is_wrong_with_its_line() {
    for (line, expected) in LINES {
        for (text, marker) in [
            (format!("{line}\n{RULE}"), "MARKER"),
            (format!("{RULE}{line}\r\n"), "MARKER"),
            // A password that would show in part if it were cut, and a password whose length would be seen.
            (format!("{line}\n").replace("MARKER", &"MARKER".repeat(50)), "MARKER"),
            (format!("{line}\n").replace("MARKER", "MARKE"), "MARKE"),
        ] {
            let errors = errors(&text);
            assert!(!errors.contains(marker), "{text}\n{errors}");
            assert!(errors.contains(&format!("| {expected}")), "{expected}: {errors}");
        }
    }
}
