//! A limiter that nodes of a later version wrote: each rule decides as if the store were unavailable, and the
//! limiter stays unchanged.

use tidegate::{AlgorithmKind, Descriptor, OnStoreError, StoreError};

use crate::server::{Server, check, gate_over, rule};

#[tokio::test]
async fn a_limiter_of_a_later_version_is_left_alone_and_the_rule_says_what_then() {
    let server = Server::start(&[]);
    let algorithm = AlgorithmKind::TokenBucket;
    for (on_store_error, allowed) in [(OnStoreError::Open, true), (OnStoreError::Closed, false)] {
        let rules = vec![rule(algorithm, 10).on_store_error(on_store_error)];
        let (gate, events) = gate_over(&server.url(), rules).await;
        let key = "tidegate:default:token_bucket:ada";
        let later = [b"\x02".as_slice(), b"whatever it may be"].concat();
        redis::cmd("SET").arg(key).arg(&later).exec(&mut server.connect()).unwrap();

        for _ in 0..20 {
            let answer = check(&gate, "ada", 1).await;
            assert_eq!((answer.is_degraded(), answer.is_allowed()), (true, allowed));
        }
        let message = gate.refund(Descriptor::new(&[("user", "ada")])).await.unwrap_err();
        assert!(matches!(&message, StoreError::OtherVersion(_)), "{message:?}");
        assert!(message.to_string().contains("version 2; expected version 1"), "{message}");
        assert_eq!(server.run::<Vec<u8>>(&["GET", key]), later);

        let other = check(&gate, &format!("bob, {on_store_error:?}"), 1).await;
        assert!(other.is_allowed() && !other.is_degraded(), "{other:?}");
        let reported = events.seen();
        let of_the_key = |message: &String| message.starts_with("undecided: ");
        assert!(
            reported.len() == 1 && reported.iter().all(of_the_key),
            "the store itself is well: {reported:?}"
        );
    }
}
