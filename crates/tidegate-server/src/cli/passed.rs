//! Listening sockets that a service manager such as systemd opens and passes on (`LISTEN_FDS`).
//!
//! They stay open while the server is replaced: clients that connect in this time wait until the next server accepts.

use std::env;
use std::net::TcpListener;

use listenfd::ListenFd;

use super::address::Where;
use crate::failure::Failure;

/// The sockets, each for the listener of its name (`LISTEN_FDNAMES`).
#[derive(Default)]
pub(super) struct Passed(Vec<(String, TcpListener)>);

impl Passed {
    /// Takes the sockets that were passed to this process; none if there is no manager. `listeners` are the options
    /// that there can be a socket for.
    ///
    /// # Errors
    /// Returns an error if a socket has no listener or is not of TCP, or a listener has two or is off.
    pub(super) fn take(listeners: &[(&str, Where)]) -> Result<Self, Failure> {
        let mut sockets = ListenFd::from_env();
        let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut names = names.split(':');
        let mut passed = Self::default();
        for number in 0..sockets.len() {
            // The names are in the order of the sockets (sd_listen_fds_with_names).
            let name = names.next().unwrap_or_default();
            let known =
                listeners.iter().find(|(option, _)| option.trim_start_matches("--") == name);
            let why = match (known, sockets.take_tcp_listener(number)) {
                (None, _) => {
                    "has no listener: expected the name http, grpc, resp or admin".to_owned()
                }
                (Some((_, Where::Off)), _) => "is for a listener that is off".to_owned(),
                _ if passed.0.iter().any(|(other, _)| other == name) => {
                    "is not the only one of its name".to_owned()
                }
                (Some(_), Err(error)) => format!("cannot be used: {error}"),
                (Some(_), Ok(socket)) => {
                    passed.0.extend(socket.map(|socket| (name.to_owned(), socket)));
                    continue;
                }
            };
            return Err(Failure::usage(format!(
                "the socket `{name}` that the service manager passes (LISTEN_FDS, LISTEN_FDNAMES) {why}"
            )));
        }
        Ok(passed)
    }

    /// The socket for the listener of an option.
    pub(super) fn of(&mut self, option: &str) -> Option<TcpListener> {
        let name = option.trim_start_matches("--");
        let place = self.0.iter().position(|(other, _)| other == name)?;
        Some(self.0.swap_remove(place).1)
    }
}
