//! Requests that are asked again under their id, with and without a store.

use crate::process::Server;
use crate::store::{RULE, Store};

/// Over HTTP and RESP, in memory and in a store.
#[tokio::test]
async fn a_check_that_is_asked_again_under_its_id_takes_nothing() {
    let store = Store::start();
    let rule = format!("{RULE}dedupe = \"1h\"\n");
    for rules in [store.with(&rule), rule] {
        let server = Server::with_rules(&rules);
        let names_it = server.printed.contains(&format!("  store  {}/0  ", store.url()));
        assert_eq!(names_it, rules.contains("[store]"), "{}", server.printed);
        let client = server.client();
        let body =
            |id: &str| format!("{{\"descriptor\": {{\"user\": \"ada\"}}, \"request_id\": {id}}}");
        let first = client.check(&body("\"a\"")).await;
        for _ in 0..3 {
            let again = client.check(&body("\"a\"")).await;
            assert_eq!((again.status, &again.text), (first.status, &first.text));
        }
        assert_eq!(client.check(&body("\"b\"")).await.json()["remaining"], 8);
        let long = format!("\"{}\"", "x".repeat(257));
        for (id, answer) in [
            ("\"\"", "is empty"),
            (&long, "has 257 bytes"),
            ("null", "a string"),
            ("7", "a string"),
        ] {
            let wrong = client.check(&body(id)).await;
            assert!(wrong.status == 400 && wrong.text.contains(answer), "{}", wrong.text);
        }
        // All commands are in one pipeline: a repeated request may still be on its way.
        let mut pipe = redis::pipe();
        for id in ["a", "a", "b", "a", "b"] {
            pipe.cmd("TG.CHECK").arg(&["default", "ID", id, "COST", "3", "user", "bob"]);
        }
        pipe.cmd("TG.CHECK").arg(&["default", "user", "bob"]);
        // A look under the id is answered the same.
        pipe.cmd("TG.PEEK").arg(&["default", "ID", "a", "COST", "3", "user", "bob"]);
        let reply: Vec<Vec<redis::Value>> = pipe.query(&mut server.redis()).unwrap();
        let remaining: Vec<_> = reply.iter().map(|answer| answer[7].clone()).collect();
        assert_eq!(remaining, [7, 7, 4, 7, 4, 3, 7].map(redis::Value::Int));
    }
}
