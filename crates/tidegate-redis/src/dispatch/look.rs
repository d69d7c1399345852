//! Looks after a shard that is not fit: one check at a time, with growing pauses, until it is fit.

use std::hash::{BuildHasher, RandomState};
use std::mem::{Discriminant, discriminant};
use std::rc::Rc;
use std::sync::LazyLock;
use std::time::Duration;

use redis::Value;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use tokio::task::spawn_local;
use tokio::time::timeout;

use super::Dispatcher;
use super::link::FoundServer;
use super::redirect::Redirect;
use super::shard::{Answered, StoreShard};
use super::slots::{slots_in, tags_in};
use crate::audit::{self, field};
use crate::error::{lasts, of_client};
use crate::inbox::StoreState;
use crate::link::{NodeAddress, connect, connect_to, send};
use crate::route::command;
use crate::script::JoinedScript;
use crate::settings::{StoreForm, parts_of};
use crate::store::{StoreError, StoreEvent};

/// The first pause, and the longest.
pub(super) const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(1));
/// The longest time of one check.
pub(crate) const LOOK: Duration = Duration::from_secs(2);
/// The number of checks in a row with the same result that count as lasting.
const STAYS: u32 = 8;
/// Number of writes. At least one must be answered within the deadline of a decision.
const TRIES: usize = 3;
/// Number of slots. At least one normally stays, because slots are moved one at a time.
const MOST_SLOTS: usize = 4;
/// All operations of scripts, with one key that lives a second or two; it runs without memory too,
/// because the part after the first write needs none. A user who may not do all of it is reported
/// here, and not at the first decision that needs it.
static ALL_THAT_SCRIPTS_DO: LazyLock<JoinedScript> = LazyLock::new(|| {
    let text = "\
local call, key = redis.call, KEYS[1]
local expires = string.format('%d', call('TIME')[1] * 1000 + 2000)
call('UNLINK', key)
call('SET', key, '', 'PXAT', expires)
call('PTTL', key)
call('SETRANGE', key, '0', '?')
call('PEXPIREAT', key, expires)
call('GETRANGE', key, '0', '0')
call('GET', key)
call('TYPE', key)
call('DEL', key)
call('ZADD', key, '0', 'a')
call('PEXPIREAT', key, expires)
call('ZRANGE', key, '0', '0')
call('ZCARD', key)
call('ZCOUNT', key, '-inf', '0')
call('ZREMRANGEBYRANK', key, '0', '0')
call('UNLINK', key)
return 1";
    JoinedScript::new(text.to_owned())
});

/// Looks after a shard until it is fit, or holds no slot; `lost` is the reason, `None` at the
/// start.
pub(super) async fn look_after(
    dispatcher: Rc<Dispatcher>,
    shard: Rc<StoreShard>,
    lost: Option<StoreError>,
) {
    let mut pause = PAUSES.0;
    let mut outage = Outage { reported: lost.clone(), found: None };
    // A new shard is checked at once. A shard that was lost has failed just now.
    let mut waits = lost.is_some();
    let by_sentinel =
        matches!(parts_of(&shard.shared.settings.url).form, StoreForm::Sentinel { .. });
    let connection = loop {
        if shard.is_retired.get() {
            return;
        }
        if waits {
            let is_heard = timeout(spread(pause), shard.heard.notified()).await.is_ok();
            // If it answers after all, it is checked over the connection that it has; except where a Sentinel may name
            // another primary, unknown to this server.
            if is_heard && !by_sentinel {
                if let Some(mut connection) = shard.connection()
                    && decides_in_time(&shard, &mut connection).await.is_ok()
                {
                    break None;
                }
                continue;
            }
            if !is_heard {
                pause = (pause * 2).min(PAUSES.1);
            }
        }
        waits = true;
        match look(&shard).await {
            Ok(connection) => break Some(connection),
            Err(error) => {
                let unanswered = shard.lose(&error);
                unanswered.into_iter().for_each(|(request, error)| request.give_up(error));
                match outage.news(&error) {
                    Some(StoreEvent::Lost(error)) => dispatcher.report(&shard, Some(error)),
                    Some(news) if !dispatcher.is_cluster() => (dispatcher.shared.observer)(news),
                    _ => {}
                }
                dispatcher.looked();
            }
        }
    };
    shard.found_fit(connection);
    if outage.reported.is_some() || dispatcher.is_cluster() {
        dispatcher.report(&shard, None);
    }
    dispatcher.looked();
    dispatcher.send(&shard);
    spawn_local(report_findings(dispatcher));
}

