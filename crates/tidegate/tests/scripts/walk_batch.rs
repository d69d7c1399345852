//! Several requests in one call, held to the letter to the same requests sent one after the other: every reply, and
//! every byte that is stored then. Of any algorithms, over keys that they share or not, with costs of nothing and of
//! too much, repeats, ids, shadow rules, rules that changed, and keys that hold what no limiter wrote.
//!
//! `TIDEGATE_LONG=1` goes ten times as far.

use redis::Value;
use std::time::Duration;
use testkit::model;
use testkit::traffic::Rng;
use tidegate::script::{Call, CallBatch, Each, RedisReply, Revision, ScriptStep};
use tidegate::{AlgorithmKind, Layout, Rule, Spec, Timestamp};

use crate::server::policies::{checked, closed, in_layout, small};
use crate::server::{Answered, Client, long, one};

/// The replies of a batch, each as often as it was given.
pub(super) fn run_batch(client: &Client, calls: &[(&Call, usize)]) -> Vec<Vec<Answered>> {
    let batch = CallBatch::of(calls);
    let answer = client.try_eval(&batch.script, &batch.keys, &batch.args);
    let answer = answer.unwrap_or_else(|why| panic!("{why}\n{}", batch.script.text));
    let each = batch.replies(answer).unwrap().into_iter().map(|replies| {
        let each = replies.into_iter();
        each.flat_map(|one| std::iter::repeat_n(one.reply, one.times)).collect()
    });
    each.collect()
}

/// The replies of calls of one limiter each, in the form of a batch that asks each once.
pub(super) fn run_each(client: &Client, calls: &[Call]) -> Vec<Vec<Answered>> {
    let each = Each::of(&calls.iter().collect::<Vec<_>>());
    let answer = client.try_eval(&each.script, &each.keys, &each.args);
    let answer = answer.unwrap_or_else(|why| panic!("{why}\n{}", each.script.text));
    each.replies(answer).unwrap().into_iter().map(|answer| vec![answer]).collect()
}

/// One limiter of a request: the number of its key, its rule and the rule's revision, its cost, and true if it may
/// refuse.
#[derive(Clone, Debug)]
struct Part {
    key: usize,
    rule: Rule,
    revision: Revision,
    cost: u64,
    enforced: bool,
    /// It is asked for one unit, and none is taken.
    looks: bool,
}

/// Returns whether a limiter was found under other values: a text for each, and an empty text after them.
pub(super) fn is_of_others(answer: &Answered) -> bool {
    let empty = RedisReply::Bytes(Vec::new());
    matches!(answer, Ok(RedisReply::Array(parts)) if parts.last() == Some(&empty))
}

/// A request, and the number of its id.
#[derive(Clone, Debug)]
struct Asked {
    parts: Vec<Part>,
    id: Option<usize>,
    times: usize,
}

impl Asked {
    fn call(&self, side: &str, at: Timestamp) -> Call {
        let keys: Vec<_> = self.parts.iter().map(|part| key(side, part.key)).collect();
        let limiters = self.parts.iter().zip(&keys).map(|(part, key)| {
            let limiter = one(key, &part.rule, part.cost);
            let limiter = if part.looks { limiter.looking() } else { limiter };
            let limiter = limiter.of_revision(part.revision);
            if part.enforced { limiter } else { limiter.shadow() }
        });
        let call = Call::new(&limiters.collect::<Vec<_>>(), ScriptStep::Ask, Some(at));
        let Some(id) = self.id else { return call };
        // Some requests open a reservation, and some that repeat them propose another name.
        let name = [self.times as u8; 16];
        let life = Duration::from_secs(self.times as u64).into();
        let name = (id % 2 == 0).then_some((&name, life));
        let answer_key = format!("{side}:id:{id}").into_bytes();
        call.remembering(answer_key, Duration::from_secs(30).into(), name)
    }
}

fn simple(mut parts: Vec<Part>) -> Vec<Part> {
    parts.truncate(1);
    parts.iter_mut().for_each(|part| part.looks = false);
    parts
}

fn key(side: &str, number: usize) -> Vec<u8> {
    format!("{side}:{number}").into_bytes()
}

