//! The promises of scripts apart from their decisions: the server's clock, expiry to the millisecond, no idle state
//! kept, recovery from a lost script, little memory, and no key of others touched.

use crate::server::policies::ten;
use crate::server::{Client, one};
use crate::walk_batch::{run_batch, run_each};
use std::time::Duration;
use tidegate::script::{Call, CallResult, RedisReply, ScriptStep};
use tidegate::{AlgorithmKind, Layout, Micros, Rule, Spec, Timestamp};

fn rule(algorithm: AlgorithmKind, limit: u64, window: Duration) -> Rule {
    Rule::new(Spec::new(algorithm, limit, window)).unwrap()
}

/// The server's clock.
fn time(client: &Client) -> Timestamp {
    let seconds_and_rest = match client.run(&[b"TIME"]).unwrap() {
        redis::Value::Array(parts) => parts.into_iter().map(crate::server::reply),
        other => panic!("{other:?}"),
    };
    let numbers = seconds_and_rest.map(|part| match part {
        RedisReply::Bytes(digits) => String::from_utf8(digits).unwrap().parse::<u64>().unwrap(),
        other => panic!("{other:?}"),
    });
    let numbers: Vec<u64> = numbers.collect();
    Timestamp::from_micros(numbers[0] * 1_000_000 + numbers[1])
}

/// A store compiles what it loads.
#[test]
fn the_file_of_each_algorithm_is_lua_by_itself() {
    let client = Client::start();
    for algorithm in AlgorithmKind::ALL {
        let rule = rule(*algorithm, 5, Duration::from_secs(60));
        let file = rule.script_input(1).unwrap().script.text;
        let loaded = client.run(&[b"SCRIPT", b"LOAD", file.as_bytes()]);
        assert!(loaded.is_ok(), "{algorithm}: {loaded:?}");
        let limiters = [one("key", &rule, 1)];
        let whole = Call::new(&limiters, ScriptStep::Ask, None).script.text.clone();
        assert!(whole.contains(file), "{algorithm}: the file is in the script as it is");
    }
}

#[test]
fn the_time_is_the_servers() {
    let client = Client::start();
    for algorithm in AlgorithmKind::ALL {
        let rule = rule(*algorithm, 5, Duration::from_secs(60));
        let before = time(&client);
        let decided = client.step(&[one(algorithm.name(), &rule, 1)], ScriptStep::Ask, None);
        assert!((before..=time(&client)).contains(&decided.at), "{algorithm}");
    }
}

/// Takes so many units one by one; after each the key expires at the first millisecond at which it is idle. The key of a
/// level never expires earlier than it did.
fn takes_and_expires(client: &Client, key: &str, rule: &Rule, units: u64) {
    use AlgorithmKind::{LeakyBucket, LeakyQueue, TokenBucket};
    let is_level = [LeakyBucket, LeakyQueue, TokenBucket].contains(&rule.spec().algorithm);
    for _ in 0..units {
        let before_ms = client.int(&["PEXPIRETIME", key]);
        let answer = client.step(&[one(key, rule, 1)], ScriptStep::Ask, None);
        let idle_us = answer.at.plus(answer.decisions[0].reset_after()).as_micros();
        if is_level && idle_us.div_ceil(1_000).cast_signed() < before_ms {
            let expires_ms = client.int(&["PEXPIRETIME", key]);
            // A time to live is in whole milliseconds.
            assert!((before_ms..=before_ms + 2).contains(&expires_ms), "{key}");
        } else {
            client.expires_when_idle(key, &answer);
        }
    }
}

#[test]
fn a_key_expires_at_the_first_millisecond_at_which_it_is_idle_by_its_rule_of_now() {
    let client = Client::start();
    for algorithm in AlgorithmKind::ALL {
        let key = format!("expiry:{algorithm}");
        // The log first appends its entries, then keeps them in a ring.
        for (units, hours) in [(60, 2), (2, 1), (2, 3)] {
            let rule = rule(*algorithm, 97, Duration::from_secs(3_600 * hours));
            takes_and_expires(&client, &key, &rule, units);
        }
    }
}

