//! Encrypted listeners: both versions of HTTP, RESP, gRPC, client certificates, slow clients, and
//! invalid files.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::certificates::Certificates;
use crate::grpc::{RateLimitServiceClient, costing, request_in};
use crate::process::{Server, run};
use crate::raw::{self, CHECK, HEALTH, responses};

fn server(files: &Certificates, more: &[&str]) -> Server {
    Server::with_arguments(&[&files.tls("server"), more].concat())
}

/// A client that trusts the authority, names this protocol (or none, as Redis clients do), and
/// presents the certificate of `shows`.
async fn connect(
    files: &Certificates,
    at: SocketAddr,
    protocol: &str,
    shows: Option<&str>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(files.path("ca.pem")).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match shows {
        None => config.with_no_client_auth(),
        Some(name) => {
            let file = |ending| files.path(&format!("{name}.{ending}"));
            let chain = vec![CertificateDer::from_pem_file(file("pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(file("key")).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = Vec::from_iter((!protocol.is_empty()).then(|| protocol.into()));
    let stream = TcpStream::connect(at).await?;
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// All bytes in answer to these, after which the client sends no more.
async fn exchange(mut stream: TlsStream<TcpStream>, sent: &str) -> std::io::Result<String> {
    stream.write_all(sent.as_bytes()).await?;
    stream.shutdown().await?;
    let mut came = String::new();
    stream.read_to_string(&mut came).await?;
    Ok(came)
}

/// The status of a check.
async fn checked(
    files: &Certificates,
    at: SocketAddr,
    shows: Option<&str>,
) -> std::io::Result<String> {
    let came = exchange(connect(files, at, "http/1.1", shows).await?, CHECK).await?;
    Ok(came.lines().next().unwrap_or_default().to_owned())
}

const OK: &str = "HTTP/1.1 200 OK";

#[tokio::test]
async fn both_doors_answer_inside_tls_and_nothing_outside() {
    let files = Certificates::new();
    let server = server(&files, &[]);
    assert!(server.curl().starts_with("curl -i https://"), "{}", server.curl());
    let pasted = server.pasted().printed();
    assert!(pasted.contains("HTTP/2 200"), "{pasted}");
    for at in [server.http, server.admin] {
        let came = exchange(connect(&files, at, "http/1.1", None).await.unwrap(), HEALTH).await;
        assert!(came.unwrap().starts_with(OK));
        let came = raw::exchange(at, HEALTH).await;
        assert!(came.starts_with("HTTP/1.1 400 ") && came.contains("expected https://"), "{came}");
    }
}

#[tokio::test]
async fn the_version_of_http_is_agreed_on_with_the_encryption() {
    let files = Certificates::new();
    let server = server(&files, &[]);
    for protocol in ["h2", "http/1.1"] {
        let stream = connect(&files, server.http, protocol, None).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
    }
    for (at, unknown) in [(server.http, "smtp"), (server.grpc, "http/1.1"), (server.grpc, "redis")]
    {
        let stranger = connect(&files, at, unknown, None).await;
        assert!(stranger.is_err(), "nothing is spoken that both know");
    }
    let stream = connect(&files, server.grpc, "h2", None).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
}

#[tokio::test]
async fn redis_clients_are_answered_inside_tls_and_not_outside() {
    let files = Certificates::new();
    let server = server(&files, &["--tls-client-ca", &files.path("ca.pem")]);
    let stream = connect(&files, server.resp, "redis", Some("client")).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), None, "served whatever protocol it offers");
    let pipeline = "CL.THROTTLE a 1 1 86400\r\n".repeat(3) + "QUIT\r\n";
    let text = exchange(stream, &pipeline).await.unwrap();
    let (admitted, refused) = ("*5\r\n:0\r\n:2\r\n", "*5\r\n:1\r\n:2\r\n:0\r\n");
    assert_eq!((text.matches(admitted).count(), text.matches(refused).count()), (2, 1), "{text}");
    assert!(text.ends_with("+OK\r\n"), "{text}");
    let stranger = connect(&files, server.resp, "", None).await;
    let stranger = async { exchange(stranger?, "PING\r\n").await };
    assert!(!stranger.await.is_ok_and(|text| text.contains("PONG")), "shows no certificate");
    let came = raw::exchange(server.resp, "PING\r\n").await;
    assert!(came.starts_with("-ERR ") && came.contains("expected a rediss://"), "{came}");
}

#[tokio::test]
async fn envoys_service_is_answered_inside_tls_and_not_outside() {
    let files = Certificates::new();
    let server = server(&files, &["--tls-client-ca", &files.path("ca.pem")]);
    let inside = connect(&files, server.grpc, "h2", Some("client")).await.unwrap();
    assert_eq!(statuses(through(inside).await).await, Some(1));
    if let Ok(stranger) = connect(&files, server.grpc, "h2", None).await {
        assert_eq!(statuses(through(stranger).await).await, None, "shows no certificate");
    }
    assert_eq!(statuses(server.grpc).await, None, "in clear");
}

/// The number of statuses that the service there returns for one descriptor; `None` if it does not answer.
async fn statuses(at: SocketAddr) -> Option<usize> {
    let mut client = RateLimitServiceClient::connect(format!("http://{at}")).await.ok()?;
    let request = request_in("default", vec![costing(1, &[("user", "ada")])]);
    let answer = client.should_rate_limit(request).await;
    answer.ok().map(|answer| answer.into_inner().statuses.len())
}

/// An address at which a client without encryption reaches an encrypted connection.
async fn through(mut inside: TlsStream<TcpStream>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut clear, _) = listener.accept().await?;
        copy_bidirectional(&mut clear, &mut inside).await
    });
    at
}

#[tokio::test]
async fn only_clients_of_the_authority_are_let_in() {
    let (files, others) = (Certificates::new(), Certificates::new());
    let server = server(&files, &["--tls-client-ca", &files.path("ca.pem")]);
    assert_eq!(checked(&files, server.http, Some("client")).await.unwrap(), OK);
    assert!(checked(&files, server.http, None).await.is_err(), "shows nothing");
    let strangers = Certificates::with_authority_of(&files, &others);
    assert!(checked(&strangers, server.http, Some("client")).await.is_err(), "another authority's");
    assert!(checked(&files, server.admin, None).await.is_err());
    let admitted = checked(&files, server.admin, Some("client")).await.unwrap();
    assert!(admitted.starts_with("HTTP/1.1"), "{admitted}");
}

#[tokio::test]
async fn who_changes_the_rules_is_logged_by_the_name_in_the_certificate() {
    let files = Certificates::new();
    let rules = "[[rule]]\nname = \"all\"\nalgorithm = \"token_bucket\"\nrate = \"9/1s\"\n";
    let (config, ca) = (files.with("rules.toml", rules), files.path("ca.pem"));
    let more = ["--tls-client-ca", &ca, "--admin-changers", "client", "--config", &config];
    let mut server = server(&files, &more);
    let stream = connect(&files, server.admin, "http/1.1", Some("client")).await.unwrap();
    let (body, bytes) = (rules.replace('9', "8"), rules.len());
    let head = "PUT /v1/rules HTTP/1.1\r\nhost: 127.0.0.1\r\nif-match: *\r\ncontent-type: application/toml";
    let sent = format!("{head}\r\ncontent-length: {bytes}\r\n\r\n{body}");
    let answer = exchange(stream, &sent).await.unwrap();
    assert!(answer.starts_with(OK), "{answer}");
    server.logs_with("another configuration is in force", &[", certificate of client"]);
}

#[tokio::test]
async fn what_is_no_request_is_answered_inside_tls_too() {
    let files = Certificates::new();
    let server = server(&files, &[]);
    let stream = connect(&files, server.http, "http/1.1", None).await.unwrap();
    let came = exchange(stream, &format!("{CHECK}nonsense\r\n\r\n")).await.unwrap();
    let all = responses(&came);
    assert!(all[0].head.starts_with(OK), "{came}");
    assert!(all[1].head.starts_with("HTTP/1.1 400 "), "{came}");
}

#[tokio::test]
async fn clients_that_never_agree_hold_up_nobody_and_not_the_end() {
    let files = Certificates::new();
    let server = server(&files, &[]);
    let mut silent = Vec::new();
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.http).await.unwrap();
        stream.write_all(&[22, 3, 1]).await.unwrap();
        silent.push(stream);
    }
    assert_eq!(checked(&files, server.http, None).await.unwrap(), OK);
    server.signal("TERM");
    server.ended_uncut();
}

