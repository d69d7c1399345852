//! Any input gives a picture or an error: never a panic, never broken XML, and never a mark outside
//! of the page.

#![expect(clippy::expect_used, reason = "helpers of tests may fail the test")]

use proptest::collection::vec;
use proptest::prelude::*;
use roxmltree::Document;
use tidegate_lab::plot::{Bins, Lane, Timeline, bin_width, count_label, svg};

fn instant() -> impl Strategy<Value = u64> {
    prop_oneof![0..100_u64, 0..200_000_000_u64, 0..4_000_000_000_000_000_u64, any::<u64>()]
}

/// Counts of one order of magnitude: none, a few, very many, or any at all.
fn counts(bins: usize) -> impl Strategy<Value = Vec<u64>> {
    let most = prop_oneof![Just(0_u64), Just(20), Just(10_000_000), Just(u64::MAX)];
    most.prop_flat_map(move |most| vec(0..=most, bins))
}

fn even_lane(bins: usize) -> impl Strategy<Value = Lane> {
    let series = || counts(bins);
    let texts = (any::<String>(), any::<String>());
    (texts, series(), series(), proptest::option::of(series()), any::<bool>()).prop_map(
        |((title, note), admitted, refused, leaves, is_shadow)| Lane {
            title,
            note,
            admitted,
            refused,
            is_shadow,
            leaves,
        },
    )
}

fn uneven_lane() -> impl Strategy<Value = Lane> {
    (0..4_usize).prop_flat_map(even_lane)
}

/// Lanes that agree on their bins, and lanes that do not.
fn lanes() -> impl Strategy<Value = Vec<Lane>> {
    prop_oneof![
        3 => (0..60_usize).prop_flat_map(|bins| vec(even_lane(bins), 0..11)),
        1 => vec(uneven_lane(), 0..4),
    ]
}

fn timelines() -> impl Strategy<Value = Timeline> {
    (any::<String>(), any::<String>(), instant(), instant(), lanes()).prop_map(
        |(title, subtitle, start_us, bin_us, lanes)| Timeline {
            title,
            subtitle,
            start_us,
            bin_us,
            own_scales: false,
            lanes,
        },
    )
}

/// Attributes of the whole document that hold numbers, as numbers.
fn numbers(document: &Document<'_>, names: &[&str]) -> Vec<f64> {
    let attributes = document.descendants().flat_map(|node| node.attributes());
    let wanted = attributes.filter(|attribute| names.contains(&attribute.name()));
    let words = wanted.flat_map(|attribute| attribute.value().split([' ', ',']));
    let words = words.filter(|word| !word.is_empty());
    words.map(|word| word.parse().expect("a number")).collect()
}

/// The first or second number of each point of all outlines.
fn points(document: &Document<'_>, which: usize) -> Vec<f64> {
    numbers(document, &["points"]).into_iter().skip(which).step_by(2).collect()
}

proptest! {
    #[test]
    fn no_input_panics_and_every_picture_is_well_formed(timeline in timelines()) {
        if let Ok(picture) = svg(&timeline) {
            let document = Document::parse(&picture);
            prop_assert!(document.is_ok(), "{:?}", document.err());
        }
    }

    #[test]
    fn everything_lies_on_the_page(
        lanes in (1..60_usize).prop_flat_map(|bins| vec(even_lane(bins), 1..11)),
        start_us in 0..4_000_000_000_000_000_u64,
        bin_us in prop_oneof![1..5_000_u64, 1..100_000_000_000_u64],
    ) {
        let timeline = Timeline { start_us, bin_us, lanes, ..Timeline::default() };
        let picture = svg(&timeline);
        prop_assert!(picture.is_ok(), "{:?}", picture.err());
        let picture = picture.unwrap_or_default();
        let document = Document::parse(&picture).expect("well-formed XML");
        let height = numbers(&document, &["height"])[0];
        let across = [numbers(&document, &["x", "x1", "x2"]), points(&document, 0)].concat();
        let down = [numbers(&document, &["y", "y1", "y2"]), points(&document, 1)].concat();
        prop_assert!(across.iter().all(|x| (0.0..=960.0).contains(x)));
        prop_assert!(down.iter().all(|y| (0.0..=height).contains(y)));
        prop_assert!(!picture.contains("NaN") && !picture.contains("inf\""));
    }

    #[test]
    fn a_cover_loses_no_instant_and_can_be_drawn(
        times in vec(0..4_000_000_000_000_000_u64, 1..50),
        target in 1..400_usize,
    ) {
        let (first, last) = (times.iter().min().unwrap(), times.iter().max().unwrap());
        let bins = Bins::cover(*first, *last, target);
        let admitted = bins.tally(times.iter().copied());
        prop_assert!(bins.count <= target);
        prop_assert_eq!(admitted.iter().sum::<u64>(), times.len() as u64);
        let lane = Lane { refused: bins.zeros(), admitted, ..Lane::default() };
        let Bins { start_us, bin_us, .. } = bins;
        let timeline = Timeline { start_us, bin_us, lanes: vec![lane], ..Timeline::default() };
        prop_assert!(svg(&timeline).is_ok());
    }

    #[test]
    fn a_width_divides_the_span_into_at_most_the_target(span_us in any::<u64>(), target in 1..5_000_usize) {
        let width = bin_width(span_us, target);
        prop_assert!(span_us.div_ceil(width) <= target as u64);
    }

    #[test]
    fn a_count_label_is_short(n in any::<u64>()) {
        prop_assert!(count_label(n).len() <= 5);
    }
}
