//! The limiters of a request in the form that the store is asked with: with the revision of their values, and the count
//! of their rule's keys.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock, OnceLock};

use tidegate_core::{Micros, Rule, Timestamp};
use tokio::time::Instant;

use super::RedisStore;
use crate::clock::Clock;
use crate::keys::key_of_rule;
use crate::rules::{OnFull, Policy, PolicyRule};
use crate::script::{
    Among, Call, JoinedScript, Purpose, RedisReply, Revision, ScriptLimiter, ScriptStep, Values,
};
use crate::step::ValuesSource;
use crate::store::{KeyAsk, KnownUse, StepArgs, StoreError, Verb, is_report};

/// Returns the limiters in the form that the store is asked with. Of limiters that are settled, `actual` and `under`
/// hold the actual costs and the values under which units were taken. `known` is what this node knows of each.
pub(super) fn script_limiters<'m>(
    store: &'m RedisStore,
    asks: &'m [KeyAsk],
    costs: &[u64],
    leased: &[Option<Micros>],
    (actual, under): (&[u64], &[Option<Values>]),
    known: &'m [KnownUse],
) -> Vec<ScriptLimiter<'m>> {
    let prefix = store.client.settings().key_prefix.as_str();
    let limiters = asks.iter().enumerate().filter_map(|(place, ask)| {
        let rule = ask.rule_in(store.policy())?;
        let cost = costs.get(place).copied().unwrap_or(ask.cost);
        let actual = actual.get(place).copied().unwrap_or_default();
        // Leases rely on the level: nothing comes back that might have drained by the time they end.
        let earlier = leased.get(place).copied().flatten();
        let since = ask.taken.since.map(|since| since.minus(earlier.unwrap_or_default()));
        // Nor if it is not known when they were taken.
        let is_kept = earlier.is_some() && since.is_none();
        let actual = if is_kept { actual.max(cost) } else { actual };
        let limiter = ScriptLimiter::new(&ask.fingerprint, rule, cost)?;
        let variant = (!ask.values.source.is_looked_up()).then_some(ask.values.variant);
        let counted = store.counted.get(ask.rule).and_then(Option::as_ref);
        let limiter = ScriptLimiter {
            actual,
            token: ask.taken.token,
            since,
            // Under leases units count alike for all, so such a limiter keeps no mark of a reservation.
            purpose: match earlier {
                Some(_) => Purpose::Lease,
                None if ask.reserves => Purpose::Reservation,
                None => Purpose::Use,
            },
            taken_under: under.get(place).copied().flatten(),
            enforced: ask.enforced,
            revision: revision(store, ask),
            source: ask.values.source,
            among: counted.map(|counted| counted.among(prefix, variant)),
            is_known: known.get(place).is_some_and(KnownUse::is_stored),
            carried: known.get(place).and_then(KnownUse::carried),
            is_own: known.get(place).is_some_and(KnownUse::is_own),
            ..limiter
        };
        // Asked for a unit that it does not take: its usage is reported later.
        let looks = costs.is_empty() && ask.asks() > ask.cost;
        Some(if looks { limiter.looking() } else { limiter })
    });
    limiters.collect()
}

/// Returns the step of a request, and the units each limiter is asked for if they differ from its cost.
pub(super) fn part<'a>(
    policy: &Policy,
    asks: &[KeyAsk],
    args: StepArgs<'a>,
) -> (ScriptStep, Cow<'a, [u64]>) {
    let step = match args.verb {
        Verb::Ask if is_report(asks) => {
            let is_bounded =
                asks.iter().any(|ask| ask.is_report() && bounds_debt(ask.rule_in(policy)));
            if is_bounded { ScriptStep::ReportWithin } else { ScriptStep::Report }
        }
        Verb::Ask => ScriptStep::Ask,
        Verb::Peek if args.costs.is_empty() => {
            return (ScriptStep::Peek, asks.iter().map(KeyAsk::asks).collect());
        }
        // A reset has a script of its own, and comes here to look only.
        Verb::Peek | Verb::Reset => ScriptStep::Peek,
        Verb::Settle => ScriptStep::Settle,
        Verb::Renew => ScriptStep::Renew,
    };
    (step, Cow::Borrowed(args.costs))
}

/// Returns whether a rule bounds the debt of reported usage.
fn bounds_debt(rule: Option<&Rule>) -> bool {
    rule.is_some_and(|rule| rule.spec().max_debt.is_some_and(|units| units < u64::MAX))
}

/// The count of a rule's keys in the store.
#[derive(Debug)]
pub(super) struct KeyCount {
    most: usize,
    name: String,
    /// By variant, the key of the overflow limiter; empty if the rule refuses new keys instead.
    shared: Vec<Vec<u8>>,
}

