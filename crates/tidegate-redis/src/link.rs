//! Connections to the servers of a store: one server, its primary found through Sentinel, or a node of a cluster.

use std::io;
use std::net;
use std::path::Path;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, Cmd, ConnectionAddr, IntoConnectionInfo,
    RedisConnectionInfo, TlsCertificates, TlsMode, Value,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, spawn_blocking};

use super::error::of_client;
use crate::secret_file::read_secret_file;
use crate::settings::{Secret, StoreForm, StoreSettings, parts_of};
use crate::store::StoreError;

/// The longest time to connect, with its greetings.
const CONNECT: Duration = Duration::from_secs(1);

/// A node of a cluster, by its host and port.
pub(super) type NodeAddress = (String, u16);

/// The data needed to connect, with its secrets read.
pub(super) struct Credentials {
    username: Option<String>,
    password: Option<String>,
    /// The user and the password at Sentinel.
    sentinel: (Option<String>, Option<String>),
    certificates: Option<TlsCertificates>,
}

impl Credentials {
    /// Reads the secrets.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`], if a secret cannot be read.
    pub(super) fn of(settings: &StoreSettings) -> Result<Self, StoreError> {
        let url = &settings.url;
        let password =
            read(settings.password.as_ref())?.or_else(|| parts_of(url).password.map(str::to_owned));
        let sentinel_password = read(settings.sentinel_password.as_ref())?;
        let username = settings.username.clone().or_else(|| url.username().map(str::to_owned));
        let sentinel = (settings.sentinel_username.clone(), sentinel_password);
        Ok(Self { username, password, sentinel, certificates: certificates(settings)? })
    }

    fn info(&self, database: i64) -> RedisConnectionInfo {
        let mut info = RedisConnectionInfo::default()
            .set_db(database)
            .set_lib_name("tidegate", env!("CARGO_PKG_VERSION"));
        if let Some(username) = &self.username {
            info = info.set_username(username);
        }
        if let Some(password) = &self.password {
            info = info.set_password(password);
        }
        info
    }
}

fn read(secret: Option<&Secret>) -> Result<Option<String>, StoreError> {
    secret.map(Secret::read).transpose().map_err(StoreError::Unreadable)
}

/// Reads the certificates to trust and to show, if any are set.
fn certificates(settings: &StoreSettings) -> Result<Option<TlsCertificates>, StoreError> {
    let StoreSettings { tls_roots, tls_cert, tls_key, .. } = settings;
    let root_cert = pem("tls_roots", tls_roots.as_deref(), "certificate", is_certificate)?;
    let client_cert = pem("tls_cert", tls_cert.as_deref(), "certificate", is_certificate)?;
    let client_key = pem("tls_key", tls_key.as_deref(), "private key without a password", |pem| {
        PrivateKeyDer::from_pem_slice(pem).is_ok()
    })?;
    let client_tls = client_cert
        .zip(client_key)
        .map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
    let is_set = root_cert.is_some() || client_tls.is_some();
    Ok(is_set.then_some(TlsCertificates { client_tls, root_cert }))
}

fn is_certificate(pem: &[u8]) -> bool {
    CertificateDer::pem_slice_iter(pem).any(|found| found.is_ok())
}

/// Reads the PEM file of a setting, in which there must be `what`.
fn pem(
    setting: &str,
    path: Option<&Path>,
    what: &str,
    holds: impl Fn(&[u8]) -> bool,
) -> Result<Option<Vec<u8>>, StoreError> {
    let Some(path) = path else { return Ok(None) };
    let why = match read_secret_file(path) {
        Ok(pem) if holds(&pem) => return Ok(Some(pem)),
        Ok(_) => format!("holds no {what}: expected PEM"),
        Err(error) => format!("cannot be read: {error}"),
    };
    let path = path.display();
    Err(StoreError::Unreadable(format!("the file `{path}` of `{setting}` {why}")))
}

/// Connects to the server that the URL names, or to the primary that a Sentinel names.
///
/// # Errors
/// It cannot be reached, does not let this user in, or a secret cannot be read.
pub(super) async fn connect(settings: &StoreSettings) -> Result<MultiplexedConnection, StoreError> {
    let access = access(settings).await?;
    choose_cryptography(settings);
    if let StoreForm::Sentinel { service } = parts_of(&settings.url).form {
        return sentinel(settings, &access, service).await;
    }
    let Some(address) = addresses(settings).pop() else {
        return Err(StoreError::Unreachable("the URL names no host".to_owned()));
    };
    to_server(settings, &access, address).await
}

/// A connection to a single server by plain TCP, whose end can be seen at any time.
#[derive(Debug)]
pub(super) struct PlainSocket {
    socket: net::TcpStream,
    /// The task that reads and writes.
    pub(super) driver: JoinHandle<()>,
}

