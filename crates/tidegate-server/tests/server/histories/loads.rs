//! The answers of four servers under each load of the overload table, one by one: connections with one request or
//! sixteen on their way, about one key, about one global limiter and a limiter for each user, and about 100,000 keys.

use super::*;

/// Connections of all servers together, and requests on their way on each.
const LOADS: [(usize, usize); 5] = [(50, 1), (400, 1), (1_000, 1), (50, 16), (200, 16)];

fn log(limit: u64) -> Policy {
    Policy::new(AlgorithmKind::SlidingLog, limit, DAY_US)
}

/// Runs `judged` once for each load, each over a store and servers of its own.
async fn under_each_load(rules: &[(&str, u64)], meets: Meets, judged: impl Fn(Vec<Answered>)) {
    for (connections, deep) in LOADS {
        let store = Store::start();
        let rules =
            rules.iter().map(|(key, limit)| rule(key, AlgorithmKind::SlidingLog, *limit, DAY_US));
        let servers = servers(&store, &rules.collect::<String>());
        let askers = match meets {
            Meets::Two => grpc(&servers, connections).await,
            Meets::One | Meets::Own(_) => resp(&servers, connections).await,
        };
        let history = history(askers, meets, deep).await;
        println!("{connections}x{deep}: {} answers", history.len());
        is_saturated(&history);
        judged(history);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_answer_about_one_key_as_the_definition_under_each_load() {
    under_each_load(&[("all", 500)], Meets::One, |history| judge(history, |_| log(500))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_answer_about_a_global_rule_beside_one_for_each_user_under_each_load() {
    let rules = [("all", 500), ("user", 20)];
    under_each_load(&rules, Meets::Two, |history| {
        let by_the_second = |answer: &Answered| !answer.allowed && answer.left[0].1 >= answer.cost;
        assert!(history.iter().any(by_the_second), "the rule for each user denies some");
        judge(history, |asks| log(if asks.is_empty() { 500 } else { 20 }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_answer_about_a_hundred_thousand_keys_as_the_definition_under_each_load() {
    under_each_load(&[("user", 5)], Meets::Own(100_000), |history| {
        let mut by_key: HashMap<String, Vec<Answered>> = HashMap::new();
        for answer in history {
            by_key.entry(answer.left[0].0.clone()).or_default().push(answer);
        }
        by_key.into_values().for_each(|mut history| compare(&mut history, |_| log(5)));
    })
    .await;
}
