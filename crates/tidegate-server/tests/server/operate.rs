//! The steps of the tutorial "An operator's hour", in their order, with the rules of its page.

use std::path::Path;

use crate::changed_rules::{folder, serve};
use crate::client::Client;
use crate::process::{config, run};

const PAGE: &str = include_str!("../../../../docs/tutorials/operate.md");
const SCRAPER: &str = "203.0.113.66";

/// The blocks of TOML of the page.
fn rules() -> [String; 2] {
    let blocks = PAGE.split("\n```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let blocks: Vec<_> = blocks.map(str::to_owned).collect();
    blocks.try_into().unwrap()
}

/// Asks a thousand times, and returns the verdict on the last.
async fn spike(public: &Client, ip: &str) -> bool {
    let one = format!(r#"{{"descriptor": {{"ip": "{ip}"}}}}"#);
    let answers = public.check(&format!("[{}]", vec![one; 1_000].join(","))).await.json();
    answers[999]["allowed"].as_bool().unwrap()
}

#[tokio::test]
async fn the_steps_of_the_tutorial_end_where_the_page_says() {
    let [before, steady] = rules();
    let (_folder, file) = folder(&before);
    let server = serve(&file, &[]);
    let (public, admin) = (server.client(), server.operator());
    let (url, admin_url) = (format!("http://{}", server.http), server.admin_url());
    let top = |more: &[&str]| run(&[&["top", "--admin", &admin_url], more].concat()).printed();
    let peek = || run(&["peek", &format!("ip={SCRAPER}"), "--url", &url]).printed();

    // See the spike.
    assert!(spike(&public, SCRAPER).await);
    let series =
        r#"tidegate_rule_decisions_total{domain="default",rule="per-ip",outcome="allowed"} 1000"#;
    let metrics = admin.get("/metrics").await.text;
    assert!(metrics.contains(series) && !metrics.contains(SCRAPER), "{metrics}");

    // Find the key.
    let shown = top(&[]);
    let (_, asking) = shown.split_once("Asking most").unwrap();
    assert!(
        shown.contains("Refused most: none") && asking.contains(&format!("ip={SCRAPER}")),
        "{shown}"
    );

    // Try a rule by replay.
    let candidate = format!("{before}\n{steady}");
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tidegate-lab/data/example-access.log");
    let tried = config(&candidate);
    let (tried, log) = (tried.path(), log.to_str().unwrap());
    let report = run(&["replay", "--config", tried, "--trace", log]).printed();
    let (_, refused) = report.split_once("Refused most by per-ip-steady:").unwrap();
    assert!(
        refused.starts_with(&format!("\n        100  ip={SCRAPER}\n\n")),
        "no other key: {report}"
    );

    // Load it in shadow.
    let shadow = format!("{candidate}mode = \"shadow\"\n");
    let dry = admin.put_rules("?dry_run=1", "", &shadow).await;
    assert_eq!((dry.status.as_u16(), dry.json()["added"].as_u64()), (200, Some(1)));
    let etag = async || admin.get("/v1/rules").await.header("etag").unwrap().to_owned();
    admin.put_rules("", &etag().await, &shadow).await.succeeded();
    assert!(spike(&public, SCRAPER).await, "no request is refused");
    let table = run(&["rules", "--admin", &admin_url]).printed();
    assert!(table.contains("per-ip-steady") && table.contains("shadow"), "{table}");
    let shown = top(&["--rule", "per-ip-steady"]);
    let (_, refused) = shown.split_once("Refused most in").unwrap();
    assert!(refused.contains(&format!("ip={SCRAPER}")), "{shown}");

    // Enforce it.
    admin.put_rules("", &etag().await, &candidate).await.succeeded();
    assert!(peek().starts_with("refused: rule per-ip-steady, 0 of 30 remaining"), "{}", peek());
    assert!(!spike(&public, SCRAPER).await);

    // Roll it back.
    admin.put_rules("", &etag().await, &before).await.succeeded();
    assert!(peek().starts_with("allowed: rule per-ip,"), "{}", peek());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}
