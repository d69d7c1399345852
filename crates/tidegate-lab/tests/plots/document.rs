//! The picture as a document: well-formed, complete, escaped, the same bytes each time.

#![expect(clippy::expect_used, reason = "helpers of tests may fail the test")]

use roxmltree::{Document, Node};
use tidegate_lab::plot::{Bins, Lane, MAX_BINS, MAX_LANES, PlotError, TARGET_BINS, Timeline, svg};

/// 400 requests around a minute's edge: one lane admits all, the other half.
fn edge_burst() -> Timeline {
    let times: Vec<u64> = (0..400).map(|i| 58_500_000 + i * 7_500).collect();
    let bins = Bins::cover(58_500_000, 61_500_000, TARGET_BINS);
    let lane = |title: &str, note: &str, admitted: usize| Lane {
        title: title.into(),
        note: note.into(),
        admitted: bins.tally(times[..admitted].iter().copied()),
        refused: bins.tally(times[admitted..].iter().copied()),
        ..Lane::default()
    };
    Timeline {
        title: "200 per 60 s".into(),
        subtitle: "a burst at the minute's edge".into(),
        start_us: bins.start_us,
        bin_us: bins.bin_us,
        own_scales: false,
        lanes: vec![
            lane("fixed_window", "admitted 400, refused 0", 400),
            lane("sliding_log", "admitted 200, refused 200", 200),
        ],
    }
}

fn flat(bins: usize) -> Lane {
    Lane { admitted: vec![1; bins], refused: vec![0; bins], ..Lane::default() }
}

fn timeline(lanes: Vec<Lane>) -> Timeline {
    Timeline { title: "t".into(), bin_us: 1_000_000, lanes, ..Timeline::default() }
}

const ADMITTED: &str = "#4A86B4";
const REFUSED: &str = "#F9CFB0";

fn text_of(node: Node<'_, '_>) -> String {
    node.text().unwrap_or_default().trim().to_owned()
}

/// The content of each text element, in order.
fn texts(picture: &str) -> Vec<String> {
    let document = Document::parse(picture).expect("well-formed XML");
    let texts = document.descendants();
    texts.filter(|node| node.has_tag_name("text")).map(text_of).collect()
}

fn times(picture: &str, expected: &str) -> usize {
    texts(picture).iter().filter(|text| *text == expected).count()
}

fn has(picture: &str, expected: &str) -> bool {
    times(picture, expected) > 0
}

/// Highest and lowest y of each area of a colour.
fn areas(picture: &str, fill: &str) -> Vec<(i32, i32)> {
    let document = Document::parse(picture).expect("well-formed XML");
    let polygons = document.descendants().filter(|node| node.has_tag_name("polygon"));
    let filled = polygons.filter(|node| node.attribute("fill") == Some(fill));
    filled.filter_map(|node| node.attribute("points")).map(reach).collect()
}

fn reach(points: &str) -> (i32, i32) {
    let ys = points.split_whitespace().filter_map(|point| point.split(',').nth(1));
    let ys: Vec<i32> = ys.map(|y| y.parse().expect("a number")).collect();
    let highest = ys.iter().copied().min().expect("a point");
    (highest, ys.into_iter().max().expect("a point"))
}

#[test]
fn a_picture_has_headline_legend_axes_and_a_heading_for_each_lane() {
    let picture = svg(&edge_burst()).unwrap();
    let all = "200 per 60 s|a burst at the minute's edge|admitted|refused|requests per 20 ms|0:59.0|1:00.0|\
               trace time, minutes:seconds|fixed_window|admitted 400, refused 0|sliding_log|\
               admitted 200, refused 200";
    for expected in all.split('|') {
        assert!(has(&picture, expected), "{expected} in {:?}", texts(&picture));
    }
    assert_eq!(times(&picture, "admitted"), 1, "one legend for all lanes");
    assert_eq!((areas(&picture, ADMITTED).len(), areas(&picture, REFUSED).len()), (2, 1));
}

