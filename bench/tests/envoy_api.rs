//! The messages with which the server is tested are Envoy's own, field by field. They are compared here because Envoy's
//! own take longer to build than the server. So is the description that tools get from the server:
//! `TIDEGATE_BLESS=1` writes it again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../crates/tidegate-server/tests/server/envoy_api.rs"]
mod envoy_api;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use envoy_api::*;
use envoy_types::pb::envoy::service::ratelimit::v3 as service;
use prost::Message;
use prost_types::value::Kind;
use prost_types::{Duration, FileDescriptorProto, FileDescriptorSet, Struct, Value};
use service::rate_limit_response as response;

/// The bytes once Envoy's own message has read and written them: it leaves out each field that it does not know.
fn through<T: Message + Default>(message: &impl Message) -> Vec<u8> {
    T::decode(&message.encode_to_vec()[..]).unwrap().encode_to_vec()
}

#[test]
fn every_field_of_a_request_is_envoys() {
    let entry = Entry { key: "user".to_owned(), value: "ada".to_owned() };
    let descriptor = RateLimitDescriptor {
        entries: vec![entry],
        limit: Some(RateLimitOverride { requests_per_unit: 5, unit: Unit::Week.into() }),
        hits_addend: Some(u64::MAX),
        is_negative_hits: true,
    };
    let request = RateLimitRequest {
        domain: "edge".to_owned(),
        descriptors: vec![descriptor],
        hits_addend: u32::MAX,
    };
    assert_eq!(through::<service::RateLimitRequest>(&request), request.encode_to_vec());
}

#[test]
fn every_field_of_a_response_is_envoys() {
    let status = DescriptorStatus {
        code: Code::OverLimit.into(),
        current_limit: Some(RateLimit {
            requests_per_unit: 5,
            unit: Unit::Month.into(),
            name: "per-user".to_owned(),
        }),
        limit_remaining: 7,
        duration_until_reset: Some(Duration { seconds: 9, nanos: 1 }),
    };
    let field = HeaderValue {
        key: "retry-after".to_owned(),
        value: "9".to_owned(),
        raw_value: b"9".to_vec(),
    };
    let text = Value { kind: Some(Kind::StringValue("why".to_owned())) };
    let answer = RateLimitResponse {
        overall_code: Code::OverLimit.into(),
        statuses: vec![status],
        response_headers_to_add: vec![field],
        dynamic_metadata: Some(Struct { fields: [("reason".to_owned(), text)].into() }),
    };
    assert_eq!(through::<service::RateLimitResponse>(&answer), answer.encode_to_vec());
}

#[test]
fn codes_and_units_have_envoys_numbers() {
    for number in 0..10 {
        let ours = (Code::try_from(number).ok(), Unit::try_from(number).ok());
        let code = response::Code::try_from(number).ok();
        let unit = response::rate_limit::Unit::try_from(number).ok();
        assert_eq!(format!("{ours:?}"), format!("{:?}", (code, unit)), "{number}");
    }
}

/// The file of the service.
const ROOT: &str = "envoy/service/ratelimit/v3/rls.proto";

/// The output of a program that succeeds.
fn said_by(program: &str, arguments: &[&str]) -> Vec<u8> {
    let mut command = Command::new(program);
    let output = command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The platform of the compiler: dependencies of other platforms may not be there.
fn host() -> String {
    let said = String::from_utf8(said_by("rustc", &["-vV"])).unwrap();
    said.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

/// The path of the sources of the crate of the messages.
fn messages() -> PathBuf {
    let (arguments, host) =
        (["metadata", "--format-version", "1", "--offline", "--locked"], host());
    let arguments = [&arguments[..], &["--filter-platform", &host]].concat();
    let output = said_by(env!("CARGO"), &arguments);
    let metadata: serde_json::Value = serde_json::from_slice(&output).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "envoy-types").unwrap();
    Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned()
}

/// A file and all its dependencies, each after the files that it needs; comments left out.
fn closure(name: &str, all: &HashMap<String, FileDescriptorProto>, found: &mut FileDescriptorSet) {
    if found.file.iter().any(|file| file.name() == name) {
        return;
    }
    let mut file = all.get(name).unwrap().clone();
    file.dependency.iter().for_each(|needed| closure(needed, all, found));
    file.source_code_info = None;
    found.file.push(file);
}

#[test]
fn the_descriptors_are_those_of_the_crate_of_the_messages() {
    let bytes = std::fs::read(messages().join("src/generated/types.bin")).unwrap();
    let all = FileDescriptorSet::decode(bytes.as_slice()).unwrap().file.into_iter();
    let all = all.map(|file| (file.name().to_owned(), file)).collect();
    let mut found = FileDescriptorSet::default();
    closure(ROOT, &all, &mut found);
    let kept =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/tidegate-server/src/grpc/rls.bin");
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(&kept, found.encode_to_vec()).unwrap();
    }
    let kept = FileDescriptorSet::decode(std::fs::read(kept).unwrap().as_slice()).unwrap();
    assert!(kept == found, "they differ: TIDEGATE_BLESS=1 rewrites them");
}