#[test]
fn a_window_below_a_second_still_expires_its_key() {
    let client = Client::start();
    for algorithm in AlgorithmKind::ALL {
        let rule = rule(*algorithm, 5, Duration::from_millis(20));
        let key = format!("short:{algorithm}");
        assert!(client.step(&[one(&key, &rule, 1)], ScriptStep::Ask, None).allowed);
        let gone = (0..1_000_000).any(|_| client.int(&["EXISTS", &key]) == 0);
        assert!(gone, "{algorithm}");
        let answer = client.step(&[one(&key, &rule, 1)], ScriptStep::Peek, None);
        assert_eq!(answer.decisions[0].reset_after(), Duration::ZERO, "{algorithm}");
    }
}

#[test]
fn nothing_is_kept_of_a_limiter_that_is_as_good_as_new() {
    let client = Client::start();
    for algorithm in AlgorithmKind::ALL {
        let rule = rule(*algorithm, 50, Duration::from_secs(60));
        let key = format!("new:{algorithm}");
        client.step(&[one(&key, &rule, 0)], ScriptStep::Ask, None);
        client.step(&[one(&key, &rule, 1)], ScriptStep::Peek, None);
        client.step(&[one(&key, &rule, 52)], ScriptStep::Ask, None);
        client.step(&[one(&key, &rule, 3)], ScriptStep::Settle, None);
        assert_eq!(client.int(&["EXISTS", &key]), 0, "{algorithm}: it did not begin");
        client.step(&[one(&key, &rule, 40)], ScriptStep::Ask, None);
        assert_eq!(client.int(&["EXISTS", &key]), 1, "{algorithm}");
        let lives = client.int(&["PTTL", &key]);
        client.step(&[one(&key, &rule, 40)], ScriptStep::Settle, None);
        // It lives no longer than with the units, so that it is not taken for lost.
        let left = client.int(&["PTTL", &key]);
        assert!((1..=lives).contains(&left), "{algorithm}: all was given back");
        let answer = client.step(&[one(&key, &rule, 1)], ScriptStep::Peek, None);
        assert_eq!(answer.decisions[0].reset_after(), Duration::ZERO, "{algorithm}");
    }
}

/// Takes a unit in each way: alone, in a batch with another request, and with requests for other keys.
fn takes(client: &Client, key: &str, rule: &Rule) {
    let limiters = [one(key, rule, 1)];
    client.step(&limiters, ScriptStep::Ask, None);
    let call = Call::new(&limiters, ScriptStep::Ask, None);
    run_batch(client, &[(&call, 2)]);
    run_each(client, &[call]);
}

/// A node that knows of the units would take a limiter that is gone, without a note, for lost.
#[test]
fn a_key_or_its_note_lives_as_long_as_units_that_came_back_could_have_been_in_use() {
    let client = Client::start();
    for algorithm in AlgorithmKind::ALL {
        let [before, after] =
            [50, 49].map(|limit| rule(*algorithm, limit, Duration::from_secs(60)));
        for (number, back) in [30, 40, 40].into_iter().enumerate() {
            let key = format!("back:{algorithm}:{number}");
            let expires_ms = || {
                let names = [key.clone(), format!("{key}{{{key}}}?taken")];
                names.map(|name| client.int(&["PEXPIRETIME", &name])).into_iter().max()
            };
            client.step(&[one(&key, &before, 40)], ScriptStep::Ask, None);
            let until_ms = expires_ms();
            client.step(&[one(&key, &before, back)], ScriptStep::Settle, None);
            assert!(expires_ms() >= until_ms, "{key}");
            if number < 2 {
                takes(&client, &key, &before);
                assert!(expires_ms() >= until_ms, "{key}, after more was taken");
            }
            client.step(&[one(&key, &after, 1)], ScriptStep::Ask, None);
            assert!(expires_ms() >= until_ms, "{key}, under another limit");
        }
    }
}

