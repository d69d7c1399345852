//! Decisions as counters of the crate `metrics` and as events of the crate `tracing`.
//!
//! `cargo run -p tidegate --features metrics,tracing --example observers`

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use tidegate::{
    AlgorithmKind, Descriptor, Gate, ManualClock, MetricsObserver, Policy, Request, RuleSpec,
    Setup, Spec, TracingObserver,
};

/// In a service this is an exporter, such as the exporter of the crate `metrics-exporter-prometheus`.
#[derive(Clone, Default)]
struct Counters(Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>);

impl Recorder for Counters {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels: Vec<_> = key.labels().map(|label| label.value()).collect();
        let name = format!("{} {}", key.name(), labels.join("/"));
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Counter::from_arc(Arc::clone(counters.entry(name).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let counters = Counters::default();
    metrics::set_global_recorder(counters.clone()).map_err(|error| error.to_string())?;
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).init();

    let spec = Spec::new(AlgorithmKind::SlidingLog, 2, Duration::from_secs(60));
    let policy = Policy::new(vec![RuleSpec::new("per-user", spec).key(["user"])])?;
    let setup = Setup::new(policy)
        .observer(Arc::new(MetricsObserver::new()))
        .observer(Arc::new(TracingObserver::new()));
    let gate = Gate::with_clock(setup, ManualClock::new());

    let entries = [("user", "ada")];
    let descriptors = [Descriptor::new(&entries)];
    let allowed = (0..5).filter(|_| gate.admits(&Request::new("default", &descriptors))).count();
    assert_eq!(allowed, 2);

    let counted = counters.0.lock().unwrap_or_else(PoisonError::into_inner);
    let of = |outcome: &str| {
        let name = format!("tidegate_rule_decisions_total default/per-user/{outcome}");
        counted.get(&name).map(|count| count.load(Relaxed))
    };
    assert_eq!((of("allowed"), of("refused")), (Some(2), Some(3)));
    println!("allowed {:?}, refused {:?}", of("allowed"), of("refused"));
    Ok(())
}