impl Dispatcher {
    /// Opens the connection of a shard again, which was closed with this error, before the shard counts as unavailable.
    /// Calls that failed by it are answered afterwards, when an outage has been reported.
    ///
    /// Servers, proxies and operators close connections that work. So the first check of the shard begins at once, has
    /// one deadline, and requests wait for it; nothing is reported if it succeeds.
    pub(super) fn reopen(
        self: &Rc<Self>,
        shard: &Rc<StoreShard>,
        closed: StoreError,
        answered: Answered,
    ) {
        shard.closed();
        spawn_local(Rc::clone(self).until_reopened(Rc::clone(shard), closed, answered));
    }

    async fn until_reopened(
        self: Rc<Self>,
        shard: Rc<StoreShard>,
        closed: StoreError,
        answered: Answered,
    ) {
        let patience = self.shared.deadline.min(LOOK);
        match timeout(patience, look(&shard)).await {
            Ok(Ok(connection)) => {
                shard.found_fit(Some(connection));
                self.looked();
                spawn_local(report_findings(Rc::clone(&self)));
            }
            Ok(Err(error @ StoreError::Unreachable(_))) => self.give_up(&shard, error),
            // Another reason is reported when the next check finds it too.
            Ok(Err(_)) | Err(_) => self.give_up(&shard, closed),
        }
        answered.fail();
        self.send(&shard);
    }
}

/// The error that was reported about a shard that is not fit, and the findings of checks since.
struct Outage {
    reported: Option<StoreError>,
    /// The result of the last checks, and how many had it.
    found: Option<(Discriminant<StoreError>, u32)>,
}

impl Outage {
    /// The event to report after a check, if any.
    fn news<'e>(&mut self, error: &'e StoreError) -> Option<StoreEvent<'e>> {
        let kind = discriminant(error);
        let before = self.found.filter(|(found, _)| *found == kind).map_or(0, |(_, looks)| looks);
        let looks = before.saturating_add(1);
        self.found = Some((kind, looks));
        let event = match &self.reported {
            None => StoreEvent::Lost(error),
            Some(reported) if discriminant(reported) == kind => return None,
            // Other errors pass, or come and go while a store starts.
            Some(_) if lasts(error) || looks == STAYS => StoreEvent::StillLost(error),
            Some(_) => return None,
        };
        self.reported = Some(error.clone());
        Some(event)
    }
}

/// Connects, and checks whether a decision could be taken.
async fn look(shard: &StoreShard) -> Result<FoundServer, StoreError> {
    let look = async {
        let settings = &shard.shared.settings;
        let mut connection = match &shard.node {
            Some(node) => connect_to(settings, node).await?,
            None => connect(settings).await?,
        };
        // The map of a cluster names primaries. A single address may be a replica by now.
        if shard.node.is_none() {
            is_primary(&mut connection).await?;
        }
        decides_in_time(shard, &mut connection).await?;
        let run_id = run_id(&mut connection).await?;
        Ok(FoundServer { connection, run_id })
    };
    let found = timeout(LOOK, look).await.unwrap_or(Err(StoreError::Timeout));
    found.map_err(|error| shard.named(error))
}

/// Checks that a shard answers as fast as decisions need. A slower shard counts as unavailable, because each
/// request would wait in vain. One late answer is not enough, so the shard is asked a few times.
///
/// A node whose slot moves to another node answers that the key is there: it is alive, and nothing more is known. Then
/// it is checked with another slot, and is fit if all checked slots move.
async fn decides_in_time(
    shard: &StoreShard,
    connection: &mut MultiplexedConnection,
) -> Result<(), StoreError> {
    let keys = keys_of(shard);
    if keys.is_empty() {
        return send(connection, &redis::cmd("PING")).await.map(drop);
    }
    for key in keys {
        if runs_in_time(shard, connection, &[key]).await? {
            break;
        }
    }
    Ok(())
}

/// Returns whether the check ran here in time, and was not redirected to another node.
async fn runs_in_time(
    shard: &StoreShard,
    connection: &mut MultiplexedConnection,
    key: &[Vec<u8>],
) -> Result<bool, StoreError> {
    for _ in 0..TRIES {
        let answer = by_text_and_digest(connection, &ALL_THAT_SCRIPTS_DO, key, &shard.node);
        if let Ok(answer) = timeout(shard.shared.deadline, answer).await {
            return answer;
        }
    }
    Err(StoreError::Timeout)
}

/// Keys that the shard serves and no limiter has, each in another slot; none for a node without
/// slots.
fn keys_of(shard: &StoreShard) -> Vec<Vec<u8>> {
    let prefix = &shard.shared.settings.key_prefix;
    if shard.node.is_none() {
        return vec![format!("{prefix}?").into_bytes()];
    }
    let ranges = shard.ranges();
    let most = slots_in(&ranges).min(MOST_SLOTS);
    let mut slots = Vec::with_capacity(most);
    let mut keys = Vec::with_capacity(most);
    for (slot, tag) in tags_in(&ranges) {
        if !slots.contains(&slot) {
            slots.push(slot);
            keys.push(format!("{prefix}{tag}?").into_bytes());
        }
        if keys.len() >= most {
            break;
        }
    }
    keys
}