impl PlainSocket {
    /// Returns whether the server has neither closed the connection nor sent data without a question.
    pub(super) fn is_quiet(&self) -> bool {
        let peeked = self.socket.peek(&mut [0]);
        peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

/// The address of a single server that is reached by plain TCP.
pub(super) fn plain_address(settings: &StoreSettings) -> Option<&NodeAddress> {
    let parts = parts_of(&settings.url);
    let is_plain = matches!(parts.form, StoreForm::Single) && !settings.url.is_tls();
    parts.hosts.first().filter(|_| is_plain)
}

/// Connects to a single server that is reached by plain TCP.
///
/// # Errors
/// The errors of [`connect`].
pub(super) async fn connect_plain(
    settings: &StoreSettings,
    (host, port): &NodeAddress,
) -> Result<(MultiplexedConnection, PlainSocket), StoreError> {
    let access = access(settings).await?;
    let opened = async {
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        let stream = stream.into_std()?;
        let twin = stream.try_clone()?;
        Ok::<_, io::Error>((TcpStream::from_std(stream)?, twin))
    };
    let (stream, socket) =
        opened.await.map_err(|error| StoreError::Unreachable(error.to_string()))?;
    let info = access.info(parts_of(&settings.url).database);
    let opened = MultiplexedConnection::new_with_config(&info, stream, config()).await;
    let (connection, driver) = opened.map_err(of_client)?;
    let driver = tokio::spawn(driver);
    Ok((connection, PlainSocket { socket, driver }))
}

/// Connects to a node of a cluster.
///
/// # Errors
/// The errors of [`connect`].
pub(super) async fn connect_to(
    settings: &StoreSettings,
    (host, port): &NodeAddress,
) -> Result<MultiplexedConnection, StoreError> {
    let access = access(settings).await?;
    choose_cryptography(settings);
    to_server(settings, &access, address(settings, host.clone(), *port)).await
}

/// Reads the data needed to connect. Reading a file may hang, and nothing else on this thread waits
/// for it.
async fn access(settings: &StoreSettings) -> Result<Credentials, StoreError> {
    let settings = settings.clone();
    let access = spawn_blocking(move || Credentials::of(&settings)).await;
    access.map_err(|error| StoreError::Unreadable(error.to_string()))?
}

/// The nodes of a cluster that the URL names.
pub(super) fn nodes_of_url(settings: &StoreSettings) -> Vec<NodeAddress> {
    parts_of(&settings.url).hosts.to_vec()
}

/// Sends a command, and returns the reply.
///
/// # Errors
/// The error of the server, or of the connection.
pub(super) async fn send(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
) -> Result<Value, StoreError> {
    let reply = connection.req_packed_command(command).await;
    reply.and_then(Value::extract_error).map_err(of_client)
}

fn config() -> AsyncConnectionConfig {
    // The dispatcher keeps the deadlines, and waits longer
    // for replies that are late: they say what was taken.
    AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(None)
}

/// The addresses of the URL.
fn addresses(settings: &StoreSettings) -> Vec<ConnectionAddr> {
    let url = &settings.url;
    if let StoreForm::Unix(path) = parts_of(url).form {
        return vec![ConnectionAddr::Unix(path.clone())];
    }
    parts_of(url).hosts.iter().map(|(host, port)| address(settings, host.clone(), *port)).collect()
}

const fn address(settings: &StoreSettings, host: String, port: u16) -> ConnectionAddr {
    if settings.url.is_tls() {
        return ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
    }
    ConnectionAddr::Tcp(host, port)
}

/// A connection to one server.
async fn to_server(
    settings: &StoreSettings,
    access: &Credentials,
    address: ConnectionAddr,
) -> Result<MultiplexedConnection, StoreError> {
    let access_info = access.info(parts_of(&settings.url).database);
    let info = address.into_connection_info().map_err(of_client)?.set_redis_settings(access_info);
    let client = match &access.certificates {
        Some(certificates) => {
            Client::build_with_tls(info, certificates.clone()).map_err(of_client)?
        }
        None => Client::open(info).map_err(of_client)?,
    };
    let connection = client.get_multiplexed_async_connection_with_config(&config()).await;
    connection.map_err(|error| match of_client(error) {
        // A server without TLS takes the handshake for a command, and waits for its end.
        StoreError::Timeout if settings.url.is_tls() => StoreError::Unreachable(
            "no connection with TLS within 1 s: expected a server that speaks TLS; without TLS its URL is \
             redis://"
                .to_owned(),
        ),
        error => error,
    })
}

async fn sentinel(
    settings: &StoreSettings,
    access: &Credentials,
    service: &str,
) -> Result<MultiplexedConnection, StoreError> {
    let all = addresses(settings);
    let mut builder = SentinelClientBuilder::new(all, service, SentinelServerType::Master)
        .map_err(of_client)?
        .set_client_to_redis_db(parts_of(&settings.url).database);
    if let Some(username) = &access.username {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = &access.password {
        builder = builder.set_client_to_redis_password(password);
    }
    if settings.url.is_tls() {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_tls_mode(TlsMode::Secure);
    }
    if let Some(certificates) = &access.certificates {
        builder = builder
            .set_client_to_redis_certificates(certificates.clone())
            .set_client_to_sentinel_certificates(certificates.clone());
    }
    // Sentinel has users and passwords of its own: it is sent none of the servers'.
    if let (username, Some(password)) = &access.sentinel {
        builder = builder.set_client_to_sentinel_password(password);
        if let Some(username) = username {
            builder = builder.set_client_to_sentinel_username(username);
        }
    }
    let mut client = builder.build().map_err(of_client)?;
    let connection = client.get_async_connection_with_config(&config()).await;
    connection.map_err(|error| match of_client(error) {
        // The error does not say which of the two it was.
        StoreError::Denied(text) => StoreError::Denied(format!(
            "{text} (Sentinel is given `sentinel_username` and `sentinel_password_file`, the primary \
             `username` and `password_file`)"
        )),
        error => error,
    })
}

/// Uses this cryptography if the process has chosen none.
fn choose_cryptography(settings: &StoreSettings) {
    if settings.url.is_tls() {
        // An error means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
