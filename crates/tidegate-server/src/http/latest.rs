//! The statistics that all streams of `GET /v1/stats/events` without a filter send, made once a second for all of
//! them.

use std::time::Duration;

use hyper::body::Bytes;
use tidegate::Timestamp;
use tokio::sync::Mutex;

/// Statistics of this age are still sent: less than the time between two events, so that no stream sends any twice.
const NEW: Duration = Duration::from_millis(500);

/// The statistics that streams without a filter send: made by one of them, and sent by all while they are new.
#[derive(Debug, Default)]
pub(super) struct Latest(Mutex<Option<(Timestamp, Bytes)>>);

impl Latest {
    /// Returns those made within [`NEW`] of `now`, else makes others; `None` if they cannot be made.
    pub(super) async fn get(
        &self,
        now: Timestamp,
        make: impl Future<Output = Option<Bytes>>,
    ) -> Option<Bytes> {
        // Held while statistics are made, so that other streams wait for them and make none themselves.
        let mut latest = self.0.lock().await;
        if let Some((made, json)) = &*latest
            // `now` follows the wall clock, which may be set back: these statistics would be sent until it catches up.
            && now.as_micros().abs_diff(made.as_micros()) < NEW.as_micros() as u64
        {
            return Some(json.clone());
        }
        let json = make.await?;
        *latest = Some((now, json.clone()));
        Some(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[tokio::test]
    async fn all_streams_send_what_one_has_made() {
        let latest = Latest::default();
        let made = AtomicU64::new(0);
        let make = async || Some(Bytes::from(made.fetch_add(1, Relaxed).to_string()));
        let second = |second: u64| Timestamp::from_micros(second * 1_000_000);
        for each in 1..=5 {
            for _ in 0..32 {
                let json = latest.get(second(each), make()).await.unwrap();
                assert_eq!(json, (each - 1).to_string());
            }
        }
        // A clock that steps back makes others as well.
        assert_eq!(latest.get(second(2), make()).await.unwrap(), "5");
        assert_eq!(latest.get(second(9), async { None }).await, None);
        assert_eq!(made.load(Relaxed), 6);
    }
}
