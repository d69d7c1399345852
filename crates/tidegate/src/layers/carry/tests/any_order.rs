//! Replies in any order, while the store loses its data.

use testkit::traffic::Rng;
use tokio::task::JoinSet;

use super::*;

/// Requests, leases, and units that come back overlap while the store loses its data, once or twice. In the end the store
/// counts the units that callers have.
#[tokio::test(start_paused = true)]
async fn no_order_of_replies_mints_a_unit() {
    for case in 0..1_400 {
        let rule = case % AlgorithmKind::ALL.len();
        let rng = &mut Rng::new(case as u64);
        let (store, layer) = &node();
        takes(layer, &[ask(rule, "ada", 1)]).await;
        let mut tasks = JoinSet::new();
        for ticket in 0..6 {
            let part = Part {
                layer: layer.clone(),
                asked: ask(rule, "ada", 1 + rng.below(2)),
                begins: up_to(rng, 40),
                comes_back: rng.chance(33).then(|| up_to(rng, 20)),
            };
            match rng.below(3) {
                0 => tasks.spawn(part.settle()),
                1 => tasks.spawn(part.undo()),
                _ => tasks.spawn(part.lease(ticket)),
            };
        }
        store.fault((0..60).map(|_| match rng.below(4) {
            0 => Some(Fault::RepliesAfter(up_to(rng, 12))),
            1 => Some(Fault::Takes(up_to(rng, 12))),
            _ => None,
        }));
        for pause in [20, 15].into_iter().take(1 + rng.below(2) as usize) {
            sleep(up_to(rng, pause)).await;
            let copy = store.copy();
            sleep(up_to(rng, 30)).await;
            let loss = LOSSES[rng.below(3) as usize];
            loss.happens_to(store, copy);
        }
        let parts = tasks.join_all().await;
        let kept: u64 = 1 + parts.iter().map(|(kept, _)| kept).sum::<u64>();
        let back: u64 = parts.iter().map(|(_, back)| back).sum();
        looks(layer, rule).await;
        let used = used(store, rule);
        // No more than a unit is lost to rounding, and another if a replica has the units of a request that is asked again.
        assert!(
            (kept..=kept + back + 1).contains(&used),
            "case {case}: {used}, not {kept} to {back} more"
        );
    }
}

/// A random time of at most so many milliseconds.
fn up_to(rng: &mut Rng, ms: u64) -> Duration {
    Duration::from_micros(rng.below(ms * 1_000))
}

/// Units that are taken at some time, and perhaps come back after another. Each way to take them returns the units that
/// stay taken, and that came back.
struct Part {
    layer: Carry<FakeStore>,
    asked: KeyAsk,
    begins: Duration,
    comes_back: Option<Duration>,
}

impl Part {
    async fn takes(&self) -> Option<StepReply> {
        sleep(self.begins).await;
        let asks = std::slice::from_ref(&self.asked);
        let reply = self.layer.step(asks, asking(&self.layer)).await.unwrap();
        reply.allowed.then_some(reply)
    }

    async fn settle(self) -> (u64, u64) {
        let Some(reply) = self.takes().await else { return (0, 0) };
        let Some(lasts) = self.comes_back else { return (self.asked.cost, 0) };
        sleep(lasts).await;
        let taken = reply.replies[0].as_ref().unwrap().decided.taken;
        let taken = [KeyAsk { taken, ..self.asked.clone() }];
        let settle = StepArgs { actual: &[0], ..asking(&self.layer).settling() };
        self.has_back(&self.layer.step(&taken, settle).await.unwrap())
    }

    async fn undo(self) -> (u64, u64) {
        let Some(reply) = self.takes().await else { return (0, 0) };
        let Some(lasts) = self.comes_back else { return (self.asked.cost, 0) };
        sleep(lasts).await;
        let asks = std::slice::from_ref(&self.asked);
        self.has_back(&self.layer.undo(asks, asking(&self.layer), &reply).await)
    }

    fn has_back(&self, reply: &StepReply) -> (u64, u64) {
        let one = reply.replies[0].as_ref().unwrap();
        let late = match one.decided.settled {
            Settled::Late(units) => units,
            _ => 0,
        };
        (late, self.asked.cost - late)
    }

    async fn lease(self, ticket: u64) -> (u64, u64) {
        sleep(self.begins).await;
        let units = self.asked.cost;
        if !takes_lease_with(&self.layer, &self.asked, units, ticket).await {
            return (0, 0);
        }
        let Some(lasts) = self.comes_back else { return (units, 0) };
        sleep(lasts).await;
        let rest = Unspent { ticket, ..rest_of(&self.asked, 1) };
        self.layer.give_back_lease(&rest, 1).await.unwrap();
        (units - 1, 1)
    }
}
