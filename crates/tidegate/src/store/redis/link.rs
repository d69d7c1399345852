//! A connection to the store, in whichever form: one server, its primary found through Sentinel, or a
//! cluster. It is shared by all requests at once.

use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{MultipleNodeRoutingInfo, RoutingInfo};
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo,
    RedisError, TlsCertificates, TlsMode, Value,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::task::spawn_blocking;

use super::error::StoreError;
use super::moves;
use super::newcomers::Newcomers;
use super::shards::Shards;
use crate::secret_file::read_secret_file;
use crate::store::settings::{Form, StoreSettings};

/// How long making a connection may take, its greetings included.
const CONNECT: Duration = Duration::from_secs(1);
/// A connection.
#[derive(Clone)]
pub(super) enum Link {
    Single(MultiplexedConnection),
    Cluster { connection: ClusterConnection, shards: Arc<Shards>, newcomers: Arc<Newcomers> },
}

/// What is needed to connect, secrets looked up.
pub(super) struct Access {
    username: Option<String>,
    password: Option<String>,
    roots: Option<TlsCertificates>,
}

impl Access {
    /// Looks secrets up.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`].
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

impl Link {
    /// Connects anew.
    ///
    /// # Errors
    /// It can not be reached, or does not let this user in; or what is needed to ask can not be read.
    pub(super) async fn connect(settings: &StoreSettings) -> Result<Self, StoreError> {
        // Files may hang: whatever else runs here does not wait for them.
        let read = settings.clone();
        let access = spawn_blocking(move || Access::of(&read)).await;
        let access = access.map_err(|error| StoreError::Unreadable(error.to_string()))??;
        if settings.url.is_tls() {
            choose_cryptography();
        }
        match &settings.url.form {
            Form::Cluster => cluster(settings, access).await,
            Form::Sentinel { service } => sentinel(settings, &access, service).await,
            Form::Single | Form::Unix(_) => single(settings, &access).await,
        }
    }

    /// The parts of a cluster, which may be away by themselves.
    pub(super) fn shards(&self) -> Option<Arc<Shards>> {
        match self {
            Self::Single(_) => None,
            Self::Cluster { shards, .. } => Some(Arc::clone(shards)),
        }
    }

    /// Sends a command about keys, and tells what came back. In a cluster it follows keys that move.
    ///
    /// Nothing is sent twice but what was not run: a node that sends it elsewhere has not run it.
    pub(super) async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        let (connection, newcomers) = match self {
            Self::Single(connection) => return told(connection.req_packed_command(command).await),
            Self::Cluster { connection, newcomers, .. } => (connection, newcomers),
        };
        Box::pin(moves::send(connection, newcomers, command)).await
    }

    /// Sends a command to every primary; what each tells.
    pub(super) async fn send_to_all(&mut self, command: &Cmd) -> Result<Vec<Value>, RedisError> {
        match self {
            Self::Single(connection) => {
                Ok(vec![told(connection.req_packed_command(command).await)?])
            }
            Self::Cluster { connection, .. } => {
                let all = RoutingInfo::MultiNode((MultipleNodeRoutingInfo::AllMasters, None));
                match told(connection.route_command(command.clone(), all).await)? {
                    Value::Map(told) => Ok(told.into_iter().map(|(_, value)| value).collect()),
                    Value::Array(told) => Ok(told),
                    one => Ok(vec![one]),
                }
            }
        }
    }
}

/// An error that came as a value is an error.
pub(super) fn told(answer: Result<Value, RedisError>) -> Result<Value, RedisError> {
    answer?.extract_error()
}

fn config(settings: &StoreSettings) -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECT))
        .set_response_timeout(None)
        .set_pipeline_buffer_size(settings.max_in_flight)
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

async fn single(settings: &StoreSettings, access: &Access) -> Result<Link, StoreError> {
    let missing = || StoreError::Unreachable("the URL names no host".to_owned());
    let address = addresses(settings).pop().ok_or_else(missing)?;
    Ok(Link::Single(to_server(settings, access, address).await?))
}

/// A connection to one server.
async fn to_server(
    settings: &StoreSettings,
    access: &Access,
    address: ConnectionAddr,
) -> Result<MultiplexedConnection, RedisError> {
    let info =
        address.into_connection_info()?.set_redis_settings(access.info(settings.url.database));
    let client = match &access.roots {
        Some(roots) => Client::build_with_tls(info, roots.clone())?,
        None => Client::open(info)?,
    };
    client.get_multiplexed_async_connection_with_config(&config(settings)).await
}

/// A connection to a node of a cluster that another node has named.
pub(super) async fn to_node(
    settings: &StoreSettings,
    access: &Access,
    (host, port): (String, u16),
) -> Result<MultiplexedConnection, RedisError> {
    to_server(settings, access, address(settings, host, port)).await
}

async fn sentinel(
    settings: &StoreSettings,
    access: &Access,
    service: &str,
) -> Result<Link, StoreError> {
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
    Ok(Link::Single(client.get_async_connection_with_config(&config(settings)).await?))
}

async fn cluster(settings: &StoreSettings, access: Access) -> Result<Link, StoreError> {
    let nodes = addresses(settings).into_iter().map(IntoConnectionInfo::into_connection_info);
    let nodes = nodes.collect::<Result<Vec<_>, _>>()?;
    // Left to itself the client would send again what was lost on the way, and take twice.
    let mut builder = ClusterClientBuilder::new(nodes)
        .retries(0)
        .connection_timeout(CONNECT)
        .response_timeout(CONNECT)
        .connection_concurrency_limit(settings.max_in_flight);
    if let Some(username) = &access.username {
        builder = builder.username(username);
    }
    if let Some(password) = &access.password {
        builder = builder.password(password);
    }
    if settings.url.tls {
        builder = builder.tls(TlsMode::Secure);
    }
    if let Some(roots) = &access.roots {
        builder = builder.certs(roots.clone());
    }
    let mut connection = builder.build()?.get_async_connection().await?;
    let shards = connection.req_packed_command(redis::cmd("CLUSTER").arg("SLOTS")).await;
    let shards = Arc::new(Shards::of(&told(shards).unwrap_or_default()));
    let newcomers = Arc::new(Newcomers::new(settings.clone(), access));
    Ok(Link::Cluster { connection, shards, newcomers })
}

/// Where the process has chosen none, what is here is used.
fn choose_cryptography() {
    // An error says that one is chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
