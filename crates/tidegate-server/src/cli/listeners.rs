//! The addresses of the listeners, bound before anything is announced; any listener may be off. `serve.rs` binds all, and
//! gives each socket to [`listener::serve`](crate::listener::serve).

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket};

use super::address::Where;
use super::passed::Passed;
use crate::counts::ListenerCounts;
use crate::failure::Failure;
use crate::listener::AcceptOptions;

/// Connections that the system completes before the server accepts them. The system uses its own
/// bound if that is lower (`net.core.somaxconn`). A client beyond it waits a second or more before
/// it tries again.
const BACKLOG: u32 = 4_096;

/// A listener that is bound.
#[derive(Debug)]
pub(super) struct Listener {
    /// The option that names its address.
    pub(super) option: &'static str,
    pub(super) tcp: TcpListener,
    /// The actual address, also if the port was given as 0.
    pub(super) at: SocketAddr,
    /// True if the socket was passed, and so stays open after this process.
    pub(super) is_passed: bool,
}

impl Listener {
    /// These options, with the counts of this listener.
    pub(super) fn options(
        &self,
        of: &AcceptOptions,
        counts: &Arc<ListenerCounts>,
    ) -> AcceptOptions {
        AcceptOptions { counts: Arc::clone(counts), is_passed: self.is_passed, ..of.clone() }
    }
}

/// Binds an address, unless a socket was passed for it; `None` for a listener that is off.
pub(super) fn bind(
    address: Where,
    option: &'static str,
    passed: &mut Passed,
) -> Result<Option<Listener>, Failure> {
    let Where::At(at) = address else { return Ok(None) };
    let socket = passed.of(option);
    let is_passed = socket.is_some();
    let bound = match socket {
        Some(socket) => taken(socket),
        None => listen(at),
    };
    let bound =
        bound.and_then(|tcp| Ok(Listener { option, at: tcp.local_addr()?, tcp, is_passed }));
    bound.map(Some).map_err(|error| {
        if is_passed {
            return Failure::new(format!(
                "cannot listen on the socket that is passed for {option}: {error}"
            ));
        }
        let hint = hint(error.kind(), at, option);
        Failure::new(format!("cannot listen on {at} ({option}): {error}{hint}"))
    })
}

fn taken(socket: std::net::TcpListener) -> std::io::Result<TcpListener> {
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

fn listen(at: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restart can bind the address immediately.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    socket.listen(BACKLOG)
}

/// A hint about an address that cannot be bound.
fn hint(kind: ErrorKind, at: SocketAddr, option: &str) -> String {
    let ip = at.ip();
    match kind {
        ErrorKind::AddrInUse => format!(
            "; stop what uses it, choose another address with {option}, such as {option} {} for any \
             free port, or do without this listener: {option} off",
            SocketAddr::new(ip, 0)
        ),
        ErrorKind::AddrNotAvailable => format!(
            "; this machine has no address {ip}: choose another with {option}, such as {option} \
             127.0.0.1:{}",
            at.port()
        ),
        ErrorKind::PermissionDenied => format!(
            "; low ports are for the privileged: choose another address with {option}, such as \
             {option} {}",
            SocketAddr::new(ip, usual_port(option))
        ),
        _ => String::new(),
    }
}

/// The default port of a listener.
fn usual_port(option: &str) -> u16 {
    match option {
        "--grpc" => 8081,
        "--resp" => 6380,
        "--admin" => 8082,
        "--probe" => 8083,
        _ => 8080,
    }
}

/// Checks that all can be opened: two listeners cannot share a port, unless it is 0 (any free one),
/// and at least one listener for clients (all but the last two) must be open.
///
/// # Errors
/// Returns the option to change.
pub(super) fn check(listeners: [(&str, Where); 5]) -> Result<(), Failure> {
    let [clients @ .., _operators, _probes] = &listeners;
    if clients.iter().all(|(_, address)| *address == Where::Off) {
        return Err(Failure::usage(
            "--http, --grpc and --resp are all off, so no client could ask for a decision: leave \
             one of them on",
        ));
    }
    let open = listeners.iter().filter_map(|(option, address)| match address {
        // Several listeners may ask for any free port.
        Where::At(at) if at.port() != 0 => Some((*option, *at)),
        Where::At(_) | Where::Off => None,
    });
    let open: Vec<_> = open.collect();
    for (number, (option, at)) in open.iter().enumerate() {
        if let Some((earlier, _)) = open.iter().take(number).find(|(_, other)| other == at) {
            let free = SocketAddr::new(at.ip(), 0);
            return Err(Failure::usage(format!(
                "{earlier} and {option} are both {at}: give one of them another port, such as \
                 {option} {free}"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_use_is_reported_with_the_option_to_change() {
        let at: SocketAddr = "[::1]:80".parse().unwrap();
        for (kind, example) in [
            (ErrorKind::AddrInUse, "such as --admin [::1]:0"),
            (ErrorKind::AddrNotAvailable, "such as --admin 127.0.0.1:80"),
            (ErrorKind::PermissionDenied, "such as --admin [::1]:8082"),
        ] {
            let said = hint(kind, at, "--admin");
            assert!(said.contains("choose another"), "{said}");
            assert!(said.contains(example), "{said}");
        }
    }

    #[tokio::test]
    async fn a_burst_of_clients_is_queued_before_the_first_is_accepted() {
        let loopback = Where::At(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listener = bind(loopback, "--http", &mut Passed::default()).unwrap().unwrap();
        let system = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
        let system = system.map_or(128, |said| said.trim().parse().unwrap());
        // Nobody accepts: a connection beyond the queue is not answered, and would wait in vain.
        let most = std::time::Duration::from_secs(10);
        let clients: Vec<_> = (0..500.min(system))
            .map(|_| std::net::TcpStream::connect_timeout(&listener.at, most).unwrap())
            .collect();
        assert!(!clients.is_empty());
    }
}
