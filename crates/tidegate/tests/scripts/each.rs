//! Requests for different keys in one call, by examples: expiry, failures of single requests, and the calls that may be
//! merged.

use tidegate::AlgorithmKind;
use tidegate::script::{Call, Each, RedisReply, ScriptStep};

use crate::batch::{HOUR, ask, decided, rule};
use crate::server::policies::of_each;
use crate::server::{Client, one};
use crate::walk_batch::run_each;

#[test]
fn distinct_keys_in_one_call_expire_when_they_are_idle_and_one_that_fails_spoils_no_other() {
    let client = Client::start();
    client.run(&[b"RPUSH", b"list", b"of nobody"]).unwrap();
    let mut rules = of_each(97, HOUR);
    rules.push(("list".to_owned(), rule(AlgorithmKind::TokenBucket, 5)));
    let limiters: Vec<_> = rules.iter().map(|(key, rule)| [one(key, rule, 1)]).collect();
    let calls: Vec<_> = limiters.iter().map(|limiters| ask(limiters)).collect();
    assert!(calls.iter().all(Call::can_go_with_others));
    for _ in 0..3 {
        let replies = run_each(&client, &calls);
        let (fails, others) = replies.split_last().unwrap();
        assert!(fails[0].as_ref().unwrap_err().starts_with("WRONGTYPE"));
        for (number, reply) in others.iter().enumerate() {
            let reply = decided(&calls[number], &limiters[number], &reply[0]);
            assert!(reply.allowed);
            client.expires_when_idle(&rules[number].0, &reply);
        }
    }
}

#[test]
fn distinct_keys_of_a_store_without_memory_fail_each_and_take_nothing() {
    let client = Client::start();
    let bucket = rule(AlgorithmKind::TokenBucket, 5);
    let names: Vec<_> = (0..Each::MOST).map(|number| format!("new:{number}")).collect();
    let calls: Vec<_> = names.iter().map(|name| ask(&[one(name, &bucket, 1)])).collect();
    client.run(&[b"CONFIG", b"SET", b"maxmemory", b"1"]).unwrap();
    let reply = run_each(&client, &calls);
    assert!(reply.iter().all(|one| one[0].as_ref().unwrap_err().starts_with("OOM")), "{reply:?}");
    client.run(&[b"CONFIG", b"SET", b"maxmemory", b"0"]).unwrap();
    let stored = names.iter().map(|name| client.int(&["EXISTS", name])).sum::<i64>();
    assert_eq!(stored, 0, "nothing was taken");
}

#[test]
fn calls_of_one_limiter_go_with_others_and_a_reply_of_another_length_is_no_answer() {
    let bucket = rule(AlgorithmKind::TokenBucket, 5);
    let limiters = [one("bucket", &bucket, 1), one("other", &bucket, 1)];
    let call = ask(&limiters[..1]);
    assert!(call.can_go_with_others());
    for other in [
        ask(&limiters),
        ask(&[one("bucket", &bucket, 0).looking()]),
        Call::new(&limiters[..1], ScriptStep::Peek, None),
        call.clone().amending(),
        call.clone().without_memory(),
        call.clone().remembering(b"reply".to_vec(), HOUR.into(), None),
    ] {
        assert!(!other.can_go_with_others(), "{other:?}");
    }
    let each = Each::of(&[&call, &call]);
    assert!(each.replies(RedisReply::Nil).is_err());
    for (length, is_answer) in [(1, false), (2, true), (3, false)] {
        let replies = each.replies(RedisReply::Array(vec![RedisReply::Nil; length]));
        assert_eq!(replies.is_ok(), is_answer, "{length}");
    }
}
