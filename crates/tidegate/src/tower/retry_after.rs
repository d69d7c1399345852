//! The pause that a response asks its caller for: `Retry-After`, in seconds or as a date, or gRPC's
//! `RetryInfo`.

use std::time::UNIX_EPOCH;

use http::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};
use http::{Response, StatusCode};
use tidegate_core::{Micros, Timestamp};

use super::grpc;

/// The time for which a 429 or 503, or a corresponding gRPC response, asks the caller to pause from `now` on;
/// `None` for other responses, and if the pause is missing or unreadable.
pub(super) fn asked<B>(response: &Response<B>, now: Timestamp) -> Option<Micros> {
    const ASKING: [StatusCode; 2] =
        [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
    let headers = response.headers();
    // First, because a refusal of gRPC has the HTTP status 200.
    if grpc::asks_to_come_later(headers) {
        return grpc::retry_delay(headers).or_else(|| wait(headers, now));
    }
    let asks = ASKING.contains(&response.status());
    wait(headers, now).filter(|_| asks)
}

/// The wait that `Retry-After` asks for. A date is compared with the response's own `Date`, if there is one, because two
/// clocks may differ by more than the wait.
fn wait(headers: &HeaderMap, now: Timestamp) -> Option<Micros> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // More digits than a number holds ask for the longest wait.
        return Some(text.parse().map_or(Micros::MAX, Micros::from_secs));
    }
    // The two dates are of the same clock, so its error does not matter if the response has both.
    let until = date(headers, &RETRY_AFTER)?;
    Some(until.since(date(headers, &DATE).unwrap_or(now)))
}

/// The date in a header field, if it can be read.
fn date(headers: &HeaderMap, name: &HeaderName) -> Option<Timestamp> {
    let text = headers.get(name)?.to_str().ok()?;
    let since_epoch =
        httpdate::parse_http_date(text.trim()).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_micros(u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const NOW: Timestamp = Timestamp::from_micros(784_111_777_000_000);

    fn of(status: u16, fields: &[(&str, &str)]) -> Option<u64> {
        let response = Response::builder().status(status);
        let response = fields.iter().fold(response, |b, (name, value)| b.header(*name, *value));
        asked(&response.body(()).unwrap(), NOW).map(Micros::as_secs_ceil)
    }

    #[test]
    fn seconds_and_dates_are_read() {
        assert_eq!(of(429, &[("retry-after", "120")]), Some(120));
        assert_eq!(of(503, &[("retry-after", " 0 ")]), Some(0));
        assert_eq!(of(429, &[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")]), Some(30));
        assert_eq!(of(429, &[("retry-after", "Sun, 06 Nov 1994 08:49:07 GMT")]), Some(0));
        assert_eq!(
            of(429, &[("retry-after", &"9".repeat(40))]).unwrap(),
            u64::MAX.div_ceil(1_000_000)
        );
    }

    #[test]
    fn a_date_counts_from_the_clock_of_the_one_who_wrote_it() {
        let fields = [
            ("retry-after", "Sun, 06 Nov 1994 07:00:05 GMT"),
            ("date", "Sun, 06 Nov 1994 07:00:00 GMT"),
        ];
        assert_eq!(of(429, &fields), Some(5));
    }

    #[test]
    fn a_call_that_grpc_refuses_asks_by_the_field_where_it_has_no_retry_info() {
        assert_eq!(of(200, &[("grpc-status", "8"), ("retry-after", "3")]), Some(3));
        assert_eq!(of(200, &[("grpc-status", "14"), ("retry-after", "4")]), Some(4));
        assert_eq!(of(200, &[("grpc-status", "8")]), None);
        assert_eq!(of(200, &[("grpc-status", "0"), ("retry-after", "3")]), None);
    }

    #[test]
    fn other_answers_and_other_words_ask_nothing() {
        for text in ["", "soon", "-1", "1.5", "Sun, 06 Nov"] {
            assert_eq!(of(429, &[("retry-after", text)]), None, "{text:?}");
        }
        assert_eq!(of(429, &[]), None);
        assert_eq!(of(200, &[("retry-after", "5")]), None);
        assert_eq!(of(301, &[("retry-after", "5")]), None);
    }
}
