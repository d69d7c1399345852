//! The notifications that a service manager such as systemd waits for.

use std::os::unix::net::UnixDatagram;

use crate::process::Server;

/// The next notification.
fn next(manager: &UnixDatagram) -> String {
    let mut space = [0; 256];
    let read = manager.recv(&mut space).unwrap();
    String::from_utf8(space[..read].to_vec()).unwrap()
}

#[tokio::test]
async fn a_service_manager_is_notified_of_the_start_and_of_the_drain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let server = Server::with_variable("NOTIFY_SOCKET", path.to_str().unwrap());
    assert_eq!(next(&manager), "READY=1\n");
    server.client().get("/healthz").await.succeeded();
    server.signal("TERM");
    assert_eq!(next(&manager), "STOPPING=1\n");
    let log = server.ended(0);
    assert!(!log.contains("NOTIFY_SOCKET"), "{log}");
    manager.set_nonblocking(true).unwrap();
    assert!(manager.recv(&mut [0]).is_err(), "nothing else is sent");
}

#[test]
fn a_service_manager_that_is_not_there_is_one_warning() {
    let mut server = Server::with_variable("NOTIFY_SOCKET", "/nowhere/notify");
    server.logs_with("NOTIFY_SOCKET", &["WARN", "No such file"]);
    let log = server.stopped();
    assert!(!log.contains("NOTIFY_SOCKET"), "{log}");
}
