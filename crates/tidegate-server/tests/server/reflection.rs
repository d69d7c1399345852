//! The description that tools get from the gRPC listener. A test of the benchmarks compares it with its source.

use prost::Message;
use prost_types::FileDescriptorProto;
use tokio_stream::StreamExt;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::process::Server;

const ROOT: &str = "envoy/service/ratelimit/v3/rls.proto";
const SERVICE: &str = "envoy.service.ratelimit.v3.RateLimitService";

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
