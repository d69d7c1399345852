//! The files that install the server: their rules are sound, and their proxy limits.

use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::envoy::proxy::Envoy;
use crate::process::{Server, check, config};

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

pub(crate) fn text(file: &str) -> String {
    let file = packaging(file);
    std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

/// The rules in the configuration map of Kubernetes.
pub(crate) fn rules_of_kubernetes() -> String {
    let all = text("kubernetes.yaml");
    let (_, after) = all.split_once("  rules.toml: |\n").unwrap();
    let (rules, _) = after.split_once("---\n").unwrap();
    rules.lines().map(|line| line.trim_start().to_owned() + "\n").collect()
}

#[test]
fn the_rules_of_all_packages_are_sound() {
    for rules in [text("compose/rules.toml"), rules_of_kubernetes()] {
        assert!(rules.contains("[[rule]]"), "{rules}");
        check(config(&rules).path()).printed();
    }
}

#[tokio::test]
async fn envoy_of_the_compose_file_limits_each_user() {
    // So slowly that nothing flows in while the test runs.
    let rules = text("compose/rules.toml");
    let server = Server::with_rules(&rules.replace("1/s", "1/1h"));
    let envoy = Envoy::of_compose(&server).await;
    let client = Client::new(envoy.at);
    let mut answers = Vec::new();
    for _ in 0..12 {
        answers.push(client.get_with("/", &[("x-user", "ada")]).await.status);
    }
    assert_eq!(answers, [[200; 10].as_slice(), &[429; 2]].concat());
    client.get_with("/", &[("x-user", "bob")]).await.succeeded();
}
