//! The description that tools get from the gRPC listener, and its source.
//!
//! `TIDEGATE_BLESS=1` writes the descriptors again from the crate of the messages.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use serde_json::Value;
use tokio_stream::StreamExt;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::process::Server;

const ROOT: &str = "envoy/service/ratelimit/v3/rls.proto";
const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

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
    let metadata: Value = serde_json::from_slice(&output).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "envoy-types").unwrap();
    Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap().to_owned()
}

/// A file and all its dependencies, each after the files that it needs; comments left out.
fn closure(name: &str, all: &HashMap<String, FileDescriptorProto>, found: &mut FileDescriptorSet) {
    if found.file.iter().any(|file| file.name() == name) {
        return;
    }
    let mut file = all.get(name).unwrap_or_else(|| panic!("{name} is not there")).clone();
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
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/grpc/rls.bin");
    if std::env::var_os("TIDEGATE_BLESS").is_some() {
        std::fs::write(&kept, found.encode_to_vec()).unwrap();
    }
    let kept = FileDescriptorSet::decode(std::fs::read(kept).unwrap().as_slice()).unwrap();
    assert!(kept == found, "they differ: TIDEGATE_BLESS=1 rewrites them");
}

#[tokio::test]
async fn a_tool_finds_the_service_and_its_messages() {
    let server = Server::with_example();
    let channel = crate::grpc::channel(&server).await;
    let mut client = ServerReflectionClient::new(channel);
    let ask =
        |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let asked = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(SERVICE.to_owned())),
        ask(MessageRequest::FileByFilename("google/protobuf/duration.proto".to_owned())),
    ];
    let answer = client.server_reflection_info(tokio_stream::iter(asked)).await.unwrap();
    let answers: Vec<_> =
        answer.into_inner().map(|one| one.unwrap().message_response.unwrap()).collect().await;
    let [
        MessageResponse::ListServicesResponse(list),
        MessageResponse::FileDescriptorResponse(file),
        MessageResponse::FileDescriptorResponse(needed),
    ] = answers.as_slice()
    else {
        panic!("{answers:?}");
    };
    let names: Vec<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for service in [SERVICE, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"] {
        assert!(names.contains(&service), "{names:?}");
    }
    let name =
        |response: &[Vec<u8>]| FileDescriptorProto::decode(response[0].as_slice()).unwrap().name;
    assert_eq!(name(&file.file_descriptor_proto).as_deref(), Some(ROOT));
    assert!(name(&needed.file_descriptor_proto).is_some());
}