#[test]
fn a_reader_that_speaks_finds_a_title() {
    let mut timeline = edge_burst();
    timeline.title = "a < b & \"c\" > d ]]>".into();
    let picture = svg(&timeline).unwrap();
    let document = Document::parse(&picture).unwrap();
    let root = document.root_element();
    let title = root.children().find(|node| node.has_tag_name("title"));
    assert_eq!(root.attribute("role"), Some("img"));
    assert_eq!(title.map(text_of), Some(timeline.title));
}

#[test]
fn markup_quotes_control_characters_and_chinese_survive() {
    let mut timeline = edge_burst();
    let title = "<b>\"a\" & 'b'</b> \u{9650}\u{6d41}";
    timeline.title = title.into();
    timeline.lanes[0].title = title.into();
    timeline.lanes[0].note = String::new();
    timeline.lanes[1].note = "two\nlines\0\u{1b}[31m\u{ffff}".into();
    let picture = svg(&timeline).unwrap();
    assert_eq!(times(&picture, title), 2);
    assert!(has(&picture, "two lines  [31m\u{fffd}"), "{:?}", texts(&picture));
}

#[test]
fn a_long_title_and_a_long_note_are_both_cut() {
    let mut timeline = edge_burst();
    timeline.lanes[0].title = "per_key ".repeat(100);
    timeline.lanes[0].note = "worst 60 s ".repeat(100);
    let picture = svg(&timeline).unwrap();
    let cut: Vec<String> =
        texts(&picture).into_iter().filter(|text| text.ends_with('\u{2026}')).collect();
    assert!(cut[0].starts_with("per_key") && cut[1].starts_with("worst"), "{cut:?}");
    assert!(cut.len() == 2 && cut.concat().chars().count() < 200, "{cut:?}");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    assert_eq!(svg(&edge_burst()).unwrap(), svg(&edge_burst()).unwrap());
}

#[test]
fn refused_stands_on_admitted_and_one_scale_serves_all_lanes() {
    let lane = |admitted, refused| Lane {
        admitted: vec![admitted],
        refused: vec![refused],
        ..Lane::default()
    };
    let picture = svg(&timeline(vec![lane(5000, 5000), lane(1000, 0)])).unwrap();
    let (admitted, refused) = (areas(&picture, ADMITTED), areas(&picture, REFUSED));
    let (floor, admitted_top, refused_top) = (admitted[0].1, admitted[0].0, refused[0].0);
    let height = floor - refused_top;
    assert!((height - (floor - admitted_top) * 2).abs() <= 1, "5000 and 5000 are as high");
    let lower = admitted[1].1 - admitted[1].0;
    assert!((height - lower * 10).abs() < 10, "10000 next to 1000");
    assert_eq!(times(&picture, "10k"), 2);
}

#[test]
fn a_lane_with_a_scale_of_its_own_is_as_high_as_a_busy_one() {
    let lane = |admitted| Lane { admitted: vec![admitted], refused: vec![0], ..Lane::default() };
    let mut both = timeline(vec![lane(1), lane(1_000)]);
    let heights = |picture: &str| -> Vec<i32> {
        areas(picture, ADMITTED).iter().map(|(high, low)| low - high).collect()
    };
    let shared = heights(&svg(&both).unwrap());
    assert!(shared[0] * 10 < shared[1], "{shared:?}");
    both.own_scales = true;
    let own = heights(&svg(&both).unwrap());
    assert_eq!(own[0], own[1]);
}

#[test]
fn a_rule_in_shadow_mode_is_hatched_and_has_its_own_entry_in_the_legend() {
    let lane =
        |is_shadow| Lane { admitted: vec![1], refused: vec![1], is_shadow, ..Lane::default() };
    let picture = svg(&timeline(vec![lane(false), lane(true)])).unwrap();
    assert_eq!(
        (areas(&picture, REFUSED).len(), areas(&picture, "url(#would-refuse)").len()),
        (1, 1)
    );
    assert!(has(&picture, "refused") && has(&picture, "would be refused (shadow)"));
    let picture = svg(&timeline(vec![lane(true)])).unwrap();
    assert!(!has(&picture, "refused"));
}

