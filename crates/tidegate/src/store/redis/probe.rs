//! Looking after a store that is away: one at a time, at growing pauses, until it is fit again.

use std::hash::{BuildHasher, RandomState};
use std::mem::{Discriminant, discriminant};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use redis::Value;
use tokio::time::{sleep, timeout};

use super::audit;
use super::client::{self, Shared};
use super::error::StoreError;
use super::event::StoreEvent;
use super::link::Link;
use super::script::Script;

/// The first pause, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(25), Duration::from_secs(1));
/// How long one look may take.
const LOOK: Duration = Duration::from_secs(2);
/// So many looks in a row that find the same show that it stays so.
const STAYS: u32 = 8;
/// Writes of which one must be answered within the deadline of a decision.
const TRIES: usize = 3;
/// All that scripts do, with one key that lives a second or two. A user who may not do all of it is told so
/// here, and not by one decision or the other.
static ALL_THAT_SCRIPTS_DO: LazyLock<Script> = LazyLock::new(|| {
    let text = "\
local call, key = redis.call, KEYS[1]
local expires = string.format('%d', call('TIME')[1] * 1000 + 2000)
call('SET', key, '', 'PXAT', expires)
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
    Script::new(text.to_owned())
});

/// Begins to look after the store; `lost` is why, `None` at the start. It is done, and connections are driven, in
/// the runtime in which the client began, whichever noticed that it is away.
pub(super) fn begin(shared: &Arc<Shared>, lost: Option<StoreError>) {
    shared.runtime.spawn(look_after(Arc::downgrade(shared), lost));
}

/// Ends when the store is fit, or nobody needs it any more.
async fn look_after(shared: Weak<Shared>, lost: Option<StoreError>) {
    let (mut pause, mut outage) = (PAUSES.0, Outage { told: lost, found: None });
    if outage.told.is_some() {
        sleep(spread(pause)).await;
    }
    loop {
        let Some(shared) = shared.upgrade() else { return };
        match look(&shared).await {
            Ok(link) => return found_fit(&shared, link, outage.told.is_some()).await,
            Err(error) => {
                if let Some(news) = outage.news(&error) {
                    (shared.observer)(news);
                }
                shared.found.send_replace(Some(Err(error)));
            }
        }
        drop(shared);
        sleep(spread(pause)).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

/// What was told of a store that is away, and what was found since.
struct Outage {
    told: Option<StoreError>,
    /// What the last looks found, and how many of them.
    found: Option<(Discriminant<StoreError>, u32)>,
}

impl Outage {
    /// What there is to tell of what a look found.
    fn news<'e>(&mut self, error: &'e StoreError) -> Option<StoreEvent<'e>> {
        let kind = discriminant(error);
        let before = self.found.filter(|(found, _)| *found == kind).map_or(0, |(_, looks)| looks);
        let looks = before.saturating_add(1);
        self.found = Some((kind, looks));
        let event = match &self.told {
            None => StoreEvent::Lost(error),
            Some(told) if discriminant(told) == kind => return None,
            // Others pass, and come and go while a store starts.
            Some(_) if error.lasts() || looks == STAYS => StoreEvent::StillLost(error),
            Some(_) => return None,
        };
        self.told = Some(error.clone());
        Some(event)
    }
}

async fn found_fit(shared: &Shared, link: Link, was_lost: bool) {
    shared.breaker.close(link.clone(), shared.now_us());
    shared.found.send_replace(Some(Ok(())));
    if was_lost {
        (shared.observer)(StoreEvent::Back);
    }
    // What a server does not tell in time says nothing.
    let findings = timeout(LOOK, audit::of(link)).await.unwrap_or_default();
    let new =
        shared.told.lock().unwrap_or_else(std::sync::PoisonError::into_inner).new_among(findings);
    new.iter().for_each(|finding| (shared.observer)(StoreEvent::Finding(finding)));
}

/// Connects, and sees whether a decision could be taken.
async fn look(shared: &Shared) -> Result<Link, StoreError> {
    let look = async {
        let mut link = Link::connect(&shared.settings).await?;
        is_primary(&mut link).await?;
        decides_in_time(shared, &mut link).await?;
        Ok(link)
    };
    timeout(LOOK, look).await.unwrap_or(Err(StoreError::Timeout))
}

/// A store that answers, but later than decisions wait, is as good as away: each request would only wait in
/// vain. One late answer says nothing, so it is asked a few times.
async fn decides_in_time(shared: &Shared, link: &mut Link) -> Result<(), StoreError> {
    // No key of a limiter is like this one.
    let key = [format!("{}?", shared.settings.key_prefix).into_bytes()];
    for _ in 0..TRIES {
        let answer = client::by_text_and_digest(link, &ALL_THAT_SCRIPTS_DO, &key);
        if let Ok(answer) = timeout(shared.deadline, answer).await {
            return answer.map(|_| ()).map_err(|error| StoreError::of(&error));
        }
    }
    Err(StoreError::Timeout)
}

/// Nothing is ever decided on a replica, also not on one that lets itself be written.
async fn is_primary(link: &mut Link) -> Result<(), StoreError> {
    if matches!(link, Link::Cluster { .. }) {
        return Ok(());
    }
    match link.send(&redis::cmd("ROLE")).await.map_err(|error| StoreError::of(&error)) {
        Ok(Value::Array(told)) => match told.first() {
            Some(Value::BulkString(role)) if role != b"master" => Err(StoreError::ReadOnly),
            _ => Ok(()),
        },
        // A user who may not ask, and what is not quite this server: writing shows the rest.
        Ok(_) | Err(StoreError::Denied(_) | StoreError::Refused(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Somewhere between half of a pause and all of it, so that nodes do not come back as one.
fn spread(pause: Duration) -> Duration {
    let part = RandomState::new().hash_one(0) % 512;
    pause.mul_f64(0.5 + part as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was told when looks found these, one behind the other.
    fn told(lost: Option<StoreError>, found: &[StoreError]) -> Vec<String> {
        let mut outage = Outage { told: lost, found: None };
        let news =
            found.iter().filter_map(|error| outage.news(error).map(|news| format!("{news:?}")));
        news.collect()
    }

    #[test]
    fn another_reason_is_told_at_once_where_it_lasts_and_else_where_it_stays() {
        let gone = StoreError::Unreachable("gone".to_owned());
        let denied = StoreError::Denied("who".to_owned());
        assert_eq!(told(None, &[gone.clone(), gone.clone()]).len(), 1);
        assert_eq!(told(Some(gone.clone()), &[denied.clone(), denied.clone()]).len(), 1);
        let starts = [StoreError::Loading, StoreError::Timeout, StoreError::Loading];
        assert_eq!(told(Some(gone.clone()), &starts), Vec::<String>::new());
        let replica = vec![StoreError::ReadOnly; 3 * STAYS as usize];
        assert_eq!(told(Some(gone.clone()), &replica), ["StillLost(ReadOnly)"]);
        let then_gone = [vec![denied], vec![gone.clone(); STAYS as usize]].concat();
        assert_eq!(told(Some(gone), &then_gone).len(), 2);
    }
}