fn rule(rng: &mut Rng) -> Rule {
    loop {
        let algorithm = rng.pick(model::AlgorithmKind::ALL);
        let mut policy = small(rng, algorithm);
        policy.limit = rng.pick([0, 1, 7, 60, 400]);
        policy.initial = (algorithm == model::AlgorithmKind::TokenBucket && rng.chance(30))
            .then(|| rng.below(4));
        let Ok(rule) = checked(&policy) else { continue };
        let layout = rng.pick([Layout::String, Layout::SortedSet]);
        return if rng.chance(4) { closed() } else { in_layout(*rule.spec(), layout) };
    }
}

/// Keys, each with a rule of its own, and what was asked with an id.
struct Walk<'c> {
    client: &'c Client,
    number: usize,
    rules: Vec<Rule>,
    known: Vec<Asked>,
    /// True if each request has one limiter, no id, and no repeats.
    simple: bool,
}

impl Walk<'_> {
    fn asked(&mut self, rng: &mut Rng) -> Asked {
        let times = rng.pick([1, 1, 1, 2, 3, 40]);
        if rng.chance(15) && !self.known.is_empty() {
            let again = rng.below(self.known.len() as u64) as usize;
            return Asked { times, ..self.known[again].clone() };
        }
        let first = rng.below(self.rules.len() as u64) as usize;
        let count = rng.pick([1, 1, 2, 3]).min(self.rules.len());
        let parts = (first..first + count).map(|number| {
            let number = number % self.rules.len();
            let own = if rng.chance(8) { 0 } else { number };
            Part {
                key: self.number * 10 + number,
                rule: self.rules[own].clone(),
                revision: Revision::new(0, Timestamp::from_micros(rng.below(4))),
                cost: rng.pick([0, 1, 1, 1, 1, 2, 5, 500]),
                enforced: rng.chance(80),
                looks: rng.chance(20),
            }
        });
        let parts = parts.collect();
        let id = rng.chance(15).then_some(self.number * 1_000 + self.known.len());
        let asked = match self.simple {
            true => Asked { parts: simple(parts), id: None, times: 1 },
            false => Asked { parts, id, times },
        };
        if asked.id.is_some() {
            self.known.push(asked.clone());
        }
        asked
    }

    /// Something happens to a key that no limiter does, on both sides.
    fn disturb(&self, rng: &mut Rng) {
        let number = self.number * 10 + rng.below(self.rules.len() as u64) as usize;
        let another_version = [b"\x09\x03".as_slice(), &[0; 60]].concat();
        let what = rng.below(4);
        for side in ["one", "all"] {
            let key = key(side, number);
            self.client.run(&[b"DEL", &key]).unwrap();
            match what {
                0 => self.client.run(&[b"SET", &key, b"of nobody"]).unwrap(),
                1 => self.client.run(&[b"SET", &key, &another_version]).unwrap(),
                2 => self.client.run(&[b"ZADD", &key, b"1", b"of nobody"]).unwrap(),
                _ => Value::Nil,
            };
        }
    }

    fn stored(&self, side: &str) -> Vec<Value> {
        let keys = (0..self.rules.len()).map(|number| key(side, self.number * 10 + number));
        let ids = self.known.iter().filter_map(|asked| asked.id);
        let keys = keys.chain(ids.map(|id| format!("{side}:id:{id}").into_bytes()));
        keys.map(|key| self.client.run(&[b"DUMP", &key]).unwrap()).collect()
    }

    /// One batch on one side, its requests by themselves on the other.
    fn turn(&mut self, rng: &mut Rng, at: Timestamp, seen: &mut Seen) {
        let asked: Vec<_> = (0..rng.between(1, 9)).map(|_| self.asked(rng)).collect();
        let calls: Vec<_> = asked.iter().map(|asked| asked.call("all", at)).collect();
        assert!(calls.iter().all(Call::can_merge));
        let times = asked.iter().map(|asked| asked.times);
        let merged: Vec<_> = calls.iter().zip(times).collect();
        let together = match self.simple {
            true => run_each(self.client, &calls),
            false => run_batch(self.client, &merged),
        };
        let mut amend = Vec::new();
        for (asked, together) in asked.iter().zip(&together) {
            let call = asked.call("one", at);
            for (time, together) in together.iter().enumerate() {
                let alone = self.client.try_eval(&call.script, &call.keys, &call.args);
                seen.note(&alone, asked);
                let same = match (&alone, together) {
                    (Err(alone), Err(together)) => {
                        alone.contains("wrong kind of value") && together.starts_with("WRONGTYPE")
                    }
                    (alone, together) => alone == together,
                };
                assert!(same, "{asked:?}, time {time} at {at:?}:\n{alone:?}\n{together:?}");
                if is_of_others(together) && time == 0 {
                    amend.push(asked.clone());
                }
            }
            assert_eq!(together.len(), asked.times);
        }
        assert_eq!(self.stored("one"), self.stored("all"), "at {at:?}: {asked:?}");
        for asked in amend {
            let [one, all] = ["one", "all"].map(|side| {
                let call = asked.call(side, at).amending();
                self.client.try_eval(&call.script, &call.keys, &call.args)
            });
            assert_eq!(one, all);
        }
    }
}

