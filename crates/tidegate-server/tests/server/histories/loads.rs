//! The answers of four servers under each load of the overload table, one by one: connections with one request or
//! sixteen on their way, about one key, about one global limiter and a limiter for each user, and about 100,000 keys.

use super::*;

/// Connections of all servers together, and requests on their way on each.
const LOADS: [(usize, usize); 5] = [(50, 1), (400, 1), (1_000, 1), (50, 16), (200, 16)];

fn log(limit: u64) -> Policy {
    Policy::new(AlgorithmKind::SlidingLog, limit, DAY_US)
}

/// Four servers that know these rules, by key and limit.
fn four(store: &Store, rules: &[(&str, u64)]) -> Vec<Server> {
    let rules =
        rules.iter().map(|(key, limit)| rule(key, AlgorithmKind::SlidingLog, *limit, DAY_US));
    servers(store, &rules.collect::<String>())
}

/// Connections over RESP, dealt to the servers in turn.
async fn over_resp(servers: &[Server], connections: usize) -> Vec<Caller> {
    let mut callers = Vec::new();
    for server in servers.iter().cycle().take(connections) {
        callers.push(Caller::Resp(TcpStream::connect(server.resp).await.unwrap()));
    }
    callers
}

/// Runs `judged` once for each load, each over a store and servers of its own.
async fn under_each_load(rules: &[(&str, u64)], meets: Meets, judged: impl Fn(Vec<Answered>)) {
    for (connections, deep) in LOADS {
        let store = Store::start();
        let servers = four(&store, rules);
        let callers = if meets == Meets::Two {
            let mut callers = Vec::new();
            for server in servers.iter().cycle().take(connections) {
                callers.push(Caller::Grpc(grpc::client(server).await));
            }
            callers
        } else {
            over_resp(&servers, connections).await
        };
        let history = history(callers, meets, deep).await;
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
