//! Screens of live views at several widths, drawn without a terminal. After an intended change, `TIDEGATE_BLESS=1`
//! writes `screens.txt` again; read the difference.
#![allow(clippy::unwrap_used)]

use std::{env, fs};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use tidegate::Timestamp;

use super::super::columns::TableColumns;
use super::super::columns::{cut, shares};
use super::super::page::{Page, PageTable};
use super::draw::draw;
use super::view::LiveView;
use crate::failure::Failure;

const SCREENS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/cli/operator/live/screens.txt");

const OF_RULES: TableColumns<'_> = TableColumns {
    headings: &["DOMAIN", "RULE", "MODE", "ASKED/S", "REFUSED/S", "ASKED", "REFUSED 1M"],
    numbers: 3..7,
    least: &[2, 0, 5, 6],
};
const OF_KEYS: TableColumns<'_> =
    TableColumns { headings: &["COUNT", "RULE", "KEY"], numbers: 0..1, least: &[1] };

/// The time `seconds` after the view began.
const fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_700_000_000_000_000 + seconds * 1_000_000)
}

fn cells(row: &[&str]) -> Vec<String> {
    row.iter().map(|cell| (*cell).to_owned()).collect()
}

fn page() -> Page {
    let rules = [
        [
            "default",
            "per-user-and-path-of-the-service",
            "enforce",
            "1388169",
            "12",
            "90210999",
            "40",
        ],
        ["default", "login", "enforce", "31", "7", "4004", "2109"],
        ["pay", "card", "shadow", "0", "0", "17", "0"],
    ];
    let keys = [
        ["~10624", "login", "ip=198.51.100.23, user=\u{1b}[2J\u{202e}ada"],
        ["~16", "card", "card=支付寶支付寶支付寶支付寶支付寶支付寶支付寶"],
    ];
    let table = |title: &str, columns, rows: Vec<_>, most| PageTable {
        title: title.to_owned(),
        columns,
        rows,
        most,
    };
    let rules = rules.iter().map(|row| cells(row)).collect();
    let keys = keys.iter().map(|row| cells(row)).collect();
    Page {
        notice: None,
        tables: vec![
            table("", &OF_RULES, rules, 10),
            table("Refused most in 64 s, of 1 in 16:", &OF_KEYS, keys, usize::MAX),
            table("Asking most: none in the sample of 1 in 16", &OF_KEYS, Vec::new(), usize::MAX),
        ],
    }
}

/// A view with a page after these keys.
fn pressed(keys: &[KeyCode]) -> LiveView {
    let mut view = LiveView::new("tidegate top http://127.0.0.1:8082".to_owned(), true, at(0));
    view.update(Ok(page()), at(1));
    for key in keys {
        assert!(!view.press(KeyEvent::from(*key)));
    }
    view
}

fn typed(text: &str) -> Vec<KeyCode> {
    text.chars().map(KeyCode::Char).collect()
}

fn terminal(view: &mut LiveView, columns: u16, rows: u16, now: Timestamp) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(view, frame, now)).unwrap();
    terminal
}

/// The lines of a screen, without the spaces at their ends.
fn screen(view: &mut LiveView, columns: u16, rows: u16, now: Timestamp) -> String {
    let shown = terminal(view, columns, rows, now).backend().to_string();
    let lines =
        shown.lines().filter_map(|line| line.trim_start_matches('"').rsplit('"').next_back());
    // A quote follows the columns, and then a remark about characters of two columns.
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

#[test]
fn each_screen_is_as_expected() {
    let [mut away, mut away_in_40] = [(); 2].map(|()| {
        let mut away = pressed(&[]);
        away.update(Err(Failure::new("cannot connect to \u{1b}[31m127.0.0.1:8082")), at(5));
        away
    });
    let mut without_store = pressed(&[]);
    without_store.page.notice =
        Some("the store is unavailable: rules decide by their on_store_error".into());
    let mut paused = pressed(&[KeyCode::Char('p')]);
    paused.update(Ok(Page::default()), at(2));
    let mut filtered = pressed(&[typed("/LOG"), vec![KeyCode::Enter]].concat());
    let mut scrolled = pressed(&[]);
    for key in [KeyCode::Down, KeyCode::PageDown, KeyCode::Up] {
        assert!(!scrolled.press(KeyEvent::from(key)));
        let _ = screen(&mut scrolled, 120, 9, at(3));
    }
    let mut screens = String::new();
    for (name, view, columns, rows) in [
        ("40 columns", &mut pressed(&[]), 40, 20),
        ("80 columns", &mut pressed(&[]), 80, 16),
        ("120 columns", &mut pressed(&[]), 120, 16),
        ("200 columns", &mut pressed(&[]), 200, 16),
        ("10 lines", &mut pressed(&[]), 80, 10),
        ("3 lines", &mut pressed(&[]), 80, 3),
        ("sorted by ASKED/S", &mut pressed(&typed("ssss")), 120, 16),
        ("sorted by RULE, the other way round", &mut pressed(&typed("ssr")), 120, 16),
        ("the last column by the arrow to the left", &mut pressed(&[KeyCode::Left]), 120, 16),
        ("scrolled", &mut scrolled, 120, 9),
        ("a filter is typed", &mut pressed(&typed("/lo")), 80, 14),
        ("filtered", &mut filtered, 80, 14),
        ("filtered out", &mut pressed(&typed("/none")), 80, 14),
        ("paused, while a newer page came", &mut paused, 80, 16),
        ("help", &mut pressed(&[KeyCode::Char('?')]), 80, 16),
        ("the server is away", &mut away, 80, 16),
        ("the server is away from 40 columns", &mut away_in_40, 40, 16),
        ("the store is away", &mut without_store, 80, 16),
    ] {
        let shown =
            screen(view, columns, rows, at(if name.starts_with("the server") { 7 } else { 3 }));
        screens.push_str(&format!("=== {name}\n{shown}"));
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown}");
    }
    if env::var_os("TIDEGATE_BLESS").is_some() {
        fs::write(SCREENS, &screens).unwrap();
    }
    assert_eq!(screens, fs::read_to_string(SCREENS).unwrap());
}

