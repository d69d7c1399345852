//! The jobs of `docs/five-lines.md` as peers do them: this is what the page shows, and what the page counts.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

const PAGE: &str = include_str!("../../docs/five-lines.md");
const HERE: &str = include_str!("five_lines.rs");

/// The code blocks of a text in this language.
fn blocks<'a>(text: &'a str, language: &str) -> Vec<&'a str> {
    let fenced = text.split("```").skip(1).step_by(2);
    fenced.filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n')).collect()
}

/// The code without white space and `pub`, and without the commas that a formatter adds.
fn bare(code: &str) -> String {
    code.replace("pub ", "").chars().filter(|c| !c.is_whitespace() && *c != ',').collect()
}

fn lines(code: &str) -> usize {
    code.lines().filter(|line| !line.trim().is_empty()).count()
}

#[test]
fn each_job_of_a_peer_is_compiled_here() {
    let (here, peers) = (bare(HERE), blocks(PAGE, "rs"));
    assert_eq!(peers.len(), 6);
    for block in peers {
        assert!(here.contains(&bare(block)), "not in this file:\n{block}");
    }
}

#[test]
fn no_job_takes_more_lines_than_with_a_peer() {
    let mut compared = 0;
    for job in PAGE.split("\n## ").skip(1) {
        let (ours, theirs) = (blocks(job, "rust"), blocks(job, "rs"));
        for (ours, theirs) in ours.iter().zip(theirs) {
            let (name, _) = job.split_once('\n').unwrap();
            assert!(lines(ours) <= lines(theirs), "{name}: {} lines", lines(ours));
            compared += 1;
        }
    }
    assert_eq!(compared, 6);
}

#[tokio::test]
async fn each_job_of_a_peer_admits_its_first_request() {
    assert!(one_limit::upload() && by_key::of_user() && several::transfer());
    assert!(by_address::app().is_some() && by_api_key::with_keys().is_some());
    waits::call().await;
}

mod one_limit {
    use governor::{Quota, RateLimiter};
    use nonzero_ext::nonzero;

    pub fn upload() -> bool {
        let limiter = RateLimiter::direct(Quota::per_second(nonzero!(50_u32)));
        limiter.check().is_ok()
    }
}

mod by_key {
    use governor::{Quota, RateLimiter};
    use nonzero_ext::nonzero;

    pub fn of_user() -> bool {
        let limiter = RateLimiter::keyed(Quota::per_minute(nonzero!(100_u32)));
        limiter.check_key(&"ada").is_ok()
    }
}

mod by_address {
    use axum::{Router, routing::get};
    use tower_governor::{GovernorLayer, governor::GovernorConfigBuilder};

    pub fn app() -> Option<Router> {
        let limits = GovernorConfigBuilder::default().per_second(1).burst_size(60).finish()?;
        Some(Router::new().route("/", get(async || "hello")).layer(GovernorLayer::new(limits)))
    }
}

mod by_api_key {
    use std::time::Duration;

    use axum::{Router, http::Request, routing::get};
    use tower_governor::key_extractor::KeyExtractor;
    use tower_governor::{GovernorError, GovernorLayer, governor::GovernorConfigBuilder};

    #[derive(Clone)]
    struct ApiKey;

    impl KeyExtractor for ApiKey {
        type Key = String;

        fn extract<T>(&self, request: &Request<T>) -> Result<String, GovernorError> {
            let key = request.headers().get("x-api-key").and_then(|key| key.to_str().ok());
            key.map(str::to_owned).ok_or(GovernorError::UnableToExtractKey)
        }
    }

    pub fn with_keys() -> Option<Router> {
        let mut limits = GovernorConfigBuilder::default()
            .period(Duration::from_millis(600))
            .burst_size(100)
            .key_extractor(ApiKey);
        let limits = limits.finish()?;
        Some(Router::new().route("/", get(async || "hello")).layer(GovernorLayer::new(limits)))
    }
}

mod several {
    use governor::{Quota, RateLimiter};
    use nonzero_ext::nonzero;

    pub fn transfer() -> bool {
        let per_user = RateLimiter::keyed(Quota::per_minute(nonzero!(10_u32)));
        let everyone = RateLimiter::direct(Quota::per_second(nonzero!(100_u32)));
        per_user.check_key(&"ada").is_ok() && everyone.check().is_ok()
    }
}

mod waits {
    use governor::{Quota, RateLimiter};
    use nonzero_ext::nonzero;

    pub async fn call() {
        let limiter = RateLimiter::direct(Quota::per_second(nonzero!(10_u32)));
        limiter.until_ready().await;
    }
}
