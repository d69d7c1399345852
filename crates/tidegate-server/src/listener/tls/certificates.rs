//! The certificates of a file, none of them expired. Otherwise an expired certificate would be found by the first
//! client and not by the operator.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, Error, RootCertStore};

use super::{read, wrong};

const CERTIFICATE: &str = "a certificate in PEM, which begins with `-----BEGIN CERTIFICATE-----`";

/// The certificates in the order of the file, at least one.
pub(super) fn current(
    file: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = found.map_err(|error| match error {
        pem::Error::NoItemsFound => none(file),
        error => wrong(file, error, CERTIFICATE),
    })?;
    // A file of other items, such as a key, has no certificate and no error.
    if chain.is_empty() {
        return Err(none(file));
    }
    for (index, certificate) in chain.iter().enumerate() {
        check(certificate, provider).map_err(|why| {
            wrong(file, format!("certificate {} {why}", index + 1), "one that is in force now")
        })?;
    }
    Ok(chain)
}

fn none(file: &Path) -> String {
    wrong(file, "there is no certificate in it", CERTIFICATE)
}

/// Returns whether a certificate can be read and is in force. It is verified as if a server had presented
/// it, and only errors of its form and time count; its owner and its signer are not checked here.
fn check(certificate: &CertificateDer<'_>, provider: &Arc<CryptoProvider>) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    roots
        .add(certificate.clone().into_owned())
        .map_err(|error| format!("cannot be read: {error}"))?;
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    let anyone = ServerName::try_from("localhost").map_err(|error| error.to_string())?;
    match verifier.verify_server_cert(certificate, &[], &anyone, &[], UnixTime::now()) {
        Err(Error::InvalidCertificate(why)) => in_force(&why),
        Ok(_) | Err(_) => Ok(()),
    }
}

fn in_force(why: &CertificateError) -> Result<(), String> {
    use CertificateError as E;
    match why {
        E::Expired | E::ExpiredContext { .. } => Err("has expired".to_owned()),
        E::NotValidYet | E::NotValidYetContext { .. } => Err("is not valid yet".to_owned()),
        E::BadEncoding => Err("cannot be read".to_owned()),
        _ => Ok(()),
    }
}
