//! The values that a model reports agree with its own later decisions.

use crate::{for_many_answers, would};

#[test]
fn retry_after_is_the_least_wait() {
    for_many_answers(11, |model, at_us, cost, answer| match answer.retry_after_us {
        Some(0) => assert!(answer.allowed, "{model:?}"),
        Some(wait_us) => {
            assert!(!answer.allowed && would(model, at_us + wait_us, cost), "{model:?}");
            assert!(!would(model, at_us + wait_us - 1, cost), "{model:?}");
        }
        None => {
            assert!(!answer.allowed && cost > answer.limit, "{model:?}");
            assert!(!would(model, 1 << 60, cost), "{model:?}");
        }
    });
}

#[test]
fn remaining_is_what_would_be_admitted() {
    for_many_answers(12, |model, at_us, _, answer| {
        assert!(would(model, at_us, answer.remaining), "{model:?}");
        assert!(!would(model, at_us, answer.remaining + 1), "{model:?}");
    });
}

#[test]
fn reset_after_is_the_least_wait_until_nothing_is_used() {
    for_many_answers(13, |model, at_us, _, answer| {
        let used_after = |wait_us| model.clone().used(at_us + wait_us);
        assert_eq!(used_after(answer.reset_after_us), 0, "{model:?}");
        if answer.reset_after_us > 0 {
            assert!(used_after(answer.reset_after_us - 1) > 0, "{model:?}");
        }
    });
}
