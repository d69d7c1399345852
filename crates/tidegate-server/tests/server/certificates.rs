//! Certificates for a test, made by openssl.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// A folder of keys and certificates: an authority, and the certificates that it signed.
pub(crate) struct Certificates(TempDir);

const KEY: &str = "ecparam -genkey -name prime256v1 -noout -out";
const LEAF: &str = "basicConstraints=critical,CA:FALSE";
const NAMES: &str = "subjectAltName=IP:127.0.0.1,DNS:localhost";

impl Certificates {
    /// `ca.pem`, `server.pem` and `client.pem`, each with its `.key`.
    pub(crate) fn new() -> Self {
        let this = Self(TempDir::new().unwrap());
        this.key("ca");
        this.openssl("req -x509 -new -key ca.key -days 2 -subj /CN=ca -out ca.pem");
        this.leaf("server");
        this.leaf("client");
        this
    }

    /// A new key and certificate in the place of the server's.
    pub(crate) fn renew_server(&self) {
        self.leaf("server");
    }

    /// The certificates that clients of `others` present, who trust the authority of `these`.
    pub(crate) fn with_authority_of(these: &Self, others: &Self) -> Self {
        let mixed = Self(TempDir::new().unwrap());
        fs::copy(these.file("ca.pem"), mixed.file("ca.pem")).unwrap();
        for name in ["client.pem", "client.key"] {
            fs::copy(others.file(name), mixed.file(name)).unwrap();
        }
        mixed
    }

    /// An expired certificate, with the key of the server.
    pub(crate) fn expired(&self) -> String {
        fs::write(self.file("extensions"), format!("{NAMES}\n{LEAF}\n")).unwrap();
        self.openssl("req -new -key server.key -subj /CN=localhost -out old.csr");
        self.openssl(
            "x509 -req -in old.csr -signkey server.key -days -1 -extfile extensions -out old.pem",
        );
        self.path("old.pem")
    }

    /// A file of this content.
    pub(crate) fn with(&self, name: &str, content: &str) -> String {
        fs::write(self.file(name), content).unwrap();
        self.path(name)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.file(name).to_str().unwrap().to_owned()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn key(&self, name: &str) {
        self.openssl(&format!("{KEY} {name}.key"));
    }

    fn leaf(&self, name: &str) {
        self.key(name);
        self.openssl(&format!(
            "req -x509 -new -key {name}.key -CA ca.pem -CAkey ca.key -days 2 -subj /CN={name} \
             -addext {NAMES} -addext {LEAF} -out {name}.pem"
        ));
    }

    fn openssl(&self, arguments: &str) {
        let mut command = Command::new("openssl");
        let made = command.current_dir(self.0.path()).args(arguments.split_whitespace()).output();
        let made = made.expect("openssl can not be run: install the package `openssl`");
        assert!(made.status.success(), "{arguments}: {}", String::from_utf8_lossy(&made.stderr));
    }
}