#[test]
fn scrolling_stops_at_the_last_row_and_goes_back_at_once() {
    let mut view = pressed(&[]);
    let rows = (0..30).map(|row| cells(&["default", &format!("rule-{row}"), "enforce"])).collect();
    view.page.tables[0] =
        PageTable { title: String::new(), columns: &OF_RULES, rows, most: usize::MAX };
    let shown = screen(&mut view, 120, 20, at(2));
    assert!(shown.contains("rule-0") && !shown.contains("rule-29"), "{shown}");
    for _ in 0..9 {
        assert!(!view.press(KeyEvent::from(KeyCode::PageDown)));
        assert!(!view.press(KeyEvent::from(KeyCode::Char('j'))));
    }
    let last = screen(&mut view, 120, 20, at(2));
    assert!(last.contains("rule-29"), "{last}");
    assert!(!view.press(KeyEvent::from(KeyCode::Up)));
    let before = screen(&mut view, 120, 20, at(2));
    assert!(!before.contains("rule-29") && before.contains("rule-28"), "{before}");
}

#[test]
fn an_outage_is_shown_until_a_page_comes() {
    let mut view = pressed(&[]);
    assert!(view.outage(at(2)).is_none());
    let silent = view.outage(at(9)).unwrap();
    assert_eq!(silent, (at(1), 8, "no answer"));
    view.update(Err(Failure::new("refused")), at(10));
    assert_eq!(view.outage(at(10)).unwrap().2, "refused");
    assert_eq!(view.page.tables.len(), 3, "the last page stays");
    view.update(Ok(page()), at(11));
    assert!(view.outage(at(11)).is_none());
}

#[test]
fn a_pause_ends_with_the_newest_page() {
    let mut view = pressed(&typed("p"));
    view.update(Ok(Page::default()), at(2));
    assert_eq!(view.page.tables.len(), 3);
    assert!(!view.press(KeyEvent::from(KeyCode::Char('p'))));
    assert!(view.page.tables.is_empty());
}

#[test]
fn q_and_control_c_end_the_view_and_a_q_in_a_filter_does_not() {
    let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    for keys in ["", "p", "s", "?"] {
        assert!(pressed(&typed(keys)).press(KeyEvent::from(KeyCode::Char('q'))), "{keys}");
        assert!(pressed(&typed(keys)).press(control_c), "{keys}");
    }
    let mut typing = pressed(&typed("/q"));
    assert_eq!(typing.filter, "q");
    assert!(typing.press(control_c));
    assert!(!typing.press(KeyEvent::from(KeyCode::Esc)));
    assert!(typing.filter.is_empty() && !typing.is_typing);
}

#[test]
fn colours_are_used_only_where_they_are_wanted() {
    let mut view = pressed(&[]);
    view.update(Err(Failure::new("away")), at(2));
    for has_colour in [true, false] {
        view.has_colour = has_colour;
        let terminal = terminal(&mut view, 120, 16, at(3));
        let cells = &terminal.backend().buffer().content;
        let red = cells.iter().filter(|cell| cell.fg == Color::Red).count();
        assert_eq!(red > 0, has_colour);
        assert_eq!(cells.iter().any(|cell| cell.fg != Color::Reset), has_colour);
    }
}

#[test]
fn parts_of_a_length_are_fair_and_no_more_than_the_length() {
    assert_eq!(shares(&[5, 3, 9], 20), [5, 3, 9]);
    assert_eq!(shares(&[50, 3, 9], 20), [9, 3, 8]);
    assert_eq!(shares(&[50, 3, 90], 20), [8, 3, 9]);
    assert_eq!(shares(&[9, 9], 1), [0, 1]);
    assert_eq!(shares(&[], 5), [0; 0]);
}

#[test]
fn a_text_is_cut_at_a_character() {
    assert_eq!(cut("user=ada", 8), "user=ada");
    assert_eq!(cut("user=ada", 5), "user…");
    assert_eq!(cut("支付寶", 4), "支…");
    assert_eq!(cut("ada", 0), "…");
}
