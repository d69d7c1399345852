//! Tables are read as written, and invalid ones are refused with the line.

#![allow(clippy::unwrap_used, reason = "a table that is not read is a test that fails")]

use testkit::cases::{Answer, Expect, Step, Verb, parse};

const TOP: &str = "case c\nalgorithm = sliding_log, limit = 2\nwindow = 1s\n\
    at ask | answer remaining retry_after reset_after delay\n";

fn row(text: &str) -> Step {
    parse(&format!("{TOP}{text}\n")).unwrap().remove(0).steps.remove(0)
}

fn refusal(text: &str) -> (usize, String) {
    let error = parse(text).unwrap_err();
    let (line, message) = error.strip_prefix("line ").unwrap().split_once(": ").unwrap();
    (line.parse().unwrap(), message.to_owned())
}

#[test]
fn every_verb_is_read() {
    let verb = |text: &str| row(text).verb;
    assert_eq!(verb("0 3 |"), Verb::Ask(3));
    assert_eq!(verb("0 peek 3 |"), Verb::Peek(3));
    assert_eq!(verb("0 refund 3 |"), Verb::Refund(3));
    assert_eq!(verb("0 settle 3 5 |"), Verb::Settle { reserved: 3, actual: 5 });
    assert_eq!(verb("0 return 2 5ms |"), Verb::Return { units: 2, token: 5_000 });
    assert_eq!(verb("0 renew 5ms |"), Verb::Renew { token: 5_000 });
    assert_eq!(verb("0 reset |"), Verb::Reset);
    let words = [("limit", "5"), ("window", "2s")].map(|(k, v)| (k.into(), v.into()));
    assert_eq!(verb("0 amend limit = 5, window = 2s |"), Verb::Amend(words.into()));
}

#[test]
fn columns_stars_and_the_dash_are_read() {
    let never = Expect {
        answer: Some(Answer::Never),
        remaining: Some(2),
        retry_after_us: Some(None),
        reset_after_us: None,
        delay_us: Some(0),
    };
    let step = row("250ms 3 | never 2 - * 0  # a cost that cannot fit");
    assert_eq!((step.line, step.at_us, step.expect), (5, 250_000, Some(never)));
    assert_eq!(row("0 1 |").expect, None);
    assert_eq!(row("0 1 | * * * * *").expect, Some(Expect::default()));
}

#[test]
fn rules_may_take_several_lines_and_cases_follow_each_other() {
    let two = format!("# a file\n\n{TOP}0 1 |\n\n{}1s 1 |\n", TOP.replace("case c", "case d"));
    let cases = parse(&two).unwrap();
    let heads: Vec<_> = cases.iter().map(|case| (case.title.as_str(), case.line)).collect();
    assert_eq!(heads, [("c", 3), ("d", 9)]);
    assert_eq!(cases[0].policy().unwrap().window_us, 1_000_000);
}

#[test]
fn a_row_that_can_not_be_meant_is_refused_at_its_line() {
    for bad in [
        "0 1",
        "0 |",
        "x 1 |",
        "0 take 1 |",
        "0 1 | maybe 0 0 0 0",
        "0 1 | yes 0 0 0",
        "0 1 | yes 0 1s 0 0",
        "0 1 | no 0 0 0 0",
        "0 1 | no 0 - 0 0",
        "0 1 | never 0 1s 0 0",
        "0 reset | yes 0 0 0 0",
        "0 amend limit |",
        "0 amend limit = 1, limit = 2 |",
    ] {
        assert_eq!(refusal(&format!("{TOP}{bad}\n")).0, 5, "{bad}");
    }
}

#[test]
fn a_case_that_checks_nothing_is_refused() {
    assert_eq!(refusal(TOP), (1, "the case `c` has no steps".into()));
    assert_eq!(refusal(&format!("{TOP}case d\n")).0, 1);
    assert_eq!(refusal("case c\n"), (1, "the case `c` has no rule".into()));
    assert_eq!(refusal("0 1 |\n").0, 1);
    assert_eq!(refusal("case c\nlimit = 2\n0 1 |\n").0, 3);
    assert_eq!(refusal("case c\nlimit = 2\nlimit = 3\n").0, 3);
    assert_eq!(refusal(&format!("{TOP}0 1 |\n{TOP}")).0, 6);
}

#[test]
fn a_rule_that_makes_no_sense_is_refused() {
    let policy = |rule: &str| {
        let rows = TOP.lines().last().unwrap();
        parse(&format!("case c\n{rule}\n{rows}\n0 1 |\n")).unwrap()[0].policy()
    };
    assert!(policy("algorithm = leaky_queue, limit = 1, window = 1s, capacity = 0").is_ok());
    for bad in [
        "limit = 1, window = 1s",
        "algorithm = gcra, limit = 1, window = 1s",
        "algorithm = sliding_log, limit = -1, window = 1s",
        "algorithm = sliding_log, limit = 1, window = 0",
        "algorithm = sliding_log, limit = 1, window = 1s, anchor = first",
        "algorithm = sliding_log, limit = 1, window = 1s, burst = 2",
        "algorithm = sliding_window, limit = 1, window = 1s, buckets = 3",
        "algorithm = leaky_queue, limit = 1, window = 1s",
    ] {
        assert!(policy(bad).is_err(), "{bad}");
    }
}
