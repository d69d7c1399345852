//! Units that are given back by scripts with the time at which they were taken. A random walk of taking, settling,
//! undoing, refunding, renewing, changing, resetting and time holds every script equal to the naive model, in every
//! value.
//!
//! `TIDEGATE_LONG=1` walks 200 seeds.

use std::fmt;

use crate::server::policies::{checked, laid_out, layouts};
use crate::server::{Client, long, one, words};
use testkit::model::{self, Expected, Model, Policy};
use testkit::traffic::{self, Rng};
use tidegate::script::{Call, DecidedStep, ScriptLimiter, ScriptStep, SettledUnits, Values};
use tidegate::{Decision, Layout, Micros, Outcome, Rule, Timestamp, Token};

/// The first seed.
const SEED: u64 = 38;
/// Steps of each algorithm under a seed.
const STEPS_OF_A_SEED: usize = 1_000;
/// Steps under one policy before the next begins, on a key of its own.
const STEPS_OF_A_POLICY: usize = 150;
/// Waits that a script cannot report.
const END_US: u64 = (1 << 53) - 1;

/// The units that a request took, and their time.
#[derive(Clone, Copy, Debug)]
struct Taken {
    since_us: u64,
    units: u64,
    token: Option<u64>,
    is_reserved: bool,
    under: Values,
    /// The earliest time at which the rule was changed after that.
    changed_us: Option<u64>,
}

/// A limiter in the store, and its model.
struct Walk<'a> {
    client: &'a Client,
    rng: &'a mut Rng,
    key: String,
    layout: Layout,
    model: Model,
    rule: Rule,
    taken: Vec<Taken>,
    /// Whole units that came back to where they were taken.
    returned: u64,
    /// Units that came back no more.
    late: u64,
    /// Permits that were renewed, and that were out no more.
    renewed: [u64; 2],
    /// The latest change of the rule, and the latest reading of the clock since nothing was used.
    changed_us: u64,
    latest_us: u64,
    /// The latest reset where nothing was used. The model forgets such a reset. A store keeps its time, and gives nothing
    /// back that a clock which stepped back says was taken before.
    barred_us: u64,
    /// The steps so far, for the message of a failure.
    steps: Vec<String>,
}

/// A settlement has no delay.
fn without_delay(decision: Decision) -> Decision {
    Decision { outcome: Outcome::Allow { delay: Micros::ZERO }, ..decision }
}

/// The last steps, for a message.
impl fmt::Display for Walk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begins = self.steps.len().saturating_sub(40);
        write!(f, "{}\n{}", self.key, self.steps[begins..].join("\n"))
    }
}