/// The certificate that a new connection gets.
async fn shown(files: &Certificates, at: SocketAddr) -> Vec<u8> {
    let stream = connect(files, at, "", None).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn certificates_are_read_again_on_sighup_and_kept_where_the_new_ones_are_broken() {
    let files = Certificates::new();
    let mut server = server(&files, &[]);
    let mut before = connect(&files, server.http, "http/1.1", None).await.unwrap();
    let first = shown(&files, server.resp).await;
    files.renew_server();
    assert_eq!(shown(&files, server.resp).await, first, "before the signal");
    server.reload("certificates are read again");
    let second = shown(&files, server.resp).await;
    assert_ne!(second, first);
    assert_eq!(shown(&files, server.grpc).await, second, "at every listener");
    files.with("server.key", "");
    let said = server.reload("stay in force");
    assert!(said.contains("server.key: there is no private key in it"), "{said}");
    assert_eq!(shown(&files, server.http).await, second);
    before.write_all(CHECK.as_bytes()).await.unwrap();
    let mut answer = [0; OK.len()];
    before.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, OK.as_bytes(), "a connection that was there stays");
}

#[tokio::test]
async fn a_key_that_others_may_write_is_not_taken_on_sighup_and_one_they_read_is_named() {
    let files = Certificates::new();
    let mut server = server(&files, &[]);
    let first = shown(&files, server.http).await;
    files.renew_server();
    for (mode, expected) in [
        (0o666, "server.key (--tls-key): every user of this machine may write it (mode 0666)"),
        (0o644, "--tls-key: every user of this machine may read it"),
    ] {
        files.allow("server.key", mode);
        let said = server.reload("every user of this machine may");
        assert!(said.contains(expected), "{said}");
        let is_taken = mode == 0o644;
        if is_taken {
            server.logs("certificates are read again");
        }
        assert_eq!(shown(&files, server.http).await != first, is_taken, "{mode:o}");
    }
}

