//! A client of each protocol, which asks for one unit of a user.

use std::collections::HashMap;

use redis::{Value, cmd};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::client::Client;
use crate::envoy_api::Code;
use crate::grpc::{self, RateLimitServiceClient, descriptor, request_in};
use crate::process::Server;

/// A connection of one protocol.
pub(crate) enum Asker {
    Http(Client),
    Grpc(RateLimitServiceClient),
    Resp(TcpStream),
}

impl Asker {
    /// A client over HTTP/1.1, over HTTP/2, over gRPC, and over RESP, each with its name.
    pub(crate) async fn all(server: &Server) -> [(&'static str, Self); 4] {
        [
            ("HTTP/1.1", Self::Http(server.client())),
            ("HTTP/2", Self::Http(Client::http2(server.http))),
            ("gRPC", Self::Grpc(grpc::client(server).await)),
            ("RESP", Self::Resp(TcpStream::connect(server.resp).await.unwrap())),
        ]
    }

    /// Returns whether a unit of a user is admitted, by limiters that are where they should be.
    pub(crate) async fn admits(&mut self, domain: &str, user: &str) -> bool {
        match self {
            Self::Http(client) => {
                let body = json!({"domain": domain, "descriptor": {"user": user}}).to_string();
                let answer = client.check(&body).await;
                let reported = answer.json();
                let allowed = reported["allowed"].as_bool().unwrap();
                assert_eq!(answer.status, if allowed { 200 } else { 429 }, "{}", answer.text);
                assert_eq!(reported["degraded"], false, "{}", answer.text);
                allowed
            }
            Self::Grpc(client) => {
                let request = request_in(domain, vec![descriptor(&[("user", user)])]);
                let answer = client.should_rate_limit(request).await.unwrap().into_inner();
                assert_ne!(answer.overall_code(), Code::Unknown);
                assert_eq!(answer.dynamic_metadata, None, "it is not degraded");
                answer.overall_code() == Code::Ok
            }
            Self::Resp(connection) => {
                let check = cmd("TG.CHECK").arg(&[domain, "user", user]).get_packed_command();
                connection.write_all(&check).await.unwrap();
                let answer = read_replies(connection, 1).await.remove(0);
                assert_eq!(answer["degraded"], Value::Int(0), "{answer:?}");
                answer["allowed"] == Value::Int(1)
            }
        }
    }
}

/// Reads this many replies of maps.
pub(crate) async fn read_replies(
    connection: &mut TcpStream,
    count: usize,
) -> Vec<HashMap<String, Value>> {
    let mut bytes = Vec::new();
    loop {
        let read = connection.read_buf(&mut bytes).await.unwrap();
        assert!(read > 0, "the server closed the connection");
        let (mut rest, mut parser) = (bytes.as_slice(), redis::Parser::new());
        let replies: Result<Vec<_>, _> =
            (0..count).map(|_| parser.parse_value(&mut rest)).collect();
        if let Ok(replies) = replies {
            let maps = replies.into_iter().map(|reply| redis::from_redis_value(reply).unwrap());
            return maps.collect();
        }
    }
}