/// Runs a script by text and by digest, since either may be forbidden. Returns whether it ran here,
/// and was not redirected to another node.
async fn by_text_and_digest(
    connection: &mut MultiplexedConnection,
    script: &JoinedScript,
    keys: &[Vec<u8>],
    node: &Option<NodeAddress>,
) -> Result<bool, StoreError> {
    for (verb, text) in [("EVAL", &script.text), ("EVALSHA", &script.sha1)] {
        let reply = connection
            .req_packed_command(&command(verb, text, keys, &[]))
            .await
            .map_err(of_client)?;
        if let Value::ServerError(error) = &reply
            && let Some(Redirect::Ask(_)) = Redirect::of(error, node.as_ref())
        {
            return Ok(false);
        }
        reply.extract_error().map_err(of_client)?;
    }
    Ok(true)
}

/// Returns an error for a replica: nothing is decided on one, even if it accepts writes.
async fn is_primary(connection: &mut MultiplexedConnection) -> Result<(), StoreError> {
    match send(connection, &redis::cmd("ROLE")).await {
        Ok(Value::Array(parts)) => match parts.first() {
            Some(Value::BulkString(role)) if role != b"master" => Err(StoreError::ReadOnly),
            _ => Ok(()),
        },
        // The user may not ask, or the server does not know the question: the write that follows
        // decides.
        Ok(_) | Err(StoreError::Denied(_) | StoreError::Refused(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns an id of the data of a server, which a restart changes, and another primary; `None` if the user may not read
/// it.
pub(crate) async fn run_id(
    connection: &mut MultiplexedConnection,
) -> Result<Option<String>, StoreError> {
    let Some(run) = value_of(connection, "server", "run_id").await? else { return Ok(None) };
    // A primary that was a replica in between has the data of another primary.
    let history = value_of(connection, "replication", "master_replid").await?;
    Ok(Some(run + history.as_deref().unwrap_or_default()))
}

/// Returns the value of a field in a section of the information about a server; `None` if it has no such field, or the
/// user may not read it.
async fn value_of(
    connection: &mut MultiplexedConnection,
    section: &str,
    name: &str,
) -> Result<Option<String>, StoreError> {
    match audit::info(connection, section).await {
        Ok(info) => Ok(field(&info, name).filter(|value| !value.is_empty()).map(str::to_owned)),
        Err(StoreError::Denied(_) | StoreError::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reports properties of the servers' setup that can make limits fail.
async fn report_findings(dispatcher: Rc<Dispatcher>) {
    let shards = dispatcher.shards.borrow().clone();
    let fit = shards.iter().filter(|shard| shard.is_fit());
    let links: Vec<_> = fit.filter_map(|shard| shard.connection()).collect();
    // A server that does not answer in time gives no finding.
    let findings = timeout(LOOK, audit::of(links)).await.unwrap_or_default();
    let shared: &StoreState = &dispatcher.shared;
    let mut reported = shared.findings.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let new = audit::new_among(findings, &mut reported);
    // The observer is called without the lock.
    drop(reported);
    new.iter().for_each(|finding| (shared.observer)(StoreEvent::Finding(finding)));
}

/// A random time between half of a pause and all of it, so that nodes do not return together.
pub(super) fn spread(pause: Duration) -> Duration {
    let part = RandomState::new().hash_one(0) % 512;
    pause.mul_f64(0.5 + part as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of checks that found these errors, one after another.
    fn reported(lost: Option<StoreError>, found: &[StoreError]) -> Vec<String> {
        let mut outage = Outage { reported: lost, found: None };
        let news =
            found.iter().filter_map(|error| outage.news(error).map(|news| format!("{news:?}")));
        news.collect()
    }

    #[test]
    fn another_reason_is_reported_at_once_where_it_lasts_and_else_where_it_stays() {
        let gone = StoreError::Unreachable("gone".to_owned());
        let denied = StoreError::Denied("who".to_owned());
        assert_eq!(reported(None, &[gone.clone(), gone.clone()]).len(), 1);
        assert_eq!(reported(Some(gone.clone()), &[denied.clone(), denied.clone()]).len(), 1);
        let starts = [StoreError::Loading, StoreError::Timeout, StoreError::Loading];
        assert_eq!(reported(Some(gone.clone()), &starts), Vec::<String>::new());
        let replica = vec![StoreError::ReadOnly; 3 * STAYS as usize];
        let news = format!("{:?}", StoreEvent::StillLost(&StoreError::ReadOnly));
        assert_eq!(reported(Some(gone.clone()), &replica), [news]);
        let then_gone = [vec![denied], vec![gone.clone(); STAYS as usize]].concat();
        assert_eq!(reported(Some(gone), &then_gone).len(), 2);
    }
}
