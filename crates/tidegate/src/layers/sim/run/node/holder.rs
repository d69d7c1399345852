//! A job that holds a permit as the guide of `concurrency` asks for.

use std::time::Duration;

use testkit::traffic::Rng;
use tidegate_core::{Micros, Token};
use tokio::time::sleep;

use super::LayersNode;
use crate::layers::sim::history::LayersEventKind;
use crate::layers::sim::plan::Job;
use crate::layers::sim::world::locked;
use crate::lease::terms::shortened;
use crate::request::Origin;
use crate::step::TakenUnits;
use crate::store::{GaveUp, KeyAsk, StepArgs, StepReply, Store, Verb};

impl LayersNode {
    /// Takes a permit, renews it every third of its life, counts its life from before the request was sent, works until
    /// then at most, and returns it.
    pub(super) async fn work(&self, request: u64, ask: &KeyAsk, job: Job) {
        let world = self.link.world();
        let life: Micros = world.plan.rule(0).spec().window.unwrap_or_default().into();
        let rng = &mut Rng::new(Rng::new(world.plan.seed).next_u64() ^ request);
        let begun = self.uptime();
        let Some(token) = self.take_permit(request, ask).await else { return };
        if rng.chance(20) {
            // A busy machine hears the reply later than it came.
            sleep(Duration::from_millis(rng.below(life.as_micros() / 2_000))).await;
        }
        let taken = TakenUnits::new(Some(token), None);
        let permit = KeyAsk { taken, ..ask.clone() };
        let done = self.uptime().plus(Micros::from_millis(job.works));
        let mut until = begun.plus(shortened(life));
        let mut asked = begun;
        loop {
            let longest_pause = life.as_micros() / 5_000;
            sleep(Duration::from_millis(rng.below(longest_pause) + 1)).await;
            if self.link.is_cut() {
                return;
            }
            let now = self.uptime();
            let has_ended = now >= until;
            if has_ended || now >= done {
                if now < done {
                    world.note(ask, LayersEventKind::OutOfTime);
                }
                break;
            }
            self.write(rng, request, &permit, life);
            if job.renews && now >= asked.plus(Micros::from_micros(life.as_micros() / 3)) {
                asked = now;
                match self.step(Verb::Renew, request, &permit).await {
                    Ok(reply) if reply.allowed => {
                        until = until.max(asked.plus(shortened(life)));
                    }
                    Ok(_) => return world.note(ask, LayersEventKind::AnsweredLate),
                    // The permit lasts as long as it did, as far as the job knows.
                    Err(_) => {}
                }
            }
        }
        // A permit whose time is over is returned as well, which may be too late.
        for _ in 0..if job.forgets { 0 } else { job.returns } {
            let _ = self.step(Verb::Settle, request, &permit).await;
        }
    }

    /// A clock that is never set, and runs on while the machine sleeps.
    fn uptime(&self) -> Micros {
        locked(&self.clocks).boot(self.link.world().passed_us())
    }

    async fn take_permit(&self, request: u64, ask: &KeyAsk) -> Option<Token> {
        let reply = self.step(Verb::Ask, request, ask).await.ok()?;
        if !reply.allowed || self.link.is_cut() {
            return None;
        }
        reply.replies.first()?.as_ref()?.decided.taken.token
    }

    async fn step(&self, verb: Verb, request: u64, ask: &KeyAsk) -> Result<StepReply, GaveUp> {
        let tower = &self.tower();
        let origin = Origin { id: None, source: request };
        let args = StepArgs::new(verb, origin, tower.host().deadline());
        let args = StepArgs { actual: &[0], under: &[None], ..args };
        Self::ask(tower, std::slice::from_ref(ask), args).await
    }

    /// Writes to the resource, which may take a while.
    fn write(&self, rng: &mut Rng, request: u64, permit: &KeyAsk, life: Micros) {
        let working = LayersEventKind::Working { request, units: permit.cost };
        self.link.world().note(permit, working);
        let longest_ms = if rng.chance(10) { life.as_micros() / 500 } else { 3 };
        let delay = Duration::from_millis(rng.below(longest_ms));
        let (link, permit) = (self.link.clone(), permit.clone());
        tokio::spawn(async move {
            sleep(delay).await;
            link.world().write(&permit);
        });
    }
}
