//! Certificates for a test, made by openssl.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

use crate::process::Ended;

/// A folder of keys and certificates: an authority, and the certificates that it signed.
pub(crate) struct Certificates(TempDir);

const KEY: &str = "ecparam -genkey -name prime256v1 -noout -out";
const LEAF: &str = "basicConstraints=critical,CA:FALSE";
const NAMES: &str = "subjectAltName=IP:127.0.0.1,DNS:localhost";

impl Certificates {
    /// `ca.pem`, `server.pem` and `client.pem`, each with its `.key`.
    pub(crate) fn new() -> Self {
        let this = Self::folder();
        this.key("ca");
        this.openssl("req -x509 -new -key ca.key -days 2 -subj /CN=ca -out ca.pem");
        this.leaf("server");
        this.leaf("client");
        this
    }

    /// A folder for other files, in which no certificate is made.
    pub(crate) fn folder() -> Self {
        Self(TempDir::new().unwrap())
    }

    /// A new key and certificate in the place of the server's.
    pub(crate) fn renew_server(&self) {
        self.leaf("server");
    }

    /// The certificates of clients of `others`, which trust the authority of `these`.
    pub(crate) fn with_authority_of(these: &Self, others: &Self) -> Self {
        let mixed = Self::folder();
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

    /// A file of this content that its owner alone reads.
    pub(crate) fn with(&self, name: &str, content: &str) -> String {
        fs::write(self.file(name), content).unwrap();
        self.allow(name, 0o600);
        self.path(name)
    }

    /// Gives a file these permissions.
    pub(crate) fn allow(&self, name: &str, mode: u32) {
        fs::set_permissions(self.file(name), Permissions::from_mode(mode)).unwrap();
    }

    /// A client's certificate with this subject, as `-subj` takes it, and these names besides it; `kinds` are the kinds of
    /// text that openssl may choose.
    pub(crate) fn client_named(&self, name: &str, subject: &[u8], names: &str, kinds: &str) {
        self.key(name);
        let config = format!("[req]\nstring_mask = {kinds}\ndistinguished_name = dn\n[dn]\n");
        fs::write(self.file("openssl.cnf"), config).unwrap();
        let arguments = format!(
            "req -x509 -new -config openssl.cnf -key {name}.key -CA ca.pem -CAkey ca.key -days 2 -addext {LEAF} -addext \
             subjectAltName={names} -out {name}.pem -subj"
        );
        let arguments = arguments.split_whitespace().map(OsStr::new);
        self.run(arguments.chain([OsStr::from_bytes(subject)]));
    }

    /// The flags of a server that shows this certificate.
    pub(crate) fn tls(&self, name: &str) -> [&'static str; 4] {
        let [cert, key] = ["pem", "key"].map(|kind| self.path(&format!("{name}.{kind}")).leak());
        ["--tls-cert", cert, "--tls-key", key]
    }

    /// The flags of a listener of operators who may change, or only read, with the tokens `for-change` and `for-read`.
    pub(crate) fn operators(&self) -> [&'static str; 4] {
        let (change, read) = (self.with("change", "for-change"), self.with("read", "for-read"));
        ["--admin-token-file", change.leak(), "--admin-read-token-file", read.leak()]
    }

    /// The output of curl with the certificate of a client.
    pub(crate) fn curl(&self, client: &str, url: &str, more: &[&str]) -> String {
        let mut command = Command::new("curl");
        command.args(["-s", "--cacert", &self.path("ca.pem"), url]);
        command.args(["--cert", &self.path(&format!("{client}.pem"))]);
        command.args(["--key", &self.path(&format!("{client}.key"))]);
        Ended::of(command.args(more)).out
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
        self.run(arguments.split_whitespace().map(OsStr::new));
    }

    fn run<'a>(&self, arguments: impl Iterator<Item = &'a OsStr>) {
        let mut command = Command::new("openssl");
        command.current_dir(self.0.path()).args(arguments);
        let made = command.output();
        let made = made.expect("openssl cannot be run: install the package `openssl`");
        assert!(made.status.success(), "{command:?}: {}", String::from_utf8_lossy(&made.stderr));
    }
}
