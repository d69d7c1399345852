//! Records of reservations inside Redis: one key for each, in a slot of its own.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::client::Client;
use crate::keys::record_key;
use crate::script::{Call, JoinedScript, RedisReply};
use crate::store::{RecordReply, RecordVerb, StoreError};

static RESERVED: LazyLock<Arc<JoinedScript>> = LazyLock::new(|| Arc::new(JoinedScript::reserved()));

/// Runs the operation on the record of that name.
pub(super) async fn run_on_record(
    client: &Client,
    name: &[u8],
    verb: RecordVerb<'_>,
) -> Result<RecordReply, StoreError> {
    let args = match verb {
        RecordVerb::Write { content, life } => {
            vec![b"write".to_vec(), content.to_vec(), milliseconds(life)]
        }
        RecordVerb::Read => vec![b"read".to_vec()],
        RecordVerb::Claim { by } => vec![b"claim".to_vec(), by.to_string().into_bytes()],
        // The script takes a life as its third argument, and this verb has no second.
        RecordVerb::Extend { life } => vec![b"extend".to_vec(), Vec::new(), milliseconds(life)],
    };
    let key = record_key(&client.settings().key_prefix, name);
    let call = Call::of_script(&RESERVED, vec![key], args);
    match client.run(&call, client.deadline()).await? {
        RedisReply::Int(0) => Ok(RecordReply::Unknown),
        RedisReply::Int(1) => Ok(RecordReply::Done),
        RedisReply::Int(2) => Ok(RecordReply::Claimed),
        // From the end: the rest of its life, then the content.
        RedisReply::Array(mut both) => match (both.pop(), both.pop()) {
            (Some(RedisReply::Int(left)), Some(RedisReply::Bytes(content))) => {
                let left = Duration::from_millis(u64::try_from(left).unwrap_or_default());
                Ok(RecordReply::Content(content, left))
            }
            _ => Err(StoreError::Answer("no record".to_owned())),
        },
        other => Err(StoreError::Answer(format!("{other:?} for a record"))),
    }
}

/// A record lives at least a millisecond.
fn milliseconds(life: Duration) -> Vec<u8> {
    life.as_millis().max(1).to_string().into_bytes()
}