impl KeyCount {
    /// Returns `None` if the rule does not limit its number of keys.
    pub(super) fn of(prefix: &str, rule: &PolicyRule) -> Option<Self> {
        let spec = rule.spec();
        let most = spec.max_keys?;
        let shares = spec.on_full == OnFull::Share && !spec.limit_from_request;
        let variants = if shares { rule.variants() } else { 0 };
        let shared = (0..variants).map(|number| format!("overflow:{number}"));
        let shared =
            shared.map(|what| (prefix.to_owned() + &key_of_rule(rule, &what)).into_bytes());
        Some(Self { most, name: key_of_rule(rule, "keys"), shared: shared.collect() })
    }

    /// Returns the count for a limiter of this variant of the rule; `None` for values that are looked up.
    pub(super) fn among<'a>(&'a self, prefix: &'a str, variant: Option<usize>) -> Among<'a> {
        let shared = variant.and_then(|variant| self.shared.get(variant));
        Among { name: (prefix, &self.name), most: self.most, shared: shared.map(Vec::as_slice) }
    }
}

/// The time when a gate loaded its first policy; the times of later policies are counted from it.
#[derive(Debug)]
pub(super) struct Loaded {
    /// By the clock of this process.
    pub(super) here: Timestamp,
    /// By the store's clock, after the store was first asked.
    pub(super) there: OnceLock<Timestamp>,
}

impl Loaded {
    pub(super) fn now(clock: &impl Clock) -> Self {
        Self { here: clock.now(), there: OnceLock::new() }
    }
}

/// Reads the store's clock.
static TIME: LazyLock<Arc<JoinedScript>> = LazyLock::new(|| {
    let text = "local time = redis.call('TIME')\nreturn time[1] * 1000000 + time[2]";
    Arc::new(JoinedScript::new(text.to_owned()))
});

/// Returns whether the values of a limiter have a revision: values of a plan and from the request have none.
const fn has_revision(ask: &KeyAsk) -> bool {
    matches!(ask.values.source, ValuesSource::Rule | ValuesSource::NoPlan)
}

/// Dates the first policy by the store's clock, if a limiter is asked under its values. The store is asked
/// once.
///
/// # Errors
/// The store did not reply.
pub(super) async fn know_revision(
    store: &RedisStore,
    asks: &[KeyAsk],
    deadline: Instant,
) -> Result<(), StoreError> {
    let first = asks.iter().find(|ask| has_revision(ask));
    if let Some(first) = first.filter(|_| store.loaded.there.get().is_none()) {
        let loaded = ask_when_loaded(store, &first.fingerprint, deadline).await?;
        // If several calls ask together, the first reply counts for all.
        store.loaded.there.get_or_init(|| loaded);
    }
    Ok(())
}

/// Dates the first policy by the clock of the shard of `key`: by the earliest of three readings. A policy that another node
/// loads after this has ended is newer. A request that comes first dates the policy by one reading.
///
/// # Errors
/// The store did not reply to the first question.
pub(super) async fn know_loaded_exactly(store: &RedisStore, key: &[u8]) -> Result<(), StoreError> {
    if store.loaded.there.get().is_some() {
        return Ok(());
    }
    let mut loaded = ask_when_loaded(store, key, store.client.deadline()).await?;
    for _ in 0..2 {
        // A slow reply dates the policy too late, as if it were newer than a policy that was loaded after it.
        match ask_when_loaded(store, key, store.client.deadline()).await {
            Ok(again) => loaded = loaded.min(again),
            Err(_) => break,
        }
    }
    store.loaded.there.get_or_init(|| loaded);
    Ok(())
}

/// Returns when the first policy was loaded, by the clock of the shard of `key`. The time is too late by
/// at most the time of the reply, and never too early.
async fn ask_when_loaded(
    store: &RedisStore,
    key: &[u8],
    deadline: Instant,
) -> Result<Timestamp, StoreError> {
    // Measured before the question.
    let passed = store.host.now().since(store.loaded.here);
    let call = Call::of_script(&TIME, vec![key.to_vec()], Vec::new());
    let reply = store.client.run(&call, deadline).await?;
    let now = match reply {
        RedisReply::Int(now) => u64::try_from(now).ok().map(Timestamp::from_micros),
        _ => None,
    };
    Ok(now.ok_or_else(|| StoreError::Answer("no time".to_owned()))?.minus(passed))
}

/// Returns the revision of the values that a limiter is asked under: the number of the policy, and when the
/// values of its rule took effect. A replay has none, because no other node asks about its limiters.
pub(super) fn revision(store: &RedisStore, ask: &KeyAsk) -> Revision {
    let Some(loaded) = store.loaded.there.get().filter(|_| has_revision(ask)) else {
        return Revision::NONE;
    };
    let passed = store.generation.since(ask.rule).since(store.loaded.here);
    Revision::new(store.policy().revision().map_or(0, u32::from), loaded.plus(passed))
}
