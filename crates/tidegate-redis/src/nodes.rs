//! The list of the nodes that share a store: each keeps itself listed while it lives, and sees how
//! many there are.
//!
//! It is one sorted set: a member for each node, whose score is when it expires by the store's
//! clock. The next node removes members that have expired, and the key itself expires with the last
//! of them. One key is one step, in a cluster too. The script uses only commands that decisions use
//! as well, so it needs no more rights.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::client::{Client, Ends};
use super::error::lasts;
use super::script::{Call, JoinedScript, RedisReply};
use crate::store::StoreError;

/// The pauses between two beats of a node, and after one that failed.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(200));
/// The time that a node counts after its last beat, in milliseconds.
const LIFE_MS: u64 = 5_000;
/// The longest time of one beat. No caller waits for it, and load must not take a node off the list.
const DEADLINE: Duration = Duration::from_secs(1);

/// Lists a node, or removes it if its time to live is 0. Returns the number of nodes, the number of nodes before this
/// node in a stable order, and whether it was newly added.
static BEAT: LazyLock<Arc<JoinedScript>> = LazyLock::new(|| {
    // A node leaves with the lowest score, by its rank, so that scripts need no right to another command.
    let text = "\
local call, key, node, life = redis.call, KEYS[1], ARGV[1], tonumber(ARGV[2])
if life == 0 then
call('ZADD', key, '0', node)
call('ZREMRANGEBYRANK', key, '0', '0')
return 0
end
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local expired = call('ZCOUNT', key, '-inf', string.format('%d', now))
if expired > 0 then call('ZREMRANGEBYRANK', key, '0', expired - 1) end
local expires = string.format('%d', now + life)
local added = call('ZADD', key, expires, node)
call('PEXPIREAT', key, expires)
local before, nodes = 0, call('ZRANGE', key, '0', '-1')
for _, other in ipairs(nodes) do if other < node then before = before + 1 end end
return {#nodes, before, added}";
    Arc::new(JoinedScript::new(text.to_owned()))
});

/// A node in the list.
#[derive(Debug)]
pub(crate) struct Listed {
    key: [Vec<u8>; 1],
    node: Vec<u8>,
    /// True if it has left; locked while the store is asked.
    left: Mutex<bool>,
}

/// The result of a beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BeatResult {
    pub(crate) nodes: u64,
    /// The number of nodes before this node.
    pub(crate) rank: u64,
}

impl Listed {
    /// Keeps a new node in the list as long as the client exists; calls `notify` after every change
    /// of the list, on a thread that may block.
    pub(crate) fn begin(
        client: &Client,
        notify: impl Fn(BeatResult) + Send + Sync + 'static,
    ) -> Arc<Self> {
        // Differs from the key of every limiter.
        let key = [format!("{}?nodes", client.settings().key_prefix).into_bytes()];
        let high = RandomState::new().hash_one(0_u8);
        let low = RandomState::new().hash_one(1_u8);
        let node = format!("{high:016x}{low:016x}").into_bytes();
        let listed = Arc::new(Self { key, node, left: Mutex::new(false) });
        let beats = beats(Arc::downgrade(&client.0), Arc::clone(&listed), Arc::new(notify));
        client.runtime().spawn(beats);
        listed
    }

    /// Removes the node from the list, for good.
    ///
    /// # Errors
    /// The store did not reply: the node expires there.
    pub(crate) async fn leave(&self, client: &Client) -> Result<(), StoreError> {
        // The lock waits for a beat under way: the store would list the node again if the beat came after this.
        let mut left = self.left.lock().await;
        if !*left {
            *left = true;
            let deadline = client.deadline().min(Instant::now() + DEADLINE);
            self.ask(client, 0, deadline).await?;
        }
        Ok(())
    }

    /// `None` after the node has left.
    async fn beat(&self, client: &Client) -> Option<Result<(BeatResult, bool), StoreError>> {
        let left = self.left.lock().await;
        if *left {
            return None;
        }
        let reply = self.ask(client, LIFE_MS, Instant::now() + DEADLINE).await;
        Some(reply.and_then(|reply| seen(&reply)))
    }

    async fn ask(
        &self,
        client: &Client,
        life_ms: u64,
        deadline: Instant,
    ) -> Result<RedisReply, StoreError> {
        let args = vec![self.node.clone(), life_ms.to_string().into_bytes()];
        client.run(&Call::of_script(&BEAT, self.key.to_vec(), args), deadline).await
    }
}

async fn beats<F>(client: Weak<Ends>, listed: Arc<Listed>, notify: Arc<F>)
where
    F: Fn(BeatResult) + Send + Sync + 'static,
{
    let mut last = None;
    while let Some(ends) = client.upgrade() {
        let client = Client(ends);
        let pause = match listed.beat(&client).await {
            None => return,
            Some(Ok((seen, added))) => {
                let now = next(last, seen, added);
                // Most beats change nothing, and a change is reported once.
                if last != Some(now) {
                    last = Some(now);
                    let notify = Arc::clone(&notify);
                    // Changing values takes time if there are many limiters.
                    let _ = client.runtime().spawn_blocking(move || notify(now)).await;
                }
                PAUSES.0
            }
            Some(Err(error)) => {
                // An outage is reported by the shard, and load passes; an operator has to correct other errors.
                if lasts(&error) {
                    client.note_undecided(&error, listed.key[0].as_slice());
                }
                PAUSES.1
            }
        };
        // A client that is held while this sleeps would keep the store's thread alive after its last user.
        drop(client);
        sleep(pause).await;
    }
}

/// The list as it counts after a beat. A node that was listed and is not any more has found a lost
/// list, which others may be missing from: a smaller number counts only from the next beat, by
/// which the others have listed themselves again.
fn next(last: Option<BeatResult>, seen: BeatResult, added: bool) -> BeatResult {
    last.filter(|last| added && last.nodes >= seen.nodes).unwrap_or(seen)
}

fn seen(reply: &RedisReply) -> Result<(BeatResult, bool), StoreError> {
    if let RedisReply::Array(parts) = reply
        && let [RedisReply::Int(nodes), RedisReply::Int(rank), RedisReply::Int(added)] = parts[..]
        && let (Ok(nodes), Ok(rank)) = (u64::try_from(nodes), u64::try_from(rank))
    {
        return Ok((BeatResult { nodes, rank }, added > 0));
    }
    Err(StoreError::Answer(format!("{reply:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_lost_is_not_believed_to_have_grown_short() {
        let of = |nodes| BeatResult { nodes, rank: nodes - 1 };
        assert_eq!(next(None, of(1), true), of(1));
        assert_eq!(next(Some(of(3)), of(1), true), of(3));
        assert_eq!(next(Some(of(3)), of(4), true), of(4));
        assert_eq!(next(Some(of(3)), of(2), false), of(2));
    }

    #[test]
    fn what_no_beat_answers_is_an_error() {
        let ints =
            |all: &[i64]| RedisReply::Array(all.iter().map(|one| RedisReply::Int(*one)).collect());
        assert_eq!(seen(&ints(&[3, 1, 0])), Ok((BeatResult { nodes: 3, rank: 1 }, false)));
        for odd in [RedisReply::Nil, RedisReply::Int(3), ints(&[3, 1]), ints(&[3, -1, 0])] {
            assert!(matches!(seen(&odd), Err(StoreError::Answer(_))), "{odd:?}");
        }
    }
}
