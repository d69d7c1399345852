//! Connections to the servers of a store: one server, its primary found through Sentinel, or a node of a cluster.

use std::borrow::Cow;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo,
    TlsCertificates, TlsMode, Value,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::task::spawn_blocking;

use super::error::StoreError;
use crate::secret_file::read_secret_file;
use crate::settings::{Form, StoreSettings};

/// The longest time to connect, with its greetings.
const CONNECT: Duration = Duration::from_secs(1);

/// A node of a cluster, by its host and port.
pub(super) type Node = (String, u16);

/// The data needed to connect, with its secrets read.
pub(super) struct Access {
    username: Option<String>,
    password: Option<String>,
    roots: Option<TlsCertificates>,
}

impl Access {
    /// Reads the secrets.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`], if a secret cannot be read.
    pub(super) fn of(settings: &StoreSettings) -> Result<Self, StoreError> {
        let url = &settings.url;
        let password = match &settings.password {
            Some(secret) => Some(secret.read().map_err(StoreError::Unreadable)?),
            None => url.password.clone(),
        };
        let username = settings.username.clone().or_else(|| url.username.clone());
        let roots = settings.tls_roots.as_ref().map(|path| {
            let wrong = |why: &str| {
                StoreError::Unreadable(format!(
                    "the file `{}` of `tls_roots` {why}",
                    path.display()
                ))
            };
            let read = read_secret_file(path);
            let pem = read.map_err(|error| wrong(&format!("can not be read: {error}")))?;
            if !CertificateDer::pem_slice_iter(&pem).any(|certificate| certificate.is_ok()) {
                return Err(wrong("holds no certificate: expected PEM"));
            }
            Ok(TlsCertificates { client_tls: None, root_cert: Some(pem) })
        });
        Ok(Self { username, password, roots: roots.transpose()? })
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

/// Connects to the server that the URL names, or to the primary that a Sentinel names.
///
/// # Errors
/// It cannot be reached, does not let this user in, or a secret cannot be read.
pub(super) async fn connect(settings: &StoreSettings) -> Result<MultiplexedConnection, StoreError> {
    let access = access(settings).await?;
    choose_cryptography(settings);
    if let Form::Sentinel { service } = &settings.url.form {
        return sentinel(settings, &access, service).await;
    }
    let missing = || StoreError::Unreachable("the URL names no host".to_owned());
    let address = addresses(settings).pop().ok_or_else(missing)?;
    to_server(settings, &access, address).await
}

/// Connects to a node of a cluster.
///
/// # Errors
/// The errors of [`connect`].
pub(super) async fn connect_to(
    settings: &StoreSettings,
    (host, port): &Node,
) -> Result<MultiplexedConnection, StoreError> {
    let access = access(settings).await?;
    choose_cryptography(settings);
    to_server(settings, &access, address(settings, host.clone(), *port)).await
}

/// Reads the data needed to connect. Reading a file may hang, and nothing else on this thread waits
/// for it.
async fn access(settings: &StoreSettings) -> Result<Access, StoreError> {
    let settings = settings.clone();
    let access = spawn_blocking(move || Access::of(&settings)).await;
    access.map_err(|error| StoreError::Unreadable(error.to_string()))?
}

/// The nodes of a cluster that the URL names.
pub(super) fn nodes_of_url(settings: &StoreSettings) -> Vec<Node> {
    settings.url.hosts.clone()
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
    Ok(reply.and_then(Value::extract_error)?)
}

/// The command that runs a script.
pub(super) fn command(name: &str, script: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(keys.len()).arg(keys).arg(args);
    command
}

/// Adds the part of the node that runs it to the arguments of a call that counts keys.
pub(super) fn with_part<'a>(args: &'a [Vec<u8>], counts: bool, part: &[u8]) -> Cow<'a, [Vec<u8>]> {
    let mut args = Cow::Borrowed(args);
    if counts
        && !part.is_empty()
        && let Some(last) = args.to_mut().last_mut()
    {
        *last = part.to_vec();
    }
    args
}

fn config() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new().set_connection_timeout(Some(CONNECT)).set_response_timeout(None)
}

/// The addresses of the URL.
fn addresses(settings: &StoreSettings) -> Vec<ConnectionAddr> {
    let url = &settings.url;
    if let Form::Unix(path) = &url.form {
        return vec![ConnectionAddr::Unix(path.clone())];
    }
    url.hosts.iter().map(|(host, port)| address(settings, host.clone(), *port)).collect()
}

const fn address(settings: &StoreSettings, host: String, port: u16) -> ConnectionAddr {
    match settings.url.tls {
        false => ConnectionAddr::Tcp(host, port),
        true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
    }
}

/// A connection to one server.
async fn to_server(
    settings: &StoreSettings,
    access: &Access,
    address: ConnectionAddr,
) -> Result<MultiplexedConnection, StoreError> {
    let info =
        address.into_connection_info()?.set_redis_settings(access.info(settings.url.database));
    let client = match &access.roots {
        Some(roots) => Client::build_with_tls(info, roots.clone())?,
        None => Client::open(info)?,
    };
    Ok(client.get_multiplexed_async_connection_with_config(&config()).await?)
}

async fn sentinel(
    settings: &StoreSettings,
    access: &Access,
    service: &str,
) -> Result<MultiplexedConnection, StoreError> {
    let all = addresses(settings);
    let mut builder = SentinelClientBuilder::new(all, service, SentinelServerType::Master)?
        .set_client_to_redis_db(settings.url.database);
    if let Some(username) = &access.username {
        builder = builder.set_client_to_redis_username(username);
    }
    if let Some(password) = &access.password {
        builder = builder.set_client_to_redis_password(password);
    }
    if settings.url.tls {
        builder = builder
            .set_client_to_redis_tls_mode(TlsMode::Secure)
            .set_client_to_sentinel_tls_mode(TlsMode::Secure);
    }
    if let Some(roots) = &access.roots {
        builder = builder
            .set_client_to_redis_certificates(roots.clone())
            .set_client_to_sentinel_certificates(roots.clone());
    }
    let mut client = builder.build()?;
    Ok(client.get_async_connection_with_config(&config()).await?)
}

/// Uses this cryptography if the process has chosen none.
fn choose_cryptography(settings: &StoreSettings) {
    if settings.url.is_tls() {
        // An error means that one is chosen already.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
}
