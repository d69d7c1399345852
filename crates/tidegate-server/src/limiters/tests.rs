//! Requests that wait, requests that are refused, and the length of the waits.

use super::*;
use tidegate::{Descriptor, config};

const HOPELESS: &str = r#"
    [[rule]]
    name = "hopeless"
    algorithm = "token_bucket"
    limit = 1
    window = "365d"
    on_excess = { wait = "365d", max_waiters = 1 }
"#;

#[test]
fn only_an_enforced_rule_lets_wait() {
    let said = |toml: &str| lets_wait(&config::parse("test", toml).unwrap());
    assert!(said(HOPELESS));
    assert!(!said(&format!("{HOPELESS}mode = \"shadow\"")));
    let (rejects, _) = HOPELESS.split_once("on_excess").unwrap();
    assert!(!said(rejects));
}

#[tokio::test]
async fn requests_wait_as_the_policy_in_force_lets_them() {
    let (rejects, _) = HOPELESS.split_once("on_excess").unwrap();
    let policy = |toml: &str| config::parse("test", toml).unwrap();
    let limiters = Limiters::of(policy(rejects)).unwrap();
    for (toml, lets_wait) in [(HOPELESS, true), (rejects, false), (HOPELESS, true)] {
        limiters.replace(policy(toml)).unwrap();
        assert_eq!(limiters.lets_wait.load(SeqCst), lets_wait);
    }
}

#[tokio::test]
async fn a_request_that_waits_when_the_process_ends_is_refused_and_takes_nothing() {
    let (stop, stopping) = Stop::by_hand();
    let limiters = Limiters::of(config::parse("test", HOPELESS).unwrap()).unwrap();
    let limiters = limiters.until(stopping);
    let request = Request::from(Descriptor::new(&[]));
    assert!(limiters.check(&request).await.is_allowed());
    let ends = async {
        stop.drain();
        tokio::task::yield_now().await;
        stop.refuse();
    };
    let (answer, ()) = tokio::join!(limiters.check(&request), ends);
    assert!(!answer.is_allowed());
    let waits = answer.retry_after().unwrap();
    assert!(waits > Duration::from_secs(86_400), "{waits:?}");
    assert!(!limiters.check(&request).await.is_allowed(), "no request waits from then on");
    let _ = limiters.refund(&request).await.unwrap();
    assert!(limiters.check(&request).await.is_allowed(), "its place in the line is free");
}
