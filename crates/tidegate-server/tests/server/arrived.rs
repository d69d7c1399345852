//! SIGTERM: requests that have arrived by then are answered at every listener, even on connections
//! that were not accepted yet.
//!
//! The server is stopped (SIGSTOP) while requests are sent, and continues with SIGTERM already
//! pending.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::process::Server;
use crate::raw::{CHECK, HEALTH, rest};

/// A connection that has sent a request and read this many bytes of its answer.
fn connected(at: SocketAddr, asked: &[u8], bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(asked).unwrap();
    stream.read_exact(&mut vec![0; bytes]).unwrap();
    stream
}

/// Calls of gRPC as they are on the wire: health is asked on these streams, by an empty message.
fn calls(streams: &[u8]) -> Vec<u8> {
    let field = |name: &str, value: &str| {
        let texts = [name, value].map(|text| [&[text.len() as u8][..], text.as_bytes()].concat());
        [&[0][..], &texts[0], &texts[1]].concat()
    };
    let head = [
        field(":method", "POST"),
        field(":scheme", "http"),
        field(":path", "/grpc.health.v1.Health/Check"),
        field("content-type", "application/grpc"),
    ]
    .concat();
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        [&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream][..], payload].concat()
    };
    let call = |stream: &u8| [frame(1, 4, *stream, &head), frame(0, 1, *stream, &[0; 5])].concat();
    streams.iter().flat_map(call).collect()
}

/// The first bytes of a client of HTTP/2.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Reads a frame; its head.
fn frame(stream: &mut TcpStream) -> [u8; 9] {
    let mut head = [0; 9];
    stream.read_exact(&mut head).unwrap();
    let length = usize::from(head[1]) << 8 | usize::from(head[2]);
    stream.read_exact(&mut vec![0; length]).unwrap();
    head
}

/// Reads frames until these streams have ended.
fn until_ended(stream: &mut TcpStream, streams: &[u8]) {
    let mut open = streams.to_vec();
    while !open.is_empty() {
        let head = frame(stream);
        assert_ne!(head[3], 3, "stream {} is reset", head[8]);
        if head[3] == 1 && head[4] & 1 == 1 {
            open.retain(|stream| *stream != head[8]);
        }
    }
}

#[test]
fn what_has_arrived_when_the_signal_comes_is_answered_at_every_listener() {
    let server = Server::with_example();
    let pong = b"+PONG\r\n".len();
    let mut http = connected(server.http, CHECK.as_bytes(), 12);
    let mut admin = connected(server.admin, HEALTH.as_bytes(), 12);
    let mut resp = connected(server.resp, b"PING\r\n", pong);
    let mut grpc = connected(server.grpc, PREFACE, 0);
    frame(&mut grpc);
    server.signal("STOP");
    let mut unseen = [server.http, server.admin, server.resp, server.grpc]
        .map(|at| TcpStream::connect(at).unwrap());
    http.write_all([CHECK, HEALTH, CHECK].concat().as_bytes()).unwrap();
    unseen[0].write_all([CHECK, HEALTH, CHECK].concat().as_bytes()).unwrap();
    admin.write_all(HEALTH.repeat(3).as_bytes()).unwrap();
    unseen[1].write_all(HEALTH.repeat(3).as_bytes()).unwrap();
    resp.write_all(&b"PING\r\n".repeat(3)).unwrap();
    unseen[2].write_all(&b"PING\r\n".repeat(3)).unwrap();
    grpc.write_all(&calls(&[1, 3, 5])).unwrap();
    unseen[3].write_all(&[PREFACE, &calls(&[1, 3, 5])].concat()).unwrap();
    server.signal("TERM");
    server.signal("CONT");
    until_ended(&mut grpc, &[1, 3, 5]);
    let [new_http, new_admin, new_resp, mut new_grpc] = unseen;
    until_ended(&mut new_grpc, &[1, 3, 5]);
    drop((grpc, new_grpc));
    for stream in [http, new_http, admin, new_admin] {
        let came = rest(stream);
        assert_eq!(came.matches("HTTP/1.1 200 OK").count(), 3, "{came}");
    }
    assert_eq!(rest(resp), "+PONG\r\n".repeat(3));
    assert_eq!(rest(new_resp), "+PONG\r\n".repeat(3));
    server.ended_uncut();
}
