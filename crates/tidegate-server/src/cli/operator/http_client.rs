//! An HTTP client of one listener: a connection for each request. Only the commands of operators use it, so it keeps
//! no connection open.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore, crypto};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::server_url::ServerUrl;
use crate::failure::Failure;

/// The longest time for one request and its answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// The most bytes of an answer: the metrics of some 10,000 rules.
const MOST_BYTES: usize = 64 << 20;

/// The address of a server, and the way to reach it.
pub(super) struct HttpClient {
    url: ServerUrl,
    tls: Option<TlsConnector>,
}

impl HttpClient {
    /// Reads the certificates that are to be trusted, if any are needed.
    ///
    /// # Errors
    /// Returns why they cannot be used.
    pub(super) fn new(url: &ServerUrl, roots: Option<&Path>) -> Result<Self, Failure> {
        let tls = url.is_tls.then(|| connector(roots)).transpose()?;
        Ok(Self { url: url.clone(), tls })
    }

    pub(super) const fn url(&self) -> &ServerUrl {
        &self.url
    }

    /// Sends a request, and returns the status and the text of the answer.
    ///
    /// # Errors
    /// Returns why there is no answer.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: &str,
        token: Option<&HeaderValue>,
    ) -> Result<(StatusCode, String), String> {
        let whole = async { self.whole(self.open(method, path, body, token).await?).await };
        timeout(PATIENCE, whole).await.unwrap_or_else(|_| Err(self.too_late()))
    }

    /// Asks for an answer that is read as it comes, and returns its status and its body.
    ///
    /// # Errors
    /// Returns why there is no answer.
    pub(super) async fn stream(
        &self,
        path: &str,
        token: Option<&HeaderValue>,
    ) -> Result<Response<Incoming>, String> {
        // Only the beginning is bounded, because events may be rare.
        let opened = timeout(PATIENCE, self.open(Method::GET, path, "", token)).await;
        opened.unwrap_or_else(|_| Err(self.too_late()))
    }

    fn too_late(&self) -> String {
        format!("{} gives no answer within 10 s", self.url)
    }

    /// Sends a request, and returns the answer before its body.
    async fn open(
        &self,
        method: Method,
        path: &str,
        body: &str,
        token: Option<&HeaderValue>,
    ) -> Result<Response<Incoming>, String> {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header(HOST, self.url.authority());
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.body(Full::from(body.to_owned()));
        let request = request.map_err(|error| format!("the request cannot be made: {error}"))?;
        let url = &self.url;
        let stream = TcpStream::connect((url.host.as_str(), url.port)).await;
        let stream = stream.map_err(|error| format!("no server answers at {url}: {error}"))?;
        let Some(tls) = &self.tls else { return self.exchange(stream, request).await };
        let name = ServerName::try_from(url.host.clone());
        let name = name.map_err(|error| format!("{} has no certificate: {error}", url.host))?;
        let stream = tls.connect(name, stream).await;
        let stream = stream.map_err(|error| {
            format!("{url} cannot be trusted: {error}{}", self.what_helps(&error))
        })?;
        self.exchange(stream, request).await
    }

    /// The way to trust a server, if the error has one.
    fn what_helps(&self, error: &io::Error) -> String {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidMessage(_)) => {
                format!("; without TLS it is http://{}", self.url.authority())
            }
            Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                "; --tls-roots FILE names its authority, or the certificate itself if it has none"
                    .to_owned()
            }
            Some(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => "; expected a URL with a name of the certificate".to_owned(),
            // This cause has no variant of its own, so its text is searched.
            Some(error) if error.to_string().contains("CaUsedAsEndEntity") => {
                "; expected a certificate that signs no others, as `openssl req -x509` makes with \
                 `-addext basicConstraints=critical,CA:FALSE`"
                    .to_owned()
            }
            _ => String::new(),
        }
    }

    /// Sends a request over a new connection, and returns the answer before its body.
    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, String> {
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| self.no_http(&error))?;
        // The connection of hyper moves bytes only while it is polled.
        let driven = tokio::spawn(connection);
        match sender.send_request(request).await {
            Ok(response) => Ok(response),
            // The connection knows better why it was cancelled.
            Err(error) => {
                let error = driven.await.ok().and_then(Result::err).unwrap_or(error);
                Err(self.no_http(&error))
            }
        }
    }

    fn no_http(&self, error: &hyper::Error) -> String {
        let url = &self.url;
        if !error.is_parse() && url.is_tls {
            // The server refuses after the handshake of the client, whose request it does not read any more.
            format!(
                "{url} ends the connection without an answer in HTTP, as a listener with --tls-client-ca does: this \
                 command sends no certificate, but `curl --cert FILE --key FILE` does"
            )
        } else if !error.is_parse() {
            format!("{url} ends the connection without an answer in HTTP")
        } else if url.is_tls {
            format!("{url} does not speak HTTP")
        } else {
            format!("{url} does not speak HTTP; with TLS it is https://{}", url.authority())
        }
    }

    /// The status and the text of an answer.
    ///
    /// # Errors
    /// Returns why it cannot be read.
    pub(super) async fn whole(
        &self,
        response: Response<Incoming>,
    ) -> Result<(StatusCode, String), String> {
        let url = &self.url;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MOST_BYTES).collect().await;
        let body = body.map_err(|error| format!("the answer of {url} cannot be read: {error}"))?;
        let text = String::from_utf8(body.to_bytes().to_vec());
        let text = text.map_err(|_| format!("the answer of {url} is not UTF-8"))?;
        Ok((head.status, text))
    }
}

/// Trusts the authorities of a file, or the authorities of the system.
fn connector(file: Option<&Path>) -> Result<TlsConnector, Failure> {
    let roots = match file {
        Some(file) => roots_of(file)
            .map_err(|why| Failure::usage(format!("{} (--tls-roots): {why}", file.display())))?,
        None => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    let provider = Arc::new(crypto::ring::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| Failure::usage(format!("TLS cannot be used: {error}")))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn roots_of(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for found in CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())? {
        let found = found.map_err(|error| error.to_string())?;
        roots.add(found).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() { Err("expected certificates in PEM".to_owned()) } else { Ok(roots) }
}