impl Walk<'_> {
    fn assert_same(&self, answer: &Decision, expected: &Expected) {
        assert_eq!(words::expected(answer), *expected, "{self}");
    }

    fn limiter(&self, cost: u64) -> ScriptLimiter<'_> {
        one(&self.key, &self.rule, cost)
    }

    fn step(&self, limiter: ScriptLimiter<'_>, step: ScriptStep, at_us: u64) -> DecidedStep {
        self.client.step(&[limiter], step, Some(Timestamp::from_micros(at_us)))
    }

    /// Changes the rule now, for the steps that follow.
    fn change(&mut self, at_us: u64) {
        let mut policy = self.model.policy().clone();
        match self.rng.below(3) {
            0 | 1 => {
                let limits = [1, policy.limit / 2, policy.limit * 2, policy.limit + 1];
                policy.limit = self.rng.pick(limits).min(1_000_000_000);
                if policy.holds_permits() {
                    // Permits are told by their tokens, so that they are known under another life as well.
                    policy.window_us = (policy.window_us * self.rng.between(1, 4) / 2).max(1_000);
                }
            }
            _ => {
                let algorithm = self.rng.pick(model::AlgorithmKind::ALL);
                policy = traffic::policy(self.rng, algorithm);
            }
        }
        let is_bucket = |policy: &Policy| {
            use model::AlgorithmKind::{LeakyBucket, TokenBucket};
            matches!(policy.algorithm, TokenBucket | LeakyBucket)
        };
        let old = self.model.policy();
        let renames = old.algorithm != policy.algorithm && is_bucket(old) && is_bucket(&policy);
        // Two names of one algorithm are two models.
        if policy.limit == 0 || renames || checked(&policy).is_err() {
            return;
        }
        let next = laid_out(&policy, self.layout);
        let meaning = |rule: &Rule| rule.script_input(0).map(|it| (it.script.kind, it.parameters));
        // A rule that says the same is no change.
        if meaning(&next) != meaning(&self.rule) {
            // A reading that counts as a later time may move the state back under the new window.
            let later = self.model.last_us().filter(|last_us| *last_us > at_us);
            self.changed_us = self.changed_us.max(later.map_or(at_us, |last_us| last_us + 1));
            for taken in &mut self.taken {
                taken.changed_us = Some(taken.changed_us.map_or(at_us, |us| us.min(at_us)));
            }
            self.steps.push(format!("{at_us}: {:?}", Values::of(&next)));
            if self.model.last_us().is_some() {
                self.model.replace(at_us, policy);
            } else {
                // A refund may have emptied the limiter, which is not kept then, so nothing is known of this change.
                self.begin_again(policy);
            }
            self.rule = next;
            self.step(self.limiter(0), ScriptStep::Ask, at_us);
            self.model.step(at_us, 0);
        }
    }

    fn reset(&mut self, at_us: u64) {
        if self.model.policy().initial.is_some() {
            return;
        }
        let mut model = self.model.clone();
        if model.gone_us(at_us) == 0 && self.client.int(&["EXISTS", &self.key]) == 1 {
            let counts_at = at_us.max(model.last_us().unwrap_or(0));
            // A token that is not in the past is still in use.
            let is_in_use = model.token().is_some_and(|token| token >= counts_at);
            self.barred_us = self.barred_us.max(counts_at + u64::from(is_in_use));
        }
        let at = Some(Timestamp::from_micros(at_us));
        let call = Call::reset(vec![self.key.clone().into_bytes()], Vec::new(), at);
        self.client.ask(&call);
        self.model.reset(at_us);
        self.steps.push(format!("{at_us}: reset"));
    }

    fn ask(&mut self, at_us: u64, cost: u64) {
        let is_reserved = self.rng.chance(60);
        self.steps.push(format!("{at_us}: ask for {cost}, reserved: {is_reserved}"));
        let limiter = self.limiter(cost);
        let limiter = if is_reserved { limiter.reserving() } else { limiter };
        let answer = self.step(limiter, ScriptStep::Ask, at_us);
        let expected = match is_reserved {
            true => self.model.reserve(at_us, cost),
            false => self.model.step(at_us, cost),
        };
        self.assert_same(&answer.decisions[0], &expected);
        if expected.allowed && cost > 0 {
            let since_us = self.model.last_us().unwrap();
            assert_eq!(answer.at.as_micros(), since_us, "{self}");
            let token = self.model.token();
            let under = Values::of(&self.rule).unwrap();
            let taken =
                Taken { since_us, units: cost, token, is_reserved, under, changed_us: None };
            self.taken.push(taken);
        }
    }

    fn settle(&mut self, at_us: u64) {
        if self.taken.is_empty() {
            return;
        }
        let which = usize::try_from(self.rng.below(self.taken.len() as u64)).unwrap();
        let taken = self.taken.swap_remove(which);
        let Taken { since_us, units, token, is_reserved, under, changed_us } = taken;
        // The model knows a change by its time alone, and a caller by the values as well: they differ where the clock
        // comes by that time again, and within its microsecond.
        let after_it = changed_us.is_some_and(|changed_us| since_us >= changed_us);
        // A store knows which units had drained by the time of a change. They stay so for a clock that steps back before it.
        let counts_at = at_us.max(self.model.last_us().unwrap_or(0));
        let is_ahead = changed_us.is_some_and(|changed_us| changed_us > counts_at);
        if after_it || is_ahead || changed_us.is_none() && since_us < self.changed_us {
            return;
        }
        self.steps.push(format!("{at_us}: settle {taken:?}"));
        let undoes = !is_reserved && self.rng.chance(70);
        let more = units + self.rng.below(3);
        let actual = if undoes { 0 } else { self.rng.pick([0, 0, units / 2, units, more]) };
        let since = Timestamp::from_micros(since_us);
        let limiter = self.limiter(units).turned_out(actual).taken_at(Some(since));
        let holds_permits = self.model.policy().holds_permits();
        if holds_permits && token.is_some_and(|token| token != since_us) {
            // The model gave tokens before, which a limiter that began again gives again.
            return;
        }
        let limiter = limiter.of_permit(token.and_then(Token::from_micros));
        let limiter = if undoes { limiter } else { limiter.reserving() };
        let limiter = limiter.taken_under(&under);
        let answer =
            self.step(limiter, if undoes { ScriptStep::Undo } else { ScriptStep::Settle }, at_us);
        let settled = answer.settled().next().unwrap();
        if holds_permits {
            self.model.return_permit(at_us, token.unwrap_or(u64::MAX), units);
        } else {
            let surplus = units.saturating_sub(actual);
            let barred = if since_us < self.barred_us { surplus } else { 0 };
            let (late, cut) = match undoes {
                true => (self.model.undo(at_us, since_us, units - barred), 0),
                false => {
                    let actual = actual + barred;
                    let settled = self.model.settle_since(at_us, since_us, units, actual);
                    (settled.late, settled.cut)
                }
            };
            let late = late + barred;
            let returned = surplus - late;
            assert_eq!(settled, SettledUnits { returned, late, cut }, "{self}");
            self.returned += returned;
            self.late += late;
        }
        let expected = self.model.peek(at_us, 0);
        self.assert_same(&without_delay(answer.decisions[0]), &expected);
    }

    fn renew(&mut self, at_us: u64) {
        let which = self.rng.below(self.taken.len() as u64) as usize;
        let Taken { since_us, token, .. } = self.taken[which];
        if token != Some(since_us) {
            return; // as in a settlement
        }
        self.steps.push(format!("{at_us}: renew {since_us}"));
        let limiter = self.limiter(0).of_permit(Token::from_micros(since_us));
        let is_out = self.step(limiter, ScriptStep::Renew, at_us).allowed;
        assert_eq!(is_out, self.model.renew(at_us, since_us), "{self}");
        self.renewed[usize::from(!is_out)] += 1;
    }

    fn refund(&mut self, at_us: u64) {
        let units = 1 + self.rng.below(3);
        self.steps.push(format!("{at_us}: refund {units}"));
        let answer = self.step(self.limiter(units), ScriptStep::Settle, at_us);
        self.model.refund(at_us, units);
        let expected = self.model.peek(at_us, 0);
        self.assert_same(&without_delay(answer.decisions[0]), &expected);
    }

    /// Removes the limiter, and all that the store knows of it.
    fn begin_again(&mut self, policy: Policy) {
        let (script, keys) = Call::remove(vec![self.key.clone().into_bytes()]);
        self.client.eval(&script, &keys, &[]);
        self.model = Model::new(policy);
        self.taken.clear();
        (self.latest_us, self.barred_us) = (0, 0);
    }

    /// A limiter that is idle is not kept. It begins again where the clock then steps back.
    fn pass(&mut self, at_us: u64) {
        if self.client.int(&["EXISTS", &self.key]) == 1 {
            return;
        }
        self.model.forget();
        if at_us < self.latest_us {
            self.begin_again(self.model.policy().clone());
        }
        self.latest_us = self.latest_us.max(at_us);
    }

    /// Only an idle limiter is not kept.
    fn assert_kept(&self, at_us: u64) {
        let is_idle =
            self.model.last_us().is_none() || self.model.clone().peek(at_us, 0).reset_after_us == 0;
        assert!(is_idle || self.client.int(&["EXISTS", &self.key]) == 1, "{}", self.key);
    }

    /// Walks until the time ends; returns the number of steps.
    fn run(&mut self, changes: bool) -> usize {
        let trace = traffic::jumpy_trace(self.rng, self.model.policy(), STEPS_OF_A_POLICY);
        for (turn, (at_us, cost)) in trace.into_iter().enumerate() {
            let cost = cost.min(self.model.policy().limit + 1);
            self.pass(at_us);
            if changes && self.rng.chance(5) {
                self.change(at_us);
                self.pass(at_us);
            }
            if self.rng.chance(1) {
                self.reset(at_us);
            }
            if self.model.clone().gone_us(at_us) >= END_US {
                return turn;
            }
            match self.rng.below(100) {
                0..50 => self.ask(at_us, cost),
                50..70 if self.model.policy().holds_permits() && !self.taken.is_empty() => {
                    self.renew(at_us);
                }
                50..90 => self.settle(at_us),
                90..95 => self.refund(at_us),
                _ => {
                    let answer = self.step(self.limiter(cost), ScriptStep::Peek, at_us);
                    let expected = self.model.peek(at_us, cost);
                    self.assert_same(&answer.decisions[0], &expected);
                }
            }
            self.assert_kept(at_us);
        }
        STEPS_OF_A_POLICY
    }
}