#[test]
fn a_script_that_the_server_forgot_is_sent_again_and_the_limiter_goes_on() {
    let client = Client::start();
    let rule = rule(AlgorithmKind::SlidingLog, 10, Duration::from_secs(60));
    let ask =
        || client.step(&[one("flush", &rule, 1)], ScriptStep::Ask, None).decisions[0].remaining;
    assert_eq!([ask(), ask()], [9, 8]);
    assert_eq!(client.loaded.get(), 1, "it was sent once");
    client.run(&[b"SCRIPT", b"FLUSH"]).unwrap();
    assert_eq!([ask(), ask()], [7, 6]);
    assert_eq!(client.loaded.get(), 2);
}

#[test]
fn what_no_limiter_wrote_is_reported_and_left_alone() {
    let client = Client::start();
    let another_version = [b"\x63\x03".as_slice(), &[0; 60]].concat();
    // A log before its newest and oldest entries lay in front of its ring.
    let another_kind = [b"\x01\x06".as_slice(), &[0; 300]].concat();
    let texts = [b"1".as_slice(), &[0; 22], &[0; 300], &another_version, &another_kind];
    let texts = texts.map(|text| vec![b"SET".as_slice(), b"foreign", text]);
    let set = vec![b"ZADD".as_slice(), b"foreign", b"1", b"one", b"2", b"two"];
    for written in texts.into_iter().chain([set]) {
        client.run(&[b"DEL", b"foreign"]).unwrap();
        client.run(&written).unwrap();
        let stored = client.run(&[b"DUMP", b"foreign"]).unwrap();
        for (name, rule) in ten(Duration::from_secs(1)) {
            let limiters = [one("foreign", &rule, 1)];
            let call = Call::new(&limiters, ScriptStep::Ask, None);
            assert_eq!(
                call.answer(&limiters, &client.ask(&call)),
                Ok(CallResult::Changed),
                "{name}"
            );
            let call = call.amending();
            let message = call.answer(&limiters, &client.ask(&call)).unwrap_err().to_string();
            assert!(message.contains("no limiter of this version wrote"), "{name}: {message}");
            assert_eq!(client.run(&[b"DUMP", b"foreign"]).unwrap(), stored, "{name}");
        }
    }
}

#[test]
fn a_state_of_another_version_is_reported_by_its_number_and_left_alone() {
    let client = Client::start();
    for algorithm in AlgorithmKind::ALL {
        let rule = rule(*algorithm, 20, Duration::from_secs(86_400));
        let limiters = [one("key", &rule, 1)];
        assert!(client.step(&limiters, ScriptStep::Decide, None).allowed, "{algorithm}");
        let redis::Value::BulkString(mut stored) = client.run(&[b"GET", b"key"]).unwrap() else {
            panic!("{algorithm}: nothing is stored");
        };
        for version in [2, 31] {
            stored[0] = version;
            client.run(&[b"SET", b"key", &stored]).unwrap();
            for step in [ScriptStep::Decide, ScriptStep::Ask, ScriptStep::Peek, ScriptStep::Settle]
            {
                let call = Call::new(&limiters, step, None).amending();
                let message = call.answer(&limiters, &client.ask(&call)).unwrap_err();
                assert_eq!(message.other_version(), Some(version), "{algorithm}: {message}");
            }
            let left = client.run(&[b"GET", b"key"]).unwrap();
            assert_eq!(left, redis::Value::BulkString(stored.clone()), "{algorithm}");
        }
        client.run(&[b"DEL", b"key"]).unwrap();
    }
}

/// A log of few units in a sorted set.
fn sorted_set(limit: u64, window: Duration) -> Rule {
    let mut spec = Spec::new(AlgorithmKind::SlidingLog, limit, window);
    spec.layout = Some(Layout::SortedSet);
    Rule::new(spec).unwrap()
}