/// The server's certificate becomes a pipe without a writer for a while.
#[tokio::test]
async fn a_certificate_that_hangs_holds_up_neither_decisions_nor_the_end() {
    let files = Certificates::new();
    let server = server(&files, &["--threads", "1"]);
    let first = shown(&files, server.http).await;
    std::fs::remove_file(files.path("server.pem")).unwrap();
    let pipe = files.path("server.pem");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    server.signal("HUP");
    // Opened once the server reads.
    let _writer = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    server.signal("HUP");
    assert_eq!(shown(&files, server.http).await, first, "those read before stay in force");
    assert_eq!(checked(&files, server.http, None).await.unwrap(), OK);
    server.signal("TERM");
    server.ended_uncut();
}

#[test]
fn files_that_can_not_be_used_are_named_with_what_was_expected() {
    let files = Certificates::new();
    let server = files.path("server.pem");
    let key = files.path("server.key");
    let other = files.path("client.key");
    let missing = files.path("missing");
    let empty = files.with("empty", "");
    let noise = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let noise = files.with("noise", noise);
    let expired = files.expired();
    let begins = "expected a certificate in PEM, which begins with `-----BEGIN CERTIFICATE-----`";
    let no_key = "there is no private key in it, or only one that is encrypted";
    for (cert, key, ca, expected) in [
        (&missing, &key, None, format!("cannot read {missing}: No such file")),
        (&server, &missing, None, format!("cannot read {missing}: No such file")),
        (&empty, &key, None, format!("{empty}: there is no certificate in it; {begins}")),
        (&key, &key, None, format!("{key}: there is no certificate in it; {begins}")),
        (&server, &empty, None, format!("{empty}: {no_key}; expected a ")),
        (&server, &server, None, format!("{server}: {no_key}; expected")),
        (&noise, &key, None, format!("{noise}: certificate 1 cannot be read")),
        (
            &expired,
            &key,
            None,
            format!("{expired}: certificate 1 has expired; expected one that is in force now"),
        ),
        (&server, &other, None, format!("{other} is not the key of the certificate in {server}")),
        (&server, &key, Some(&empty), format!("{empty}: there is no certificate in it")),
        (
            &server,
            &key,
            Some(&expired),
            format!("{expired}: certificate 1 has expired; expected one that is in force now"),
        ),
    ] {
        let mut arguments = vec!["serve", "--tls-cert", cert, "--tls-key", key];
        arguments.extend(ca.into_iter().flat_map(|ca| ["--tls-client-ca", ca.as_str()]));
        let said = run(&arguments).refused(2);
        assert!(said.starts_with("tidegate: ") && said.contains(&expected), "{said}: {expected}");
    }
    // A missing setting may come from a variable or the file, but is never passed over.
    for (given, missing) in [
        ("--tls-cert", "--tls-key"),
        ("--tls-key", "--tls-cert"),
        ("--tls-client-ca", "--tls-cert"),
    ] {
        run(&["serve", given, &server]).fails(2, &format!("{missing} is missing"));
    }
}
