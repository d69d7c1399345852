//! The text formats of metrics, which of them a client prefers, and the rewriting of the newer format into the older.
//! [`metrics`](super::metrics) asks for the preference, and rewrites.

use hyper::HeaderMap;
use hyper::header::ACCEPT;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricsFormat {
    /// OpenMetrics 1.0.0, the usual one.
    OpenMetrics,
    /// The format that Prometheus had before, 0.0.4, which every collector reads.
    Text,
}

impl MetricsFormat {
    /// The format that a client prefers by its `Accept`; OpenMetrics if both are alike to it, or neither is accepted.
    pub(super) fn preferred(headers: &HeaderMap) -> Self {
        let fields = headers.get_all(ACCEPT).into_iter().filter_map(|field| field.to_str().ok());
        let ranges: Vec<_> = fields.flat_map(|field| field.split(',')).filter_map(range).collect();
        // A more specific range decides before a higher quality (RFC 9110, 12.5.1).
        let of_text = quality_of(&["text/plain", "text/*", "*/*"], &ranges);
        let of_open =
            quality_of(&["application/openmetrics-text", "application/*", "*/*"], &ranges);
        if of_text > of_open { Self::Text } else { Self::OpenMetrics }
    }

    pub(super) const fn media_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// A media range of `Accept` with its quality in thousandths; `None` if it asks for another version of the text format.
fn range(text: &str) -> Option<(&str, u16)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next()?;
    let mut quality = 1_000;
    for (parameter, value) in parts.filter_map(|part| part.split_once('=')) {
        match parameter.trim().to_ascii_lowercase().as_str() {
            "q" => quality = thousandths(value.trim()),
            "version" if name.eq_ignore_ascii_case("text/plain") => {
                (value.trim().trim_matches('"') == "0.0.4").then_some(())?;
            }
            _ => {}
        }
    }
    Some((name, quality))
}

/// The quality of a media type: of the first of these names that a client has, the most specific first; 0 without any.
fn quality_of(names: &[&str], ranges: &[(&str, u16)]) -> u16 {
    let found = names.iter().find_map(|name| {
        let all = ranges.iter().filter(|(range, _)| range.eq_ignore_ascii_case(name));
        all.map(|(_, quality)| *quality).max()
    });
    found.unwrap_or(0)
}

/// A quality, such as `0.75`, in thousandths; 0 if it is none.
fn thousandths(quality: &str) -> u16 {
    let (whole, part) = quality.split_once('.').unwrap_or((quality, ""));
    // Filled up to three digits, which are thousandths then.
    let part: String = part.chars().chain("000".chars()).take(3).collect();
    match (whole, part.parse::<u16>()) {
        ("1", _) => 1_000,
        ("0", Ok(part)) => part,
        _ => 0,
    }
}

/// The older format of a text in OpenMetrics: a family has the name of its samples, there are no units and no end.
pub(super) fn older(text: &str) -> String {
    let mut older = String::with_capacity(text.len());
    let mut help = None;
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            // The name is written with the line of the type, which decides its suffix.
            help = described.split_once(' ').map(|(_, help)| help);
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some(help) = help.take() {
                older.push_str(&format!("# HELP {name}{suffix} {help}\n"));
            }
            older.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with('#') {
            older.push_str(line);
            older.push('\n');
        }
    }
    older
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn preferred(accept: &[&str]) -> MetricsFormat {
        let mut headers = HeaderMap::new();
        for field in accept {
            headers.append(ACCEPT, HeaderValue::from_str(field).unwrap());
        }
        MetricsFormat::preferred(&headers)
    }

    #[test]
    fn a_client_gets_the_format_that_it_prefers() {
        // The fields of Prometheus 2 and 3, the OpenTelemetry collector, Telegraf, curl, a browser.
        let prometheus = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                          text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        for open in [
            &[][..],
            &["*/*"],
            &[prometheus],
            &["application/openmetrics-text"],
            &["image/png"],
            &["text/plain;version=1.0.0, */*;q=0.1"],
            &["text/plain;q=0.5", "application/openmetrics-text;q=0.6"],
            &["text/plain;q=0"],
        ] {
            assert_eq!(preferred(open), MetricsFormat::OpenMetrics, "{open:?}");
        }
        for text in [
            &["text/plain"][..],
            &["Text/Plain; Version=0.0.4; charset=utf-8"],
            &["text/plain;version=0.0.4;q=1,*/*;q=0.1"],
            &["text/*"],
            &["text/html,application/xhtml+xml,text/*;q=0.9,*/*;q=0.8"],
            &["*/*, application/openmetrics-text;q=0"],
            &["application/openmetrics-text;q=0.5", "text/plain;q=0.875"],
        ] {
            assert_eq!(preferred(text), MetricsFormat::Text, "{text:?}");
        }
    }
}
