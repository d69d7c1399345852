//! TLS from files: the server's certificate, and the clients that it accepts. `cli/guard.rs` loads it at the start
//! and SIGHUP reads it again; [`serve`](super::serve) lets it complete the handshake of each connection.

mod certificates;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::{self, PemObject};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, ServerConfig};
use tidegate::read_secret_file;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::Stream;
use super::socket::Socket;
use super::stream::Transport;
use crate::private_file;

/// The first byte of a client that speaks TLS: the type of its record.
const HANDSHAKE: u8 = 22;

/// The files of certificates and keys, all in PEM.
#[derive(Clone, Debug)]
pub(crate) struct TlsFiles {
    /// The server's certificate, followed by those that lead to one that clients trust.
    pub(crate) cert: PathBuf,
    /// The private key of the first of them.
    pub(crate) key: PathBuf,
    /// The authority of accepted client certificates; without it every client is accepted.
    pub(crate) client_ca: Option<PathBuf>,
}

/// Encrypts connections, with the server's certificate and the protocols that the listener names.
#[derive(Clone)]
pub(crate) struct Tls {
    /// The contents of the files when they were last read without error; all listeners share them.
    contents: Arc<RwLock<Arc<ServerConfig>>>,
    files: TlsFiles,
    /// The protocols inside TLS, the preferred first.
    protocols: Vec<Vec<u8>>,
    /// The answer to a client without TLS.
    needs_tls: &'static [u8],
}

impl Tls {
    /// TLS 1.2 and 1.3 with these files.
    ///
    /// # Errors
    /// Returns the file that cannot be used, the reason, and the expected content: a file cannot be read, is not PEM,
    /// is empty, has expired, or a key belongs to another certificate or may be written by every user.
    pub(crate) fn load(files: &TlsFiles) -> Result<Self, String> {
        let contents = Arc::new(RwLock::new(Arc::new(config(files)?)));
        Ok(Self { contents, files: files.clone(), protocols: Vec::new(), needs_tls: b"" })
    }

    /// Reads the files again: connections that begin from now on, at every listener, use the new
    /// contents; existing ones keep the old. This blocks while it reads, so call it where that is allowed, as in
    /// `spawn_blocking`.
    ///
    /// # Errors
    /// Returns an error as [`Self::load`] does; the contents read before stay in force.
    fn reload(&self) -> Result<(), String> {
        // The files are read outside of the lock, so that a slow disk delays no handshake.
        let contents = Arc::new(config(&self.files)?);
        *self.contents.write().unwrap_or_else(PoisonError::into_inner) = contents;
        Ok(())
    }

    /// Reads the files again, and logs the outcome.
    pub(crate) fn read_again(&self) {
        let certificate = self.files.cert.display();
        match self.reload() {
            Ok(()) => tracing::info!(
                %certificate,
                "certificates are read again, with their keys and authorities"
            ),
            Err(error) => {
                tracing::error!(
                    error,
                    "certificates cannot be used; those read before stay in force"
                );
            }
        }
    }

    /// The same TLS with these protocols inside, the preferred first. A client that names none is
    /// served; one that names only others is not. If the list is empty, protocols are not
    /// negotiated. A client without TLS is answered `needs_tls`.
    pub(crate) fn speaking(&self, protocols: &[&[u8]], needs_tls: &'static [u8]) -> Self {
        let protocols = protocols.iter().map(|name| name.to_vec()).collect();
        Self { protocols, needs_tls, ..self.clone() }
    }

    /// Returns whether only clients with a certificate are accepted.
    pub(crate) const fn asks_for_certificates(&self) -> bool {
        self.files.client_ca.is_some()
    }

    /// Completes a handshake. The client can delay it, so the caller must bound its time.
    pub(crate) async fn accept(&self, mut stream: Socket) -> io::Result<Stream> {
        if !self.needs_tls.is_empty()
            && stream.first_byte().await?.is_some_and(|byte| byte != HANDSHAKE)
        {
            Box::pin(answer_clear(&mut stream, self.needs_tls)).await?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it speaks without TLS"));
        }
        Ok(Transport::Tls(Box::new(self.acceptor().accept(stream).await?)).into())
    }

    /// An acceptor with the contents of the files last read. Its parts are shared, so this is cheap
    /// compared with a handshake.
    fn acceptor(&self) -> TlsAcceptor {
        let contents = Arc::clone(&self.contents.read().unwrap_or_else(PoisonError::into_inner));
        let mut config = ServerConfig::clone(&contents);
        config.alpn_protocols.clone_from(&self.protocols);
        Arc::new(config).into()
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

/// Answers a client that speaks without TLS, and ends the connection.
async fn answer_clear(stream: &mut Socket, answer: &[u8]) -> io::Result<()> {
    // Read, because a socket that is closed with unread input sends a reset, which may overtake the answer.
    let _ = stream.read(&mut [0; 4_096]).await?;
    stream.write_all(answer).await?;
    stream.shutdown().await
}

/// TLS 1.2 and 1.3 with the current contents of the files.
fn config(files: &TlsFiles) -> Result<ServerConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let chain = certificates::current(&files.cert, &provider)?;
    let key = key(&files.key)?;
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(admission(files, provider)?)
        .with_single_cert(chain, key);
    config.map_err(|error| unfit(files, &error))
}

/// The accepted clients: all, or those with a certificate of the authority.
fn admission(
    files: &TlsFiles,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, String> {
    let Some(file) = &files.client_ca else {
        return Ok(WebPkiClientVerifier::no_client_auth());
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates::current(file, &provider)? {
        roots.add(authority).map_err(|error| wrong(file, error, "an authority's certificate"))?;
    }
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| wrong(file, error, "an authority's certificate"))
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let key = PrivateKeyDer::from_pem_slice(&read(file)?).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            wrong(file, "there is no private key in it, or only one that is encrypted", KEY)
        }
        error => wrong(file, error, KEY),
    })?;
    private_file::check(file, "--tls-key")?;
    Ok(key)
}

const KEY: &str = "a private key in PEM, without a passphrase, which begins with `-----BEGIN PRIVATE \
                   KEY-----`";

/// The error of a certificate and a key that do not match.
fn unfit(files: &TlsFiles, error: &rustls::Error) -> String {
    let cert = files.cert.display();
    let key = files.key.display();
    match error {
        rustls::Error::InconsistentKeys(_) => format!(
            "{key} is not the key of the certificate in {cert}: expected the key it was asked for \
             with, and that certificate as the first of its file"
        ),
        other => format!("{cert} and {key} cannot be used: {other}"),
    }
}

/// The error of a file with the wrong contents.
fn wrong(file: &Path, why: impl std::fmt::Display, expected: &str) -> String {
    format!("{}: {why}; expected {expected}", file.display())
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    read_secret_file(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}
