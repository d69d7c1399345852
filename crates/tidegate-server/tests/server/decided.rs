//! The log of decisions: a line for each at every listener, and the same answers with it.

use crate::client::Client;
use crate::grpc::{client, descriptor, request_in};
use crate::process::Server;
use crate::raw::answers_to;

/// Two a day, which do not come back while a test runs.
const RULES: &str = "[[rule]]\nname = \"two\"\ndomain = \"shop\"\nkey = [\"user\"]\n\
                     algorithm = \"fixed_window\"\nlimit = 2\nwindow = \"366d\"\n";

/// Part of every key.
const CALLER: &str = "ann";

/// A reply or a body without the fields of time.
fn timeless(text: &str) -> String {
    text.split([',', '\r']).filter(|part| !part.contains("_us\":")).take(4).collect()
}

/// Asks at every listener three times, and a batch of three; returns the answers, and the log.
async fn asked(rules: &str, level: &str) -> (Vec<String>, String) {
    let server = Server::with_rules_and(rules, &["--log-level", level, "--drain", "100ms"]);
    let body =
        |user: &str| format!("{{\"domain\":\"shop\",\"descriptor\":{{\"user\":\"{user}\"}}}}");
    let mut answers = Vec::new();
    for (user, http) in [("ann-1", server.client()), ("ann-2", Client::http2(server.http))] {
        for _ in 0..3 {
            let answer = http.check(&body(user)).await;
            answers.push(format!("{} {}", answer.status, timeless(&answer.text)));
        }
    }
    let batch = ["ann-3"; 3].map(body).join(",");
    let batch = server.client().check(&format!("[{batch}]")).await;
    answers.push(format!("{} {}", batch.status, batch.text.matches("\"allowed\":true").count()));
    for _ in 0..3 {
        answers.push(timeless(&answers_to(server.resp, "TG.CHECK shop user ann-4\r\n")));
    }
    answers.push(answers_to(server.resp, "CL.THROTTLE ann-5 0 1 86400\r\n"));
    let mut grpc = client(&server).await;
    for _ in 0..3 {
        let request = request_in("shop", vec![descriptor(&[("user", "ann-6")])]);
        let reply = grpc.should_rate_limit(request).await.unwrap().into_inner();
        answers.push(format!("grpc {}", reply.overall_code));
    }
    drop(grpc);
    let log = server.stopped();
    (answers, log)
}

#[tokio::test]
async fn every_decision_has_a_line_at_debug_and_answers_are_the_same() {
    let (answers, quiet) = asked(RULES, "info").await;
    assert!(!quiet.contains("decided"), "{quiet}");
    for level in ["debug", "trace"] {
        let (logged, log) = asked(RULES, level).await;
        assert_eq!(logged, answers, "{level}");
        let lines: Vec<_> = log
            .lines()
            .filter(|line| line.contains(" tidegate::limiters::decided: decided "))
            .collect();
        let of = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
        // HTTP without and with hyper and in a batch, RESP, gRPC: two of three are allowed at each.
        for (listener, allowed) in [("http", 6), ("resp", 2), ("grpc", 2)] {
            let named = format!(
                "verb=\"check\" listener=\"{listener}\" domain=\"shop\" rule=\"two\" outcome="
            );
            let counted =
                ["allowed", "refused"].map(|outcome| of(&format!("{named}\"{outcome}\"")));
            assert_eq!(counted, [allowed, allowed / 2], "{listener}: {log}");
        }
        let throttled = log.lines().filter(|line| line.contains("domain=\"cl.throttle\"")).count();
        assert_eq!(throttled, 1, "{log}");
        // Only what hyper reads, HTTP/2 and batches, has a line of its own: other checks kept their path.
        let by_hyper = log.lines().filter(|line| line.contains("routes: request ")).count();
        assert_eq!(by_hyper, 4, "{log}");
        let names_callers = lines.iter().any(|line| line.contains(CALLER));
        assert_eq!(names_callers, level == "trace", "{log}");
        assert!(level == "trace" || !log.contains(CALLER), "{log}");
    }
}

#[tokio::test]
async fn no_level_shows_a_key_that_its_rule_hides() {
    let hiding = RULES.replace("limit = 2", "limit = 2\nhide_keys = true");
    // Also a rule that does not match, or has no limit.
    let unmatched = hiding.replace("[\"user\"]", "[\"user\", \"card\"]");
    let unlimited = hiding.replace("limit = 2", "limit = -1");
    for rules in [hiding, unmatched, unlimited] {
        let (_, log) = asked(&rules, "trace").await;
        assert!(log.contains("entries=\"user=…\""), "{rules}{log}");
        // CL.THROTTLE has a rule of its own, which hides nothing.
        let throttled = "domain=\"cl.throttle\"";
        let named = log.lines().filter(|line| line.contains(CALLER) && !line.contains(throttled));
        assert_eq!(named.collect::<Vec<_>>(), [""; 0], "{rules}{log}");
    }
}
