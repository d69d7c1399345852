//! Units that come back, and limiters that are reset.

use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::Settled;

use super::RedisStore;
use crate::clock::Clock;
use crate::keys::lease_key;
use crate::request::Origin;
use crate::script::{Call, Surplus};
use crate::step::TakenUnits;
use crate::store::{KeyAsk, StepArgs, StepReply, Store, StoreError, Verb, at_places, done_in_part};

/// A future that may lead back to the step that it is a part of.
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

impl RedisStore {
    /// Settles limiters of which some are unlimited now: these get the surplus back.
    ///
    /// # Errors
    /// The store did not reply. The request may have been settled, unless nothing was sent.
    pub(super) fn settle_with_unlimited<'a>(
        &'a self,
        asks: &'a [KeyAsk],
        args: StepArgs<'a>,
    ) -> Boxed<'a, Result<StepReply, StoreError>> {
        Box::pin(async move {
            let places: Vec<_> = (0..asks.len())
                .filter(|place| {
                    asks.get(*place).is_some_and(|ask| !ask.is_unlimited(self.policy()))
                })
                .collect();
            let limited = at_places(asks, &places);
            let actual = at_places(args.actual, &places);
            let under = at_places(args.under, &places);
            let leased = at_places(args.leased, &places);
            // Nothing is carried: it would have to be settled again in part.
            let of_limited =
                StepArgs { actual: &actual, under: &under, leased: &leased, known: &[], ..args };
            let mut reply = StepReply::nothing(asks.len(), self.host.now());
            if !limited.is_empty() {
                let settled = self.step(&limited, of_limited).await;
                let settled = settled.map_err(|gave_up| gave_up.error)?;
                reply.now = settled.now;
                reply.put_all(places.iter().copied(), settled.replies);
            }
            // The other limiters are settled by now, so an error concerns a part of the request.
            self.give_back_unlimited(asks, args)
                .await
                .map_err(|error| if limited.is_empty() { error } else { done_in_part(error) })?;
            Ok(reply)
        })
    }

    /// Gives reserved units back to limiters that admit everything now.
    async fn give_back_unlimited(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
    ) -> Result<(), StoreError> {
        let surplus = asks.iter().zip(args.actual).filter_map(|(ask, actual)| {
            // A permit comes back as a whole.
            let kept = if ask.taken.token.is_some() { 0 } else { *actual };
            let units = ask
                .cost
                .checked_sub(kept)
                .filter(|units| ask.is_unlimited(self.policy()) && *units > 0)?;
            let TakenUnits { token, since, .. } = ask.taken;
            Some(Surplus { key: &ask.fingerprint, units, since, reserved: ask.reserves, token })
        });
        let surplus: Vec<_> = surplus.collect();
        if surplus.is_empty() {
            return Ok(());
        }
        let call = Arc::new(Call::giving_back(&surplus, None));
        let reply = self.client.run_for_good(&call, args.deadline).await?;
        Ok(call.given_back(&reply)?)
    }

    /// Resets limiters in one step. A limiter that would begin with units in use is created first, so that the reset
    /// fills it.
    ///
    /// # Errors
    /// The store did not reply. The limiters may have been reset, unless nothing was sent.
    pub(super) fn reset_limiters<'a>(
        &'a self,
        asks: &'a [KeyAsk],
        StepArgs { deadline, at, .. }: StepArgs<'a>,
    ) -> Boxed<'a, Result<(), StoreError>> {
        Box::pin(async move {
            for ask in asks.iter().filter(|ask| ask.begins_in_use(self.policy())) {
                let args = StepArgs::new(Verb::Ask, Origin::default(), deadline);
                let args = StepArgs { at, ..args };
                let created = self.step(&[ask.costing(0)], args).await;
                created.map_err(|gave_up| gave_up.error)?;
            }
            if asks.is_empty() {
                return Ok(());
            }
            let prefix = &self.client.settings().key_prefix;
            let keys: Vec<_> = asks.iter().map(|ask| ask.fingerprint.clone()).collect();
            let records = keys.iter().map(|key| lease_key(prefix, key)).collect();
            let call = Call::reset(keys, records, at);
            self.client.run_for_good(&Arc::new(call), deadline).await.map(drop)
        })
    }
}

/// Notes the surplus of limiters with leases that stays taken, because it is not known when it was taken.
pub(super) fn note_kept(asks: &[KeyAsk], args: StepArgs<'_>, reply: &mut StepReply) {
    let leased = args.leased.iter().zip(asks).zip(args.actual).enumerate();
    for (place, ((earlier, ask), actual)) in leased {
        let surplus = ask.cost.saturating_sub(*actual);
        let is_kept = earlier.is_some() && ask.taken.since.is_none() && surplus > 0;
        if let Some(Some(one)) = reply.replies.get_mut(place).filter(|_| is_kept) {
            one.decided.settled = Settled::Late(surplus);
        }
    }
}