#[test]
fn a_sorted_set_expires_to_the_millisecond_and_counts_two_requests_of_one_tick_twice() {
    let client = Client::start();
    let rule = sorted_set(3, Duration::from_millis(30));
    let at = Some(Timestamp::from_micros(1_763_700_000_123_456));
    let answers = [(); 4].map(|()| client.step(&[one("tick", &rule, 1)], ScriptStep::Ask, at));
    assert_eq!(answers.map(|answer| answer.allowed), [true, true, true, false]);
    assert_eq!(client.int(&["ZCARD", "tick"]), 4, "one for each, and one that says whose it is");

    let hour = sorted_set(90, Duration::from_secs(3_600));
    takes_and_expires(&client, "hour", &hour, 90);
    client.step(&[one("hour", &hour, 90)], ScriptStep::Settle, None);
    assert_eq!(client.int(&["EXISTS", "hour"]), 0, "all was given back");
    assert!(client.step(&[one("short", &rule, 1)], ScriptStep::Ask, None).allowed);
    assert!((0..1_000_000).any(|_| client.int(&["EXISTS", "short"]) == 0));
}

/// Prints what either layout takes, for the guide: `cargo test -p tidegate --all-features --test scripts
/// layouts_measured -- --nocapture`, in a release build for the time.
#[test]
fn layouts_measured() {
    let client = Client::start();
    let window = Duration::from_secs(3_600);
    for limit in [10_u64, 100, 1_000, 10_000] {
        let mut sizes = Vec::new();
        for layout in [Layout::String, Layout::SortedSet] {
            let mut spec = Spec::new(AlgorithmKind::SlidingLog, limit, window);
            spec.layout = Some(layout);
            let rule = Rule::new(spec).unwrap();
            let key = format!("{layout:?}:{limit}");
            // Full, and an old unit leaves for each that comes.
            let pause_us = Micros::from(window).as_micros() / limit + 1;
            let at = |unit: u64| Timestamp::from_micros(1_763_700_000_000_000 + unit * pause_us);
            for unit in 0..limit {
                client.step(&[one(&key, &rule, 1)], ScriptStep::Ask, Some(at(unit)));
            }
            let turns = if crate::server::long() { 20_000 } else { 200 };
            client.run(&[b"CONFIG", b"RESETSTAT"]).unwrap();
            for unit in limit..limit + turns {
                assert!(
                    client.step(&[one(&key, &rule, 1)], ScriptStep::Ask, Some(at(unit))).allowed
                );
            }
            let stats = client.run(&[b"INFO", b"commandstats"]).unwrap();
            let stats: String = redis::from_redis_value(stats).unwrap();
            let of_script = stats.lines().find(|line| line.starts_with("cmdstat_evalsha")).unwrap();
            let per_call = of_script.split("usec_per_call=").nth(1).unwrap();
            let per_call = per_call.split(',').next().unwrap().to_owned();
            let bytes = client.int(&["MEMORY", "USAGE", &key, "SAMPLES", "0"]);
            println!(
                "{layout:?} N={limit}: {bytes} bytes, {per_call} us of the server per decision"
            );
            sizes.push(bytes);
        }
        assert!(sizes[0] < sizes[1], "the string is the smaller one: {sizes:?}");
    }
}

#[test]
fn a_log_takes_a_ninth_of_the_memory_of_a_sorted_set() {
    let client = Client::start();
    let rule = rule(AlgorithmKind::SlidingLog, 1_000, Duration::from_secs(3_600));
    for _ in 0..1_000 {
        let answer = client.step(&[one("log", &rule, 1)], ScriptStep::Ask, None);
        let member = format!("{}:0", answer.at.as_micros());
        let score = answer.at.as_micros().to_string();
        client.run(&[b"ZADD", b"sorted", score.as_bytes(), member.as_bytes()]).unwrap();
    }
    let bytes = |key| client.int(&["MEMORY", "USAGE", key]);
    let (log, sorted_set) = (bytes("log"), bytes("sorted"));
    assert!(9 * log <= sorted_set, "{log} bytes, and {sorted_set} in a sorted set");
}
