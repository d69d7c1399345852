//! An audit of a store's setup for properties that can make limits fail, run whenever a connection is made.

use std::time::Duration;

use redis::Value;
use redis::aio::MultiplexedConnection;

use super::link::send;
use crate::store::{Finding, LEAST_VERSION, StoreError};

/// Clocks of nodes may differ by this much before it is reported; the round trips are part of the
/// difference.
const MOST_APART: Duration = Duration::from_millis(50);

/// Returns the `findings` that were not reported yet, and adds them to `reported`, so that each is reported once.
pub(super) fn new_among(findings: Vec<Finding>, reported: &mut Vec<Finding>) -> Vec<Finding> {
    let before = reported.len();
    for finding in findings {
        if !reported.iter().any(|known| known.is_like(&finding)) {
            reported.push(finding);
        }
    }
    reported[before..].to_vec()
}

/// Every finding about the servers at the end of these connections. A question that a server does
/// not answer gives no finding, unless the user may not ask it.
pub(super) async fn of(mut connections: Vec<MultiplexedConnection>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut clocks = Vec::new();
    for connection in &mut connections {
        match info(connection, "memory").await {
            Ok(memory) => found.extend(evicts(&memory)),
            Err(error) => found.extend(may_not_look(error)),
        }
        let server = info(connection, "server").await.unwrap_or_default();
        found.extend(old_version(&server));
    }
    // In a loop of their own, so that no slower question comes between the readings of two clocks.
    for connection in &mut connections {
        clocks.extend(send(connection, &redis::cmd("TIME")).await.ok());
    }
    found.extend(clocks_apart(clocks.iter().filter_map(instant)));
    found
}

/// A section of the information about a server.
pub(super) async fn info(
    connection: &mut MultiplexedConnection,
    section: &str,
) -> Result<String, StoreError> {
    Ok(match send(connection, redis::cmd("INFO").arg(section)).await? {
        Value::BulkString(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => text,
        _ => String::new(),
    })
}

/// The value of a field of `INFO`.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn may_not_look(error: StoreError) -> Option<Finding> {
    match error {
        StoreError::Denied(message) => Some(Finding::MayNotLook { message }),
        _ => None,
    }
}

fn evicts(info: &str) -> Option<Finding> {
    let limited = field(info, "maxmemory").is_none_or(|bytes| bytes != "0");
    let policy = field(info, "maxmemory_policy")?;
    (limited && policy != "noeviction").then(|| Finding::Evicts { policy: policy.to_owned() })
}

fn old_version(info: &str) -> Option<Finding> {
    let version = field(info, "redis_version")?;
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    let number = (numbers.next()?, numbers.next().unwrap_or(0));
    (number < LEAST_VERSION).then(|| Finding::OldVersion { version: version.to_owned() })
}

fn clocks_apart(clocks: impl Iterator<Item = u64>) -> Option<Finding> {
    let clocks: Vec<_> = clocks.collect();
    let by = clocks.iter().max()?.abs_diff(*clocks.iter().min()?);
    let by = Duration::from_micros(by);
    (by > MOST_APART).then_some(Finding::ClocksApart { by })
}

/// The time in a reply to `TIME`: seconds and microseconds.
fn instant(reply: &Value) -> Option<u64> {
    let Value::Array(parts) = reply else { return None };
    let mut numbers = parts.iter().map(|part| match part {
        Value::BulkString(digits) => std::str::from_utf8(digits).ok()?.parse::<u64>().ok(),
        _ => None,
    });
    numbers.next()??.checked_mul(1_000_000)?.checked_add(numbers.next()??)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evicting_store_is_reported_only_where_memory_is_limited() {
        let info = |bytes, policy| {
            format!("# Memory\r\nmaxmemory:{bytes}\r\nmaxmemory_policy:{policy}\r\n")
        };
        assert_eq!(evicts(&info(0, "allkeys-lru")), None);
        assert_eq!(evicts(&info(1, "noeviction")), None);
        let policy = "volatile-ttl".to_owned();
        assert_eq!(evicts(&info(1, "volatile-ttl")), Some(Finding::Evicts { policy }));
    }

    #[test]
    fn versions_are_compared_by_number() {
        let old = |version| old_version(&format!("redis_version:{version}\r\n")).is_some();
        let olds = ["6.0.16", "5.0", "6.2.0", "7.0.15", "10.1.0", "255.255.255"].map(old);
        assert_eq!(olds, [true, true, false, false, false, false]);
        assert_eq!(old_version("redis_mode:standalone"), None);
    }

    #[test]
    fn clocks_are_reported_only_when_they_differ() {
        let second = 1_000_000;
        assert_eq!(clocks_apart([].into_iter()), None);
        assert_eq!(clocks_apart([5 * second, 5 * second + 50_000].into_iter()), None);
        let by = Duration::from_secs(3_600);
        let found = clocks_apart([5 * second, 3_605 * second].into_iter());
        assert_eq!(found, Some(Finding::ClocksApart { by }));
    }

    #[test]
    fn each_kind_of_finding_is_reported_once() {
        let mut reported = Vec::new();
        let evicts = |policy: &str| Finding::Evicts { policy: policy.to_owned() };
        assert_eq!(new_among(vec![evicts("allkeys-lru")], &mut reported).len(), 1);
        assert_eq!(new_among(vec![evicts("allkeys-lfu")], &mut reported).len(), 0);
        // The nodes of a cluster have the same kinds of findings, in turns.
        let of_node = || [evicts("allkeys-lru"), Finding::OldVersion { version: "6.2".to_owned() }];
        let new = new_among([of_node(), of_node()].concat(), &mut Vec::new());
        assert_eq!(new.len(), 2, "{new:?}");
    }
}
