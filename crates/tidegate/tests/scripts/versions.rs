//! A stored state of another version than today's: it is named by its number, and left alone.

use std::time::Duration;

use redis::Value;
use tidegate::script::{Call, ScriptLimiter, ScriptStep};
use tidegate::{AlgorithmKind, Rule, Spec};

use crate::server::Client;

#[test]
fn a_state_of_another_version_is_reported_by_its_number_and_left_alone() {
    let client = Client::start();
    for algorithm in AlgorithmKind::ALL {
        let rule = Rule::new(Spec::new(*algorithm, 20, Duration::from_secs(86_400))).unwrap();
        let limiters = [ScriptLimiter::new(b"key", &rule, 1).unwrap()];
        assert!(client.step(&limiters, ScriptStep::Decide, None).allowed, "{algorithm}");
        let Value::BulkString(mut stored) = client.run(&[b"GET", b"key"]).unwrap() else {
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
            assert_eq!(left, Value::BulkString(stored.clone()), "{algorithm}");
        }
        client.run(&[b"DEL", b"key"]).unwrap();
    }
}
