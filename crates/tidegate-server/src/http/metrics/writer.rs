//! Writes a family of metrics at a time: its description, and a series for each set of labels. It is the only user of
//! the encoder of `prometheus_client`, so `families.rs` is a list of facts.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Unit;
use tidegate::Durations;

/// Labels with their values.
pub(super) type Labels<'a, const N: usize> = [(&'static str, &'a str); N];

/// Writes families, one after another.
pub(super) struct Writer<'a>(pub(super) DescriptorEncoder<'a>);

impl Writer<'_> {
    pub(super) fn counter<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'l, N>, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        each(&mut family, series, |one, count| {
            one.encode_counter::<NoLabelSet, _, u64>(&count, None::<&Exemplar<_, _>>)
        })
    }

    /// A counter with one label, whose values come with the counts.
    pub(super) fn counter_by<'l>(
        &mut self,
        label: &'static str,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (&'l str, u64)>,
    ) -> fmt::Result {
        self.counter(name, help, series.into_iter().map(|(value, count)| ([(label, value)], count)))
    }

    pub(super) fn gauge<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        series: impl IntoIterator<Item = (Labels<'l, N>, u64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        each(&mut family, series, |one, value| one.encode_gauge(&value))
    }

    /// A histogram of seconds.
    pub(super) fn durations<'l, const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (Labels<'l, N>, Durations)>,
    ) -> fmt::Result {
        let kind = MetricType::Histogram;
        let mut family = self.0.encode_descriptor(name, help, Some(&Unit::Seconds), kind)?;
        each(&mut family, series, |one, durations| {
            let buckets = durations.buckets().map(|(most, count)| {
                (most.map_or(f64::INFINITY, |most| most.as_secs_f64()), count)
            });
            let buckets: Vec<_> = buckets.collect();
            let sum = durations.sum().as_secs_f64();
            one.encode_histogram::<NoLabelSet>(sum, durations.count(), &buckets, None)
        })
    }

    /// Facts as labels.
    pub(super) fn info<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: Labels<'static, N>,
    ) -> fmt::Result {
        let family = self.0.encode_descriptor(name, help, None, MetricType::Info)?;
        prometheus_client::metrics::info::Info::new(labels.to_vec()).encode(family)
    }
}

fn each<'l, const N: usize, T>(
    family: &mut MetricEncoder<'_>,
    series: impl IntoIterator<Item = (Labels<'l, N>, T)>,
    write: impl Fn(&mut MetricEncoder<'_>, T) -> fmt::Result,
) -> fmt::Result {
    series.into_iter().try_for_each(|(labels, value)| match N {
        0 => write(family, value),
        _ => write(&mut family.encode_family(&labels)?, value),
    })
}