#[test]
fn departures_are_a_line_and_enter_the_legend_and_the_scale() {
    let mut lane = flat(3);
    let without = svg(&timeline(vec![lane.clone()])).unwrap();
    lane.leaves = Some(vec![0, 1, 40]);
    let with = svg(&timeline(vec![lane])).unwrap();
    let lines = |picture: &str| picture.matches("stroke-width=\"2\"").count();
    assert!(!has(&without, "leaving the queue") && lines(&without) == 0);
    assert!(has(&with, "leaving the queue") && lines(&with) == 2, "one in the legend, one drawn");
    assert!(has(&with, "40") && !has(&without, "40"));
}

#[test]
fn one_request_beside_ten_million_still_shows() {
    let mut lane = flat(2);
    lane.admitted = vec![10_000_000, 0];
    lane.refused = vec![0, 1];
    let picture = svg(&timeline(vec![lane])).unwrap();
    let (high, low) = areas(&picture, REFUSED)[0];
    assert!(low - high >= 1, "{high} {low}");
    assert!(has(&picture, "10M"));
}

#[test]
fn an_empty_trace_says_so_with_lanes_or_without() {
    for lanes in [vec![], vec![Lane::default(), Lane::default()]] {
        let timeline = Timeline { title: "t".into(), lanes, ..Timeline::default() };
        assert!(has(&svg(&timeline).unwrap(), "no requests in this trace"));
    }
}

#[test]
fn only_a_lane_of_zeros_says_no_requests() {
    let mut quiet = flat(4);
    quiet.admitted = vec![0; 4];
    let picture = svg(&timeline(vec![flat(4), quiet])).unwrap();
    assert_eq!(times(&picture, "no requests"), 1);
}

#[test]
fn a_real_log_is_labelled_in_utc_with_its_date() {
    let mut timeline = timeline(vec![flat(60)]);
    timeline.start_us = 1_741_946_700_000_000;
    timeline.bin_us = 60_000_000;
    let picture = svg(&timeline).unwrap();
    assert!(has(&picture, "10:10") && has(&picture, "14 March 2025, UTC"), "{:?}", texts(&picture));
}

#[test]
fn odd_input_is_an_error_that_says_where_and_what() {
    let mut short = flat(3);
    short.title = "login".into();
    short.refused.pop();
    let mut late = flat(3);
    late.leaves = Some(vec![0; 5]);
    let with =
        |start_us, bin_us, lanes| Timeline { start_us, bin_us, lanes, ..Timeline::default() };
    let table = [
        (with(0, 1, vec![flat(3), short]), "lane 1 (\"login\"): `refused` has 2 bins, expected 3"),
        (with(0, 1, vec![late]), "`leaves` has 5 bins, expected 3"),
        (with(0, 1, vec![flat(3), flat(4)]), "lane 1 (\"\"): `admitted` has 4 bins"),
        (with(0, 0, vec![flat(3)]), "bin_us is 0"),
        (with(0, 1, vec![flat(MAX_BINS + 1)]), "4097 bins, expected at most 4096"),
        (with(0, 1, vec![flat(1); MAX_LANES + 1]), "65 lanes, expected at most 64"),
        (with(u64::MAX, 1, vec![flat(1)]), "end after the last time"),
        (with(0, u64::MAX, vec![flat(2)]), "end after the last time"),
    ];
    for (timeline, expected) in table {
        let said = svg(&timeline).map_err(|error: PlotError| error.to_string());
        assert!(said.as_ref().is_err_and(|said| said.contains(expected)), "{expected}: {said:?}");
    }
}
