//! Records of reservations of the store for tests, which a gate writes, claims and extends by name.

use std::collections::BTreeMap;

use tidegate_core::{Micros, Timestamp};

use crate::store::{RecordReply, RecordVerb};

/// Records by name.
#[derive(Debug, Default)]
pub(super) struct FakeRecords(BTreeMap<Vec<u8>, FakeRecord>);

#[derive(Debug)]
struct FakeRecord {
    content: Vec<u8>,
    claimed_by: Option<u64>,
    ends: Timestamp,
}

impl FakeRecords {
    pub(super) fn run(&mut self, name: &[u8], verb: RecordVerb<'_>, now: Timestamp) -> RecordReply {
        self.0.retain(|_, record| record.ends > now);
        if let RecordVerb::Write { content, life } = verb {
            let ends = now.plus(Micros::from(life));
            self.0.entry(name.to_vec()).or_insert_with(|| FakeRecord {
                content: content.to_vec(),
                claimed_by: None,
                ends,
            });
        }
        let Some(record) = self.0.get_mut(name) else { return RecordReply::Unknown };
        match (verb, record.claimed_by) {
            (RecordVerb::Claim { by }, None) => record.claimed_by = Some(by),
            // The same claim, sent again because its reply was lost.
            (RecordVerb::Claim { by }, Some(first)) if by == first => {}
            (_, Some(_)) => return RecordReply::Claimed,
            (RecordVerb::Read, None) => {
                let left = record.ends.since(now).as_duration();
                return RecordReply::Content(record.content.clone(), left);
            }
            (RecordVerb::Extend { life }, None) => record.ends = now.plus(Micros::from(life)),
            // A record that is there stays as it is.
            (RecordVerb::Write { .. }, None) => {}
        }
        RecordReply::Done
    }
}
