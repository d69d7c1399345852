//! `GET /metrics`: the server's counts since its start as OpenMetrics text, or in the older text format of Prometheus
//! for a client that prefers it.

mod families;
mod format;
mod writer;

use std::fmt;
use std::sync::Arc;

use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

use super::answer::made_apart;
use super::message::HttpResponse;
use super::table::AdmittedRequest;
use crate::limiters::Limiters;
use crate::refusal::{RefusalKind, RequestRefusal};
use format::MetricsFormat;
use writer::Writer;

/// Answers with all families.
pub(super) async fn metrics(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let limiters = Arc::clone(&asked.app.limiters);
    let format = MetricsFormat::preferred(asked.request.headers());
    made_apart(move || written(limiters, format)).await
}

fn written(limiters: Arc<Limiters>, format: MetricsFormat) -> Result<HttpResponse, RequestRefusal> {
    let text = text_of(limiters).map_err(|error| {
        RefusalKind::Internal.because(format!("the metrics cannot be written: {error}"))
    })?;
    let text = match format {
        MetricsFormat::OpenMetrics => text,
        MetricsFormat::Text => format::older(&text),
    };
    let mut response = HttpResponse::new(text.into());
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
    fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // The format depends on `accept`: without this field a cache could give one client the format of another.
    fields.insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

fn text_of(limiters: Arc<Limiters>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(LimiterMetrics(limiters)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

/// Reads the counts when they are asked for.
#[derive(Debug)]
struct LimiterMetrics(Arc<Limiters>);

impl Collector for LimiterMetrics {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        families::write(&self.0, &mut Writer(encoder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use tidegate::config;

    /// A store that does not exist: its families are there before it is.
    const STORE: &str = "[store]\nurl = \"redis://127.0.0.1:1\"\n";
    const RULE: &str = r#"
        [[rule]]
        name = "all"
        algorithm = "token_bucket"
        limit = 1
        window = "1s"
    "#;
    const PAGE: &str = include_str!("../../../../docs/metrics.md");
    const ALERTS: &str = include_str!("../../../../packaging/prometheus/alerts.yml");
    const BOARD: &str = include_str!("../../../../packaging/grafana/tidegate.json");

    fn exposed(toml: &str) -> String {
        let limiters = Limiters::of(config::parse("test", toml).unwrap()).unwrap();
        text_of(Arc::new(limiters)).unwrap()
    }

    /// Each sample of the older format belongs to the family before it, and none is lost.
    #[tokio::test]
    async fn the_older_format_has_every_sample_under_the_name_of_its_family() {
        let text = exposed(&format!("{STORE}{RULE}"));
        let older = format::older(&text);
        let is_sample = |line: &&str| !line.starts_with('#');
        let samples =
            |text: &str| text.lines().filter(is_sample).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(samples(&older), samples(&text));
        let (mut family, mut kind, mut families) = ("", "", 0);
        for line in older.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                (family, kind) = rest.split_once(' ').unwrap();
                families += 1;
                assert!(["counter", "gauge", "histogram", "untyped"].contains(&kind), "{line}");
            } else if line.starts_with('#') {
                assert!(line.starts_with("# HELP "), "{line}");
            } else {
                let name = line.split(['{', ' ']).next().unwrap();
                let part =
                    name.strip_prefix(family).unwrap_or_else(|| panic!("{name} in {family}"));
                let is_part = kind == "histogram" && ["_bucket", "_sum", "_count"].contains(&part);
                assert!(part.is_empty() || is_part, "{name} of {family}, a {kind}");
            }
        }
        let declared = |text: &str| text.matches("# TYPE ").count();
        assert!(families > 10 && families == declared(&text), "{families}");
    }

    /// Each family with its type, in memory and over a store.
    fn families() -> BTreeSet<(String, String)> {
        let text = exposed(RULE) + &exposed(&format!("{STORE}{RULE}"));
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types
            .map(|line| {
                let (name, kind) = line.split_once(' ').unwrap();
                let suffix = match kind {
                    "counter" => "_total",
                    "info" => "_info",
                    _ => "",
                };
                (format!("{name}{suffix}"), kind.to_owned())
            })
            .collect()
    }

    #[tokio::test]
    async fn each_family_is_in_the_page_with_its_type_and_no_other() {
        let rows = PAGE.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let name = cells.next()?.strip_suffix('`')?;
            let is_family = name.starts_with("tidegate_") || name.starts_with("process_");
            is_family.then_some((name.to_owned(), cells.next()?.to_owned()))
        });
        assert_eq!(rows.collect::<BTreeSet<_>>(), families());
    }

    /// The names that a text uses, without the suffixes of a histogram.
    fn used(text: &str) -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names =
            words.filter(|word| word.starts_with("tidegate_") || word.starts_with("process_"));
        let plain = |name: &str| {
            let parts = ["_bucket", "_sum", "_count"].into_iter();
            parts.filter_map(|part| name.strip_suffix(part)).next().unwrap_or(name).to_owned()
        };
        names.map(plain).collect()
    }

    #[tokio::test]
    async fn alerts_and_the_board_use_families_that_exist() {
        let families: BTreeSet<_> = families().into_iter().map(|(name, _)| name).collect();
        for text in [ALERTS, BOARD] {
            let used = used(text);
            assert!(used.len() > 3, "{used:?}");
            assert!(used.is_subset(&families), "{:?}", used.difference(&families));
        }
        assert!(serde_json::from_str::<serde_json::Value>(BOARD).is_ok());
    }

    #[test]
    fn each_alert_is_tested_to_fire_and_to_be_silent() {
        let tests = include_str!("../../../../packaging/prometheus/alerts.test.yml");
        let names = ALERTS.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
        let is_tested = |name: &&str| {
            tests.contains(&format!("alertname: {name}\n"))
                && tests.contains(&format!("alertname: {name}, exp_alerts: []"))
        };
        assert_eq!(names.clone().filter(is_tested).count(), names.count());
    }

    #[test]
    fn a_domain_with_quotes_is_one_label() {
        let odd = format!("{RULE}domain = 'a \"b\" \\ c'");
        let text = exposed(&odd);
        let series = r#"tidegate_rule_keys{domain="a \"b\" \\ c",rule="all"} 0"#;
        assert!(text.contains(series), "{text}");
    }
}
