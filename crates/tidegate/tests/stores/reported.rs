//! A rule whose usage is reported afterwards, while its store is unavailable.

use std::time::Duration;
use tidegate::{AlgorithmKind, OnStoreError, RuleSpec, Spec, Usage};

use crate::server::{Server, check, gate_over, until_lost};

#[tokio::test]
async fn a_report_while_the_store_is_away_is_taken_here_or_refused_and_never_lost_without_a_word() {
    let spec = |name| {
        let spec = Spec::new(AlgorithmKind::SlidingLog, 100, Duration::from_secs(3_600));
        RuleSpec::new(name, spec).key(["user"]).usage(Usage::Reported)
    };
    for (on_store_error, looks) in [(OnStoreError::Local, true), (OnStoreError::Closed, false)] {
        let mut server = Server::start(&[]);
        let rules = vec![spec("tokens").on_store_error(on_store_error)];
        let (gate, events) = gate_over(&server.url(), rules).await;
        assert!(check(&gate, "ada", 60).await.is_allowed());
        server.kill();
        until_lost(&gate, &events).await;
        let look = check(&gate, "ada", 0).await;
        assert_eq!((look.is_allowed(), look.is_unavailable()), (looks, !looks));
        // Earlier reports are known in this process as well, because this is the only node.
        let report = check(&gate, "ada", 60).await;
        assert!(!report.is_allowed(), "{on_store_error:?}");
        assert_eq!(report.matched()[0].is_report(), looks, "taken, or to be reported again");
        assert!(!check(&gate, "ada", 0).await.is_allowed());
    }
}