/// Walks the steps of a seed. Returns the whole units that came back, and those that came back no more; of permits how
/// many were renewed, and how many were out no more.
fn walk(client: &Client, algorithm: model::AlgorithmKind, layout: Layout, seed: u64) -> [u64; 4] {
    let rng = &mut Rng::new(seed);
    let (mut steps, mut counts) = (0, [0; 4]);
    for number in 1.. {
        if steps >= STEPS_OF_A_SEED {
            break;
        }
        let policy = traffic::policy(rng, algorithm);
        if policy.limit == 0 {
            continue;
        }
        let rule = laid_out(&policy, layout);
        let key = format!("{}:{layout:?}:{seed}:{number}", algorithm.name());
        let (model, taken) = (Model::new(policy), Vec::new());
        let mut walk = Walk {
            client,
            rng,
            key,
            layout,
            model,
            rule,
            taken,
            returned: 0,
            late: 0,
            renewed: [0; 2],
            changed_us: 0,
            latest_us: 0,
            barred_us: 0,
            steps: Vec::new(),
        };
        steps += walk.run(number % 2 == 0);
        let [renewed, ended] = walk.renewed;
        for (sum, more) in counts.iter_mut().zip([walk.returned, walk.late, renewed, ended]) {
            *sum += more;
        }
    }
    counts
}

#[test]
fn every_script_gives_back_as_the_model() {
    let client = &Client::start();
    for (algorithm, layout) in layouts() {
        let mut sums = [0; 4];
        for seed in 0..if long() { 200 } else { 10 } {
            let counts = walk(client, algorithm, layout, SEED + seed);
            sums.iter_mut().zip(counts).for_each(|(sum, more)| *sum += more);
        }
        let [returned, late, renewed, ended] = sums;
        match algorithm {
            model::AlgorithmKind::Concurrency => {
                assert!(renewed > 100 && ended > 100, "{renewed} and {ended}");
            }
            _ => assert!(returned > 1_000 && late > 1_000, "{returned} came back, {late} did not"),
        }
    }
}
