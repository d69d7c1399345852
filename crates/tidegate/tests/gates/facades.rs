//! The observers for the facade crates: their counts and events, which never name a caller.
#![cfg(all(feature = "metrics", feature = "tracing"))]

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tidegate::{
    AlgorithmKind, Descriptor, Gate, ManualClock, MetricsObserver, Mode, Observer, Policy, Request,
    RuleSpec, Setup, Spec, TracingObserver,
};

fn window(name: &str, limit: u64) -> RuleSpec {
    let spec = Spec::new(AlgorithmKind::FixedWindow, limit, Duration::from_secs(3_600));
    RuleSpec::new(name, spec).key(["user"])
}

/// Asks twice under a rule in force and a rule in shadow mode, before and after the policy is replaced.
fn observed(observer: impl Observer + 'static) {
    let policy =
        || Policy::new(vec![window("tight", 1), window("tried", 1).mode(Mode::Shadow)]).unwrap();
    let gate =
        Gate::with_clock(Setup::new(policy()).observer(Arc::new(observer)), ManualClock::new());
    let request = Request::from(Descriptor::new(&[("user", "a-caller")]));
    assert!(gate.check(&request).is_allowed());
    gate.replace(policy()).unwrap();
    assert!(!gate.check(&request).is_allowed());
}

/// The counters that were registered, by name and labels.
#[derive(Clone, Default)]
struct Registered(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Recorder for Registered {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        let name = key.name().to_owned() + &labels.collect::<String>();
        Counter::from_arc(Arc::clone(self.0.lock().unwrap().entry(name).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn decisions_are_counted_in_the_recorder_through_policies() {
    let registered = Registered::default();
    metrics::with_local_recorder(&registered, || observed(MetricsObserver::new()));
    let counters = registered.0.lock().unwrap();
    let counted = counters.iter().map(|(name, count)| (name.as_str(), count.load(Relaxed)));
    let counted: Vec<_> = counted.filter(|(_, count)| *count > 0).collect();
    let of = |rule_and_outcome: &str| {
        format!("tidegate_rule_decisions_total domain=default {rule_and_outcome}")
    };
    let expected = [
        of("rule=tight outcome=allowed"),
        of("rule=tight outcome=refused"),
        of("rule=tried outcome=shadow_allowed"),
        of("rule=tried outcome=shadow_refused"),
    ];
    assert_eq!(counted, expected.each_ref().map(|name| (name.as_str(), 1)));
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn refusals_are_events_at_debug_and_the_rest_at_trace() {
    let written = Written::default();
    let writer = written.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || observed(TracingObserver::new()));
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let begins = |level: &str, rule: &str, outcome: &str| {
        format!(
            "{level} tidegate: decision domain=\"default\" rule=\"{rule}\" outcome=\"{outcome}\" cost=1"
        )
    };
    let expected = [
        begins("TRACE", "tight", "allowed"),
        begins("TRACE", "tried", "shadow_allowed"),
        begins("DEBUG", "tight", "refused"),
        begins("DEBUG", "tried", "shadow_refused"),
    ];
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.starts_with(expected), "{line}");
    }
    assert!(lines[2].contains("limit=1 remaining=0 retry_after_us="), "{}", lines[2]);
    assert!(!text.contains("a-caller"), "{text}");
}
