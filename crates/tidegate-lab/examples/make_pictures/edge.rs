//! The minute's edge: the units of the last minute, as two algorithms admit them.

use std::error::Error;
use std::time::Duration;

use tidegate::{AlgorithmKind, Policy, RuleSpec, Spec};
use tidegate_lab::replay::Replay;
use tidegate_lab::trace::builtin::minute_edge;

use crate::drawing::Drawing;

const LIMIT: u64 = 200;
const WINDOW_US: u64 = 60_000_000;
/// The span that is drawn, and the distance of its points.
const FROM_US: u64 = 58_500_000;
const TO_US: u64 = 61_500_000;
const STEP_US: u64 = 20_000;

const LEFT: f64 = 70.0;
const RIGHT: f64 = 580.0;
const TOP: f64 = 84.0;
const BOTTOM: f64 = 304.0;

/// The times at which an algorithm admitted the requests of the built-in trace.
fn admitted(algorithm: AlgorithmKind) -> Result<Vec<u64>, Box<dyn Error>> {
    let spec = Spec::new(algorithm, LIMIT, Duration::from_micros(WINDOW_US));
    let replay = Replay::new(Policy::new(vec![RuleSpec::new("demo", spec).key(["key"])])?);
    let trace = minute_edge();
    let admitted = trace.iter().filter(|event| replay.decide(event).is_allowed());
    Ok(admitted.map(|event| event.at_us).collect())
}

fn x(at_us: u64) -> f64 {
    LEFT + (RIGHT - LEFT) * (at_us - FROM_US) as f64 / (TO_US - FROM_US) as f64
}

fn y(units: u64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * units as f64 / (2 * LIMIT) as f64
}

pub(crate) fn picture() -> Result<String, Box<dyn Error>> {
    let title = "Across the edge of a minute a fixed window admits twice its limit";
    let mut drawing = Drawing::new(760, 352, title);
    drawing.text("ink", 17, "start", (LEFT, 30.0), title);
    let subtitle = "Units admitted within the last minute, at 200 per minute; 400 requests come within two seconds";
    drawing.text("grey", 13, "start", (LEFT, 52.0), subtitle);
    for units in [0, 100, LIMIT, 300, 2 * LIMIT] {
        drawing.line("grid", 1.0, "", &[(LEFT, y(units)), (RIGHT, y(units))]);
        drawing.text("grey", 12, "end", (LEFT - 8.0, y(units) + 4.0), units);
    }
    for second in [59, 60, 61] {
        let at = x(second * 1_000_000);
        drawing.line("grid", 1.0, "", &[(at, TOP), (at, BOTTOM)]);
        drawing.remark(at, BOTTOM + 18.0, format!("{}:{:02}", second / 60, second % 60));
    }
    let edge = x(WINDOW_US);
    drawing.line("line", 1.0, "3 3", &[(edge, TOP), (edge, BOTTOM)]);
    drawing.remark(edge, BOTTOM + 36.0, "the minute's edge");
    drawing.text("red", 12, "start", (LEFT + 6.0, y(LIMIT) - 7.0), "limit 200");
    for (algorithm, line, text) in
        [(AlgorithmKind::FixedWindow, "a", "orange"), (AlgorithmKind::SlidingLog, "b", "blue")]
    {
        let times = admitted(algorithm)?;
        let within = |at: u64| {
            times.iter().filter(|time| **time <= at && at < **time + WINDOW_US).count() as u64
        };
        let counts = (FROM_US..=TO_US).step_by(STEP_US as usize).map(|at| (at, within(at)));
        let points: Vec<_> = counts.clone().map(|(at, units)| (x(at), y(units))).collect();
        drawing.line(line, 2.5, "", &points);
        let most = counts.map(|(_, units)| units).max().unwrap_or_default();
        let end = y(within(TO_US));
        drawing.text(text, 14, "start", (RIGHT + 8.0, end - 2.0), algorithm);
        drawing.text("grey", 13, "start", (RIGHT + 8.0, end + 15.0), format!("at most {most}"));
    }
    drawing.line("limit", 1.5, "7 4", &[(LEFT, y(LIMIT)), (RIGHT, y(LIMIT))]);
    Ok(drawing.end())
}
