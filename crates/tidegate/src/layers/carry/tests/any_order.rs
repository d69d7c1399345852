//! Replies in any order, while the store loses its data.

use std::ops::Range;

use testkit::traffic::Rng;
use tokio::task::JoinSet;

use super::*;

const KEYS: [&str; 2] = ["ada", "bob"];

/// The units of each limiter that stay taken, and that came back.
type Units = [(u64, u64); KEYS.len()];

/// Requests, leases, and units that come back overlap while the store loses its data, once or twice. In the end the store
/// counts the units that callers have, and no more than these and the units that came back.
#[tokio::test(start_paused = true)]
async fn no_order_of_replies_mints_a_unit() {
    for case in 0..1_400 {
        let rng = &mut Rng::new(case);
        let rule = rng.below(AlgorithmKind::ALL.len() as u64) as usize;
        let (store, layer) = &node();
        takes(layer, &[ask(rule, "ada", 1)]).await;
        let mut tasks = JoinSet::new();
        for ticket in 0..6 {
            Part::any(rng, layer, rule, 0..1).starts(rng, ticket, &mut tasks);
        }
        store.fault((0..60).map(|_| slow(rng)));
        for pause in [20, 15].into_iter().take(1 + rng.below(2) as usize) {
            sleep(up_to(rng, pause)).await;
            let copy = store.copy();
            sleep(up_to(rng, 30)).await;
            LOSSES[rng.below(3) as usize].happens_to(store, copy);
        }
        let parts = tasks.join_all().await;
        let kept: u64 = 1 + parts.iter().map(|part| part[0].0).sum::<u64>();
        let back: u64 = parts.iter().map(|part| part[0].1).sum();
        looks(layer, rule).await;
        let used = used(store, rule);
        // No more than a unit is lost to rounding. Units may come back to data that is lost.
        let all = kept..=kept + back + 1;
        assert!(all.contains(&used), "case {case}: {used}, not {all:?}");
    }
}

/// The same with requests over two limiters, of which the store may lose one, and with replies that are lost. Units in
/// doubt may stay taken.
#[tokio::test(start_paused = true)]
async fn no_lost_reply_and_no_lost_limiter_mints_a_unit() {
    for case in 0..1_400 {
        let rng = &mut Rng::new(case);
        let rule = rng.below(AlgorithmKind::ALL.len() as u64) as usize;
        let (store, layer) = &node();
        let first = takes(layer, &KEYS.map(|key| ask(rule, key, 1))).await;
        let mut tasks = JoinSet::new();
        for ticket in 0..6 {
            let of = [0..1, 1..2, 0..2][rng.below(3) as usize].clone();
            Part::any(rng, layer, rule, of).starts(rng, ticket, &mut tasks);
        }
        store.fault((0..60).map(|_| rng.chance(10).then_some(Fault::IsLate).or_else(|| slow(rng))));
        sleep(up_to(rng, 20)).await;
        let copy = store.copy();
        sleep(up_to(rng, 30)).await;
        match LOSSES.get(rng.below(5) as usize) {
            Some(loss) => loss.happens_to(store, copy),
            None => evict(store, rule, "ada"),
        }
        if rng.chance(50) {
            let _ = settles(layer, &first).await;
        }
        let parts = tasks.join_all().await;
        for (place, key) in KEYS.iter().enumerate() {
            // The faults that are left come to an end.
            while layer.step(&[ask(rule, key, 0)], asking(layer)).await.is_err() {}
            let kept: u64 = parts.iter().map(|part| part[place].0).sum();
            let used = used_of(store, rule, key);
            assert!(used >= kept, "case {case}, {key}: {used} in place of {kept}");
        }
    }
}

/// A random time of at most so many milliseconds.
fn up_to(rng: &mut Rng, ms: u64) -> Duration {
    Duration::from_micros(rng.below(ms * 1_000))
}

fn slow(rng: &mut Rng) -> Option<Fault> {
    match rng.below(4) {
        0 => Some(Fault::RepliesAfter(up_to(rng, 12))),
        1 => Some(Fault::Takes(up_to(rng, 12))),
        _ => None,
    }
}

/// Units that are taken at some time, and perhaps come back after another.
struct Part {
    layer: Carry<FakeStore>,
    asked: Vec<KeyAsk>,
    /// The places of its limiters.
    of: Range<usize>,
    begins: Duration,
    comes_back: Option<Duration>,
}

impl Part {
    fn any(rng: &mut Rng, layer: &Carry<FakeStore>, rule: usize, of: Range<usize>) -> Self {
        let asked = KEYS[of.clone()].iter().map(|key| ask(rule, key, 1 + rng.below(2)));
        Self {
            layer: layer.clone(),
            asked: asked.collect(),
            of,
            begins: up_to(rng, 40),
            comes_back: rng.chance(33).then(|| up_to(rng, 20)),
        }
    }

    fn starts(self, rng: &mut Rng, ticket: u64, tasks: &mut JoinSet<Units>) {
        match rng.below(3) {
            0 => tasks.spawn(self.settle()),
            1 => tasks.spawn(self.undo()),
            _ => tasks.spawn(self.lease(ticket)),
        };
    }

    async fn take(&self) -> Option<StepReply> {
        sleep(self.begins).await;
        let reply = self.layer.step(&self.asked, asking(&self.layer)).await;
        reply.ok().filter(|reply| reply.allowed)
    }

    /// Its units, of which so many came back of each limiter.
    fn units(&self, back: impl Fn(usize) -> u64) -> Units {
        let mut all = Units::default();
        for (number, (place, ask)) in self.of.clone().zip(&self.asked).enumerate() {
            let back = back(number);
            all[place] = (ask.cost - back, back);
        }
        all
    }

    /// Its units after a reply about units that come back.
    fn after(&self, reply: &StepReply) -> Units {
        self.units(|number| match reply.replies[number].as_ref().map(|one| one.decided.settled) {
            Some(Settled::Late(units)) => self.asked[number].cost - units,
            _ => self.asked[number].cost,
        })
    }

    async fn settle(self) -> Units {
        let Some(reply) = self.take().await else { return Units::default() };
        let Some(lasts) = self.comes_back else { return self.units(|_| 0) };
        sleep(lasts).await;
        let replies = reply.replies.iter().flatten().zip(&self.asked);
        let taken = replies.map(|(one, ask)| KeyAsk { taken: one.decided.taken, ..ask.clone() });
        match settles(&self.layer, &taken.collect::<Vec<_>>()).await {
            Ok(reply) => self.after(&reply),
            // It is not known if they came back.
            Err(_) => Units::default(),
        }
    }

    async fn undo(self) -> Units {
        let Some(reply) = self.take().await else { return Units::default() };
        let Some(lasts) = self.comes_back else { return self.units(|_| 0) };
        sleep(lasts).await;
        self.after(&self.layer.undo(&self.asked, asking(&self.layer), &reply).await)
    }

    async fn lease(self, ticket: u64) -> Units {
        sleep(self.begins).await;
        let of = &self.asked[0];
        let is_granted = takes_lease_with(&self.layer, of, of.cost, ticket).await;
        if !is_granted {
            return Units::default();
        }
        let mut units = Units::default();
        units[self.of.start] = (of.cost, 0);
        let Some(lasts) = self.comes_back else { return units };
        sleep(lasts).await;
        let rest = Unspent { ticket, ..rest_of(of, 1) };
        self.layer.give_back_lease(&rest, 1).await.unwrap();
        units[self.of.start] = (of.cost - 1, 1);
        units
    }
}
