//! A process that may open few files: every listener has its share, and the log reports when one is
//! full.

use std::net::TcpStream;

use crate::client::Client;
use crate::process::Server;

#[tokio::test]
async fn clients_of_one_listener_leave_file_handles_to_the_others() {
    let mut server = Server::with_file_handles(120);
    assert!(server.logs("fewer file handles").contains("file_handles=120"));
    let _crowd: Vec<_> = (0..200).map(|_| TcpStream::connect(server.resp).unwrap()).collect();
    let full = server.logs("holds as many connections as it may");
    assert!(full.contains(&format!("at={}", server.resp)), "{full}");
    for listener in [server.http, server.admin] {
        let answer = Client::new(listener).get("/healthz").await;
        assert_eq!(answer.status, 200);
    }
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("WARN"), "it warns once: {log}");
}
