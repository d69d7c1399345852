//! Several requests in one call, by examples: the number of questions to the store, failures of single requests, and
//! expiry.

use std::time::SystemTime;

use redis::Value;
use std::time::Duration;
use tidegate::script::{
    Call, CallBatch, CallResult, DecidedStep, RedisReply, ScriptLimiter, ScriptStep, Surplus,
};
use tidegate::{AlgorithmKind, Layout, Rule, Spec, Timestamp};

use crate::server::policies::of_each;
use crate::server::{Answered, Client, one};
use crate::walk_batch::{is_of_others, run_batch};

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

pub(crate) fn rule(algorithm: AlgorithmKind, limit: u64) -> Rule {
    Rule::new(Spec::new(algorithm, limit, HOUR)).unwrap()
}

pub(crate) fn sorted_set(limit: u64) -> Rule {
    let mut spec = Spec::new(AlgorithmKind::SlidingLog, limit, HOUR);
    spec.layout = Some(Layout::SortedSet);
    Rule::new(spec).unwrap()
}

pub(crate) fn ask(limiters: &[ScriptLimiter<'_>]) -> Call {
    Call::new(limiters, ScriptStep::Ask, None)
}

/// The reply of a batch, as an answer to its call.
pub(crate) fn decided(
    call: &Call,
    limiters: &[ScriptLimiter<'_>],
    reply: &Answered,
) -> DecidedStep {
    match call.answer(limiters, reply.as_ref().unwrap()).unwrap() {
        CallResult::Decided(decided) => decided,
        other => panic!("no rule was changed: {other:?}"),
    }
}

/// The number of runs of each command since the last call of this function.
fn commands(client: &Client) -> Vec<(String, u64)> {
    let text = match client.run(&[b"INFO", b"commandstats"]).unwrap() {
        Value::BulkString(bytes) => String::from_utf8(bytes).unwrap(),
        Value::VerbatimString { text, .. } => text,
        other => panic!("{other:?}"),
    };
    client.run(&[b"CONFIG", b"RESETSTAT"]).unwrap();
    let lines =
        text.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(":calls="));
    let counts = lines
        .map(|(name, rest)| (name.to_owned(), rest.split(',').next().unwrap().parse().unwrap()));
    let mut counts: Vec<_> = counts
        .filter(|(name, _): &(String, _)| name != "info" && !name.contains("config"))
        .collect();
    counts.sort();
    counts
}

#[test]
fn a_hot_key_is_read_once_and_written_once_however_often_it_is_asked() {
    let client = Client::start();
    for algorithm in AlgorithmKind::ALL.iter().filter(|one| **one != AlgorithmKind::SlidingLog) {
        let rule = rule(*algorithm, 500);
        let limiters = [one(algorithm.name(), &rule, 1)];
        let call = ask(&limiters);
        run_batch(&client, &[(&call, 1)]);
        commands(&client);
        let reply = run_batch(&client, &[(&call, 300)]);
        let admitted = reply[0].iter().filter(|reply| decided(&call, &limiters, reply).allowed);
        assert_eq!(admitted.count(), 300);
        // The first is written at once, and the rest in the end.
        let counts = match algorithm {
            // A state that grows is written as a whole.
            AlgorithmKind::Concurrency => vec![("evalsha", 1), ("get", 1), ("set", 2), ("time", 1)],
            _ => {
                vec![("evalsha", 1), ("get", 1), ("pexpireat", 2), ("setrange", 2), ("time", 1)]
            }
        };
        let counts: Vec<_> =
            counts.into_iter().map(|(name, times)| (name.to_owned(), times)).collect();
        assert_eq!(commands(&client), counts, "{algorithm}");
    }
    let rule = rule(AlgorithmKind::SlidingLog, 500);
    let call = ask(&[one("log", &rule, 1)]);
    run_batch(&client, &[(&call, 500)]);
    commands(&client);
    let batch = CallBatch::of(&[(&call, 300), (&call, 100)]);
    let reply = batch.replies(client.eval(&batch.script, &batch.keys, &batch.args)).unwrap();
    let times = reply.iter().map(|replies| replies.iter().map(|one| one.times).collect());
    assert_eq!(times.collect::<Vec<Vec<_>>>(), [[300], [100]], "one refusal serves all");
    let once = ["evalsha", "getrange", "time"].map(|name| (name.to_owned(), 1));
    assert_eq!(commands(&client), once);
}

#[test]
fn a_rule_that_all_requests_share_is_read_once_and_each_caller_is_asked_by_its_own() {
    let client = Client::start();
    let (global, own) = (rule(AlgorithmKind::SlidingLog, 20), rule(AlgorithmKind::TokenBucket, 1));
    let users: Vec<_> = (0..31).map(|user| format!("user:{user}")).collect();
    let limiters: Vec<_> =
        users.iter().map(|user| [one("global", &global, 1), one(user, &own, 1)]).collect();
    let calls: Vec<_> = limiters.iter().map(|limiters| ask(limiters)).collect();
    let merged: Vec<_> = calls.iter().map(|call| (call, 2)).collect();
    commands(&client);
    let reply = run_batch(&client, &merged);
    let admitted = |user: usize| {
        let each = reply[user].iter().map(|reply| decided(&calls[user], &limiters[user], reply));
        each.map(|reply| reply.allowed).collect::<Vec<_>>()
    };
    for user in 0..31 {
        let expected = if user < 20 { [true, false] } else { [false, false] };
        assert_eq!(admitted(user), expected, "user {user}: 20 of all, and one of each");
    }
    let reply = commands(&client);
    let read = reply.iter().filter(|(name, _)| name == "get" || name == "getrange");
    assert_eq!(read.map(|(_, times)| *times).collect::<Vec<_>>(), [31, 1]);
}

#[test]
fn a_request_that_fails_spoils_no_other() {
    let client = Client::start();
    let (bucket, set) = (rule(AlgorithmKind::TokenBucket, 5), sorted_set(5));
    let another_version = [b"\x09\x03".as_slice(), &[0; 60]].concat();
    client.run(&[b"RPUSH", b"list", b"of nobody"]).unwrap();
    client.run(&[b"SET", b"version", &another_version]).unwrap();
    let limiters = [
        vec![one("good", &bucket, 1), one("list", &set, 1)],
        vec![one("good", &bucket, 1), one("version", &bucket, 1)],
        vec![one("good", &bucket, 1)],
        vec![one("good", &bucket, 1), one("list", &bucket, 1)],
    ];
    let calls = [0, 1, 2, 3].map(|number: usize| ask(&limiters[number]));
    let twice: Vec<_> = calls.iter().map(|call| (call, 2)).collect();
    let reply = run_batch(&client, &twice);
    for wrong in [&reply[0], &reply[3]] {
        assert!(wrong.iter().all(|reply| reply.as_ref().unwrap_err().starts_with("WRONGTYPE")));
    }
    assert!(reply[1].iter().all(is_of_others), "it amends alone: {:?}", reply[1]);
    let left = reply[2].iter().map(|reply| decided(&calls[2], &limiters[2], reply));
    let left: Vec<_> = left.map(|reply| reply.decisions[0].remaining).collect();
    assert_eq!(left, [4, 3], "none of the others took a unit");
}

#[test]
fn a_store_without_memory_fails_those_that_would_take_and_refuses_whom_it_refused() {
    let client = Client::start();
    let rules =
        [rule(AlgorithmKind::TokenBucket, 2), rule(AlgorithmKind::SlidingLog, 2), sorted_set(2)];
    let full: Vec<_> = (0..3).map(|rule| format!("full:{rule}")).collect();
    let new: Vec<_> = (0..3).map(|rule| format!("new:{rule}")).collect();
    let both = |number: usize| {
        let rule = &rules[number];
        [ask(&[one(&full[number], rule, 1)]), ask(&[one(&new[number], rule, 1)])]
    };
    let calls: Vec<_> = (0..3).flat_map(both).collect();
    for call in calls.iter().step_by(2) {
        run_batch(&client, &[(call, 2)]);
    }
    client.run(&[b"CONFIG", b"SET", b"maxmemory", b"1"]).unwrap();
    let merged: Vec<_> = calls.iter().map(|call| (call, 3)).collect();
    let reply = run_batch(&client, &merged);
    for (refused, failed) in reply.iter().step_by(2).zip(reply.iter().skip(1).step_by(2)) {
        assert!(refused.iter().all(Result::is_ok), "{refused:?}");
        assert!(
            failed.iter().all(|one| one.as_ref().unwrap_err().starts_with("OOM")),
            "{failed:?}"
        );
    }
    client.run(&[b"CONFIG", b"SET", b"maxmemory", b"0"]).unwrap();
    let stored = new.iter().map(|key| client.int(&["EXISTS", key])).sum::<i64>();
    assert_eq!(stored, 0, "nothing was taken");
}

/// Another connection, of a user who may run scripts and none of these commands in them.
fn without(client: &Client, commands: &[&str]) -> Client {
    let client = client.another();
    let denied: Vec<_> = commands.iter().map(|name| format!("-{name}")).collect();
    let words = [b"ACL".as_slice(), b"SETUSER", b"half", b"on", b">half", b"~*", b"&*", b"+@all"];
    let denied = denied.iter().map(|word| word.as_bytes());
    client.run(&words.into_iter().chain(denied).collect::<Vec<_>>()).unwrap();
    client.run(&[b"AUTH", b"half", b"half"]).unwrap();
    client
}

#[test]
fn a_request_that_fails_while_it_takes_takes_nothing() {
    let client = without(&Client::start(), &["zadd"]);
    let (bucket, set) = (rule(AlgorithmKind::TokenBucket, 50), sorted_set(5));
    let takes = ask(&[one("bucket", &bucket, 1)]);
    // Limiters take from the last to the first: the set fails before the others have taken, or after them.
    let mut limiters = [one("bucket", &bucket, 1), one("fresh", &bucket, 1), one("set", &set, 1)];
    for taken in [3, 6] {
        let fails = ask(&limiters);
        let reply = run_batch(&client, &[(&fails, 2), (&takes, 2), (&fails, 2), (&takes, 1)]);
        let failed = |reply: &[Answered]| reply.iter().all(|reply| reply.is_err());
        assert!(failed(&reply[0]) && failed(&reply[2]), "{reply:?}");
        assert!(!reply[1].iter().chain(&reply[3]).any(Result::is_err));
        let look = [one("bucket", &bucket, 0)];
        let left = client.step(&look, ScriptStep::Peek, None).decisions[0].remaining;
        assert_eq!(left, 50 - taken);
        assert_eq!(client.int(&["EXISTS", "fresh", "set"]), 0);
        limiters.reverse();
    }
}

#[test]
fn what_can_not_be_written_in_the_end_was_not_admitted() {
    let client = Client::start();
    let log = rule(AlgorithmKind::SlidingLog, 30);
    let (bucket, other) =
        (rule(AlgorithmKind::TokenBucket, 5), rule(AlgorithmKind::TokenBucket, 5));
    let admitted = [one("log", &log, 1)];
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    for second in 0..20 {
        let at = Timestamp::from_micros(now - 1_000_000 * (20 - second));
        assert!(client.step(&admitted, ScriptStep::Ask, Some(at)).allowed);
    }
    let client = without(&client, &["setrange"]);
    let before = client.run(&[b"DUMP", b"log"]).unwrap();
    let limiters = [
        vec![one("bucket", &bucket, 1)],
        admitted.to_vec(),
        vec![one("other", &other, 1), one("log", &log, 1)],
        vec![one("log", &log, 31)],
        vec![one("other", &other, 1)],
    ];
    let calls: Vec<_> = limiters.iter().map(|limiters| ask(limiters)).collect();
    let remembered =
        calls[2].clone().remembering(b"reply".to_vec(), HOUR.into(), Some((&[7; 16], HOUR.into())));
    let merged = [(&calls[0], 1), (&calls[1], 2), (&remembered, 1), (&calls[3], 2), (&calls[4], 1)];
    let reply = run_batch(&client, &merged);
    for (number, reply) in reply.iter().enumerate() {
        let fails = number == 1 || number == 2;
        assert!(reply.iter().all(|reply| reply.is_err() == fails), "request {number}: {reply:?}");
    }
    assert_eq!(client.run(&[b"DUMP", b"log"]).unwrap(), before);
    assert_eq!(client.int(&["EXISTS", "reply"]), 0, "no reply is remembered that no caller got");
}

#[test]
fn two_requests_of_one_id_are_answered_alike_and_one_takes_until_the_answer_expires() {
    let client = Client::start();
    let bucket = rule(AlgorithmKind::TokenBucket, 7);
    let limiters = [one("bucket", &bucket, 2)];
    let call = ask(&limiters).remembering(b"reply".to_vec(), HOUR.into(), None);
    assert!(call.can_merge() && !call.is_repeat_of(&call.clone()), "each is a request of its own");
    let reply = run_batch(&client, &[(&call, 1), (&call, 3), (&ask(&limiters), 1), (&call, 1)]);
    let first = decided(&call, &limiters, &reply[0][0]);
    assert!(first.allowed && !first.repeated);
    for again in reply[1].iter().chain(&reply[3]) {
        let again = decided(&call, &limiters, again);
        assert!(again.repeated);
        assert_eq!(again.decisions, first.decisions);
    }
    let next = decided(&ask(&limiters), &limiters, &reply[2][0]);
    assert_eq!(next.decisions[0].remaining, 3);
    let alone = ask(&limiters).remembering(b"alone".to_vec(), HOUR.into(), None);
    for (key, first) in [("reply", first), ("alone", client.decide(&alone, &limiters))] {
        let remembered_until = first.now.plus(HOUR).as_micros();
        let expires_ms = client.int(&["PEXPIRETIME", key]);
        assert_eq!(expires_ms, remembered_until.div_ceil(1_000).cast_signed(), "{key}");
    }
}

#[test]
fn an_answer_is_remembered_for_its_time_and_not_a_microsecond_longer() {
    let client = Client::start();
    let bucket = rule(AlgorithmKind::TokenBucket, 5);
    let limiters = [one("bucket", &bucket, 1)];
    for (later, repeated) in [(0, false), (3_599_999_999, true), (3_600_000_000, false)] {
        let at = Timestamp::from_micros(1_763_700_000_000_000 + later);
        let [alone, batched] = ["alone", "batched"].map(|id| {
            let call = Call::new(&limiters, ScriptStep::Ask, Some(at));
            call.remembering(id.as_bytes().to_vec(), HOUR.into(), None)
        });
        let answers = [
            client.decide(&alone, &limiters),
            decided(&batched, &limiters, &run_batch(&client, &[(&batched, 1)])[0][0]),
        ];
        assert_eq!(answers.map(|answer| answer.repeated), [repeated; 2], "{later} us later");
    }
}

#[test]
fn a_key_that_a_batch_wrote_expires_when_it_is_idle() {
    let client = Client::start();
    for (key, rule) in of_each(97, HOUR) {
        let limiters = [one(&key, &rule, 1)];
        let call = ask(&limiters);
        // The log first appends its entries, then keeps them in a ring.
        for times in [1, 2, 5, 30, 1] {
            let reply = run_batch(&client, &[(&call, times)]);
            let reply = decided(&call, &limiters, reply[0].last().unwrap());
            assert!(reply.allowed);
            client.expires_when_idle(&key, &reply);
        }
    }
}

#[test]
fn calls_are_merged_that_ask_and_repeats_are_those_that_say_the_same() {
    let bucket = rule(AlgorithmKind::TokenBucket, 5);
    let limiters = [one("bucket", &bucket, 1)];
    let call = ask(&limiters);
    assert!(call.can_merge() && call.is_repeat_of(&ask(&limiters)));
    for step in [ScriptStep::Decide, ScriptStep::Peek, ScriptStep::Settle, ScriptStep::Undo] {
        assert!(!Call::new(&limiters, step, None).can_merge(), "{step:?}");
    }
    assert!(!call.clone().amending().can_merge());
    let surplus = Surplus { key: b"bucket", units: 1, ..Surplus::default() };
    assert!(!Call::giving_back(&[surplus], None).can_merge());
    let names: Vec<_> = (0..=CallBatch::MOST_KEYS).map(|key| key.to_string()).collect();
    let many: Vec<_> = names.iter().map(|name| one(name, &bucket, 1)).collect();
    assert!(!ask(&many).can_merge() && ask(&many[1..]).can_merge());
    let at = Some(Timestamp::from_micros(1_763_700_000_000_000));
    let others = [
        ask(&[one("bucket", &bucket, 2)]),
        ask(&[one("other", &bucket, 1)]),
        ask(&[one("bucket", &bucket, 1).shadow()]),
        ask(&[one("bucket", &bucket, 1).from_request()]),
        ask(&[one("bucket", &rule(AlgorithmKind::TokenBucket, 6), 1)]),
        Call::new(&limiters, ScriptStep::Ask, at),
    ];
    assert!(!others.iter().any(|other| call.is_repeat_of(other)));
}

#[test]
fn a_reply_that_does_not_answer_each_request_as_often_as_it_was_asked_is_no_answer() {
    let bucket = rule(AlgorithmKind::TokenBucket, 5);
    let call = ask(&[one("bucket", &bucket, 1)]);
    let batch = CallBatch::of(&[(&call, 2)]);
    let replies = |times: &[i64]| {
        let parts = times.iter().flat_map(|times| [RedisReply::Int(*times), RedisReply::Nil]);
        RedisReply::Array(vec![RedisReply::Array(parts.collect())])
    };
    assert!(batch.replies(replies(&[1, 1])).is_ok() && batch.replies(replies(&[2])).is_ok());
    for times in [&[1][..], &[3], &[2, 0], &[2, -1], &[i64::MAX, i64::MAX], &[]] {
        assert!(batch.replies(replies(times)).is_err(), "{times:?}");
    }
    for wrong in
        [RedisReply::Nil, RedisReply::Array(vec![]), RedisReply::Array(vec![RedisReply::Nil])]
    {
        assert!(batch.replies(wrong).is_err());
    }
}