/// The number of answers of each kind.
#[derive(Debug, Default)]
struct Seen {
    taken: usize,
    refused: usize,
    repeated: usize,
    changed: usize,
    wrong: usize,
}

impl Seen {
    fn note(&mut self, answer: &Answered, asked: &Asked) {
        let several = asked.parts.len() > 1 || asked.id.is_some();
        let count = match answer {
            Err(_) => &mut self.wrong,
            answer if is_of_others(answer) => &mut self.changed,
            Ok(RedisReply::Array(parts)) if several => match parts[0] {
                RedisReply::Int(0) => &mut self.refused,
                RedisReply::Int(1) => &mut self.taken,
                _ => &mut self.repeated,
            },
            Ok(RedisReply::Array(_)) => &mut self.refused,
            Ok(_) => &mut self.taken,
        };
        *count += 1;
    }
}

/// Walks of so many turns, each with a policy of its own of at most so many rules.
fn walks(rng: &mut Rng, (walks, turns): (usize, usize), most_rules: u64, simple: bool) -> Seen {
    let client = Client::start();
    let mut seen = Seen::default();
    for number in 0..walks {
        let rules = (0..rng.between(2, most_rules)).map(|_| rule(rng)).collect();
        let mut walk = Walk { client: &client, number, rules, known: Vec::new(), simple };
        let mut at_us = 1_763_700_000_000_000;
        for _ in 0..turns {
            at_us += rng.pick([0, 1, 1_000, 10_000, 100_000, 3_000_000]);
            if rng.chance(5) {
                at_us -= rng.pick([1, 5_000, 400_000, 90_000_000]);
            }
            if rng.chance(5) {
                walk.disturb(rng);
            }
            walk.turn(rng, Timestamp::from_micros(at_us), &mut seen);
        }
    }
    seen
}

#[test]
fn a_batch_is_its_requests_one_after_the_other() {
    let sizes = if long() { (400, 60) } else { (16, 25) };
    let seen = walks(&mut Rng::new(20_261_123), sizes, 6, false);
    let Seen { taken, refused, repeated, changed, wrong } = seen;
    let enough = taken > 300 && refused > 300 && repeated > 50 && changed > 50 && wrong > 10;
    assert!(enough, "{seen:?}");
}

#[test]
fn requests_of_one_limiter_each_in_one_call_are_those_requests_one_after_the_other() {
    let sizes = if long() { (400, 60) } else { (24, 40) };
    let seen = walks(&mut Rng::new(20_261_125), sizes, 9, true);
    let Seen { taken, refused, changed, wrong, .. } = seen;
    assert!(taken > 300 && refused > 300 && changed > 50 && wrong > 10, "{seen:?}");
}

#[test]
fn a_batch_over_logs_in_rings_is_its_requests_one_after_the_other() {
    let client = Client::start();
    let rng = &mut Rng::new(20_261_124);
    let (walks, turns) = if long() { (40, 1_000) } else { (2, 150) };
    let mut seen = Seen::default();
    for number in 0..walks {
        let rules = [30, 300].map(|limit| {
            let mut spec = Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(60));
            spec.resolution = Some(Duration::from_micros(1));
            Rule::new(spec).unwrap()
        });
        let (rules, simple) = (rules.to_vec(), number % 2 == 1);
        let mut walk = Walk { client: &client, number, rules, known: Vec::new(), simple };
        let mut at_us = 1_763_700_000_000_000;
        for _ in 0..turns {
            at_us += rng.pick([1_000, 50_000, 200_000, 3_000_000]);
            if rng.chance(2) {
                at_us -= rng.pick([1, 5_000, 90_000_000]);
            }
            walk.turn(rng, Timestamp::from_micros(at_us), &mut seen);
        }
    }
    assert!(seen.taken > 500 && seen.refused > 500, "{seen:?}");
}
