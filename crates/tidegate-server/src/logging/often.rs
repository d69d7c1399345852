//! A limit on log events of one source line, because events that clients can cause must not fill a disk. It filters
//! each event before the line is written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate::{AlgorithmKind, Clock, Limiter, Spec, SystemClock};
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Level, Metadata};
use tracing_subscriber::layer::{Context, Filter};

/// The target of events that are all logged, because an operator causes each.
pub(crate) const AUDIT: &str = "tidegate::audit";

/// The events of one kind that are logged.
const EVENTS_PER_MINUTE: u64 = 20;

/// Passes a limited number of events of each source line. Events of `debug` and `trace` all pass, because an
/// operator who enables these levels wants all of them. Copies share their counts.
#[derive(Clone, Debug)]
pub(super) struct Often<C = SystemClock> {
    kinds: Arc<Mutex<HashMap<Identifier, SourceLine<C>>>>,
    clock: C,
}

/// The events of one source line.
#[derive(Debug)]
struct SourceLine<C> {
    /// `None` if the rule is invalid, which a test excludes; then all pass.
    limiter: Option<Limiter<C>>,
    place: &'static str,
    withheld: u64,
}

impl<C: Clock + Clone> Often<C> {
    pub(super) fn by(clock: C) -> Self {
        Self { kinds: Arc::default(), clock }
    }

    /// Returns whether an event of this source line is logged now.
    fn lets(&self, kind: &Metadata<'_>) -> bool {
        if !is_bounded(kind) {
            return true;
        }
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kinds.entry(kind.callsite()).or_insert_with(|| SourceLine {
            limiter: limiter(self.clock.clone()),
            place: kind.name(),
            withheld: 0,
        });
        // Each source line has a limiter of its own, so that a frequent event hides no other event.
        let lets = kind.limiter.as_ref().is_none_or(|limiter| limiter.admits(1));
        kind.withheld += u64::from(!lets);
        lets
    }

    /// The number of events withheld since the last call, for each source line.
    pub(super) fn withheld(&self) -> Vec<(&'static str, u64)> {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        let withheld = kinds.values_mut().filter(|kind| kind.withheld > 0);
        withheld.map(|kind| (kind.place, std::mem::take(&mut kind.withheld))).collect()
    }
}

fn limiter<C: Clock>(clock: C) -> Option<Limiter<C>> {
    let spec = Spec::new(AlgorithmKind::TokenBucket, EVENTS_PER_MINUTE, Duration::from_secs(60));
    Limiter::with_clock(spec, clock).ok()
}

/// This does not use `event_enabled`, because withholding an event there affects the next event.
impl<S, C: Clock + Clone> Filter<S> for Often<C> {
    fn enabled(&self, kind: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.lets(kind)
    }

    fn callsite_enabled(&self, kind: &'static Metadata<'static>) -> Interest {
        // Never cached as on or off: a bounded event has to be asked about each time.
        if is_bounded(kind) { Interest::sometimes() } else { Interest::always() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }
}

fn is_bounded(kind: &Metadata<'_>) -> bool {
    kind.is_event() && *kind.level() <= Level::INFO && kind.target() != AUDIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::ManualClock;
    use tracing::Event;
    use tracing_subscriber::layer::{Layer, SubscriberExt};
    use tracing_subscriber::registry;

    /// Counts the events that reach it.
    #[derive(Clone, Default)]
    struct Counts(Arc<Mutex<Vec<Level>>>);

    impl<S: tracing::Subscriber> Layer<S> for Counts {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            self.0.lock().unwrap().push(*event.metadata().level());
        }
    }

    #[test]
    fn a_kind_of_event_that_comes_without_end_is_bounded_and_counted_and_others_are_not() {
        let (clock, counts) = (ManualClock::new(), Counts::default());
        let often = Often::by(clock.clone());
        let subscriber = registry().with(counts.clone().with_filter(often.clone()));
        tracing::subscriber::with_default(subscriber, || {
            let flood = |times: u64| (0..times).for_each(|_| tracing::warn!("of a stranger"));
            let came = || counts.0.lock().unwrap().len() as u64;
            flood(3_500);
            tracing::error!("another kind");
            (0..50).for_each(|_| tracing::debug!("asked for"));
            (0..50).for_each(|_| tracing::info!(target: AUDIT, "of an operator"));
            assert_eq!(came(), EVENTS_PER_MINUTE + 1 + 100);
            let withheld = often.withheld();
            assert_eq!((withheld.len(), withheld[0].1), (1, 3_500 - EVENTS_PER_MINUTE));
            assert!(withheld[0].0.contains("often.rs"), "{withheld:?}");
            assert_eq!(often.withheld(), [], "each is told once");
            clock.advance(Duration::from_secs(60));
            flood(EVENTS_PER_MINUTE);
            assert_eq!((came(), often.withheld()), (2 * EVENTS_PER_MINUTE + 101, Vec::new()));
        });
    }
}
