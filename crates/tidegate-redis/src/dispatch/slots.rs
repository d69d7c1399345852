//! Which node of a cluster serves which slot, as `CLUSTER SLOTS` reports it.

use redis::Value;

use crate::keys::slot_of;
use crate::link::NodeAddress;

/// A range of slots and the primary that serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) node: NodeAddress,
}

/// Reads the reply to `CLUSTER SLOTS` of the node `asked`, whose host stands in for one that the
/// reply leaves out. Empty if the reply has no range.
pub(super) fn ranges_of(reply: &Value, asked: &NodeAddress) -> Vec<Range> {
    let Value::Array(ranges) = reply else { return Vec::new() };
    let mut ranges: Vec<_> = ranges.iter().filter_map(|range| range_of(range, asked)).collect();
    ranges.sort_unstable_by_key(|range| range.first);
    ranges
}

fn range_of(range: &Value, asked: &NodeAddress) -> Option<Range> {
    let Value::Array(parts) = range else { return None };
    // The first and the last slot, the primary, and then the replicas.
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = parts.as_slice() else {
        return None;
    };
    let [host, Value::Int(port), ..] = primary.as_slice() else { return None };
    let host = match host {
        Value::BulkString(host) => String::from_utf8(host.clone()).ok()?,
        Value::SimpleString(host) => host.clone(),
        _ => String::new(),
    };
    // A node that does not know its own address says nothing or `?`.
    let host = if host.is_empty() || host == "?" { asked.0.clone() } else { host };
    let node = (host, u16::try_from(*port).ok()?);
    Some(Range { first: u16::try_from(*first).ok()?, last: u16::try_from(*last).ok()?, node })
}

/// The number of slots in these ranges.
pub(super) fn slots_in(ranges: &[(u16, u16)]) -> usize {
    ranges.iter().map(|(first, last)| usize::from(last.saturating_sub(*first)) + 1).sum()
}

/// Tags in these slots, each with its slot; none if there is no slot.
pub(super) fn tags_in(ranges: &[(u16, u16)]) -> impl Iterator<Item = (u16, String)> {
    // Among this many texts there is almost certainly one for each slot.
    let most = if ranges.is_empty() { 0 } else { 1_000_000 };
    let tags = (0..most).map(|number| format!("{{{number}}}"));
    tags.map(|tag| (slot_of(tag.as_bytes()), tag))
        .filter(|(slot, _)| ranges.iter().any(|(first, last)| (*first..=*last).contains(slot)))
}

/// The number of slots, and a tag of one of them under which a script on that node counts keys.
/// Empty if there is none.
pub(super) fn part_of(ranges: &[(u16, u16)]) -> Vec<u8> {
    let tag = tags_in(ranges).next();
    tag.map_or_else(Vec::new, |(_, tag)| format!("{}{tag}", slots_in(ranges)).into_bytes())
}

/// The node that a `MOVED` or `ASK` names: `"host:port"`, where an empty host stands for the host of the node `by`.
pub(super) fn node_of(named: &str, by: &NodeAddress) -> Option<NodeAddress> {
    let (host, port) = named.rsplit_once(':')?;
    let host = if host.is_empty() { by.0.clone() } else { host.to_owned() };
    Some((host, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_its_slots_and_a_tag_that_lives_there_and_nothing_where_there_are_none() {
        assert_eq!(part_of(&[]), b"");
        assert_eq!(tags_in(&[]).count(), 0, "and nothing is tried");
        for ranges in [vec![(0, 16_383)], vec![(7, 7)], vec![(3, 3), (16_383, 16_383)]] {
            let part = String::from_utf8(part_of(&ranges)).unwrap();
            let (slots, tag) = part.split_once('{').unwrap();
            assert_eq!(slots, slots_in(&ranges).to_string());
            let slot = slot_of(format!("{{{tag}").as_bytes());
            assert!(ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot)), "{part}");
        }
    }

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn range(first: i64, last: i64, host: Value) -> Value {
        let primary = Value::Array(vec![host, Value::Int(7_000 + first), text("id")]);
        Value::Array(vec![Value::Int(first), Value::Int(last), primary, Value::Array(vec![])])
    }

    #[test]
    fn each_range_has_its_primary_and_a_host_that_is_not_named_is_that_of_who_was_asked() {
        let reply = Value::Array(vec![
            range(8_192, 16_383, text("10.0.0.2")),
            range(0, 8_191, Value::Nil),
            Value::Int(1),
        ]);
        let ranges = ranges_of(&reply, &("10.0.0.1".to_owned(), 7_000));
        let nodes: Vec<_> = ranges.iter().map(|range| (range.first, range.node.clone())).collect();
        assert_eq!(
            nodes,
            [(0, ("10.0.0.1".to_owned(), 7_000)), (8_192, ("10.0.0.2".to_owned(), 15_192))]
        );
        assert_eq!(ranges_of(&Value::Nil, &("a".to_owned(), 1)), []);
    }

    #[test]
    fn a_redirection_names_a_host_and_a_port() {
        let by = ("10.0.0.1".to_owned(), 7_000);
        assert_eq!(node_of("10.0.0.2:7001", &by), Some(("10.0.0.2".to_owned(), 7_001)));
        assert_eq!(node_of("::1:7001", &by), Some(("::1".to_owned(), 7_001)));
        assert_eq!(node_of(":7001", &by), Some(("10.0.0.1".to_owned(), 7_001)));
        assert_eq!(node_of("nowhere", &by), None);
    }
}
